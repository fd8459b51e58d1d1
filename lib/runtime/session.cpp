#include "ctxgen/runtime/session.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/log.h"
#include "ctxgen/base/memory_limit.h"
#include "ctxgen/base/stopwatch.h"
#include "ctxgen/ctxfile/source_weights.h"
#include "ctxgen/ctxfile/workspace.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "judge/certificate_of.h"
#include "load/content_check.h"
#include "load/context_set.h"
#include "load/inner_values.h"
#include "load/require_signed.h"
#include "load/rounding_paths.h"
#include "load/signature.h"
#include "load/weight_memory.h"
#include "run/executor.h"
#include "run/inputs.h"
#include "run/kept_state.h"
#include "run/run_context.h"
#include "run/state_pairs.h"

namespace ctxgen {
namespace {

using Clock = std::chrono::steady_clock;

struct LoadedPartitions {
  std::vector<LoadedPartition> partitions;
  std::vector<PartitionProgram> programs;
  LoadStatistics statistics;
  WeightPages pages;  // of their weights
};

/// The program with what is made inside of it as further outputs. Not every program may have some: nullptr,
/// and `program` stays what it is.
template <class Load>
std::unique_ptr<Executable> load_shown(std::shared_ptr<const Program>& program,
                                       const Load& load_program, std::vector<InnerValue>& inner) {
  ShownProgram shown = with_inner_values(*program);
  auto executable = load_program(shown.program);
  if (!executable) {
    log(LogLevel::kWarning, "program \"{}\": the values inside of it cannot be shown: {}",
        program->name, executable.error().message);
    return nullptr;
  }
  program = std::move(shown.program);
  inner = std::move(shown.inner);
  return *std::move(executable);
}

Result<LoadedPartitions> load_partitions(const ContextSet& set, const SessionOptions& options,
                                         const ContextPlaces& places) {
  LoadedPartitions loaded{.partitions = {},
                          .programs = {},
                          .statistics = {},
                          .pages = WeightPages(options.weight_memory)};
  SourceWeights sources(
      places.folder, options.verify_blobs, places.accept,
      {.path = options.source_model_path, .bytes = {}, .name = set.source_model_name});
  const LoadOptions load_options{.threads = options.threads, .kept_plans = options.kept_plans};
  for (const std::string& warning : CTXGEN_TRY(check_fitness(set.contexts, options.threads))) {
    if (options.fail_on_suboptimal) return fail(ErrorCode::kNotSatisfied, "{}", warning);
    log(LogLevel::kWarning, "{}", warning);
  }
  std::vector<ProgramPlace> programs;
  for (const ResolvedNode& node : set.nodes) programs.push_back({node.context, node.program});
  CTXGEN_CHECK(decompress_weights(set.contexts, programs, options.threads));
  for (const ResolvedNode& resolved : set.nodes) {
    const OpenContext& context = set.contexts[resolved.context];
    const Graph& graph = *resolved.graph;
    const Node& node = graph.node(resolved.node);
    std::shared_ptr<const Program> program = context.program(resolved.program);
    BoundSignature signature = CTXGEN_TRY(bind_signature(graph, node, *program));
    const BlobSource stored = sources.blobs_of(*program, context.reader);
    const BlobSource blobs = [&stored, &pages = loaded.pages](BlobIndex index) -> Result<Blob> {
      Blob blob = CTXGEN_TRY(stored(index));
      pages.add(blob);
      return blob;
    };
    const auto load_program = [&](const std::shared_ptr<const Program>& one) {
      return context.loader->load(one, blobs, load_options, &loaded.statistics);
    };
    std::unique_ptr<Executable> executable;
    std::vector<InnerValue> inner;
    if (options.inner_values) executable = load_shown(program, load_program, inner);
    if (executable == nullptr)
      executable = CTXGEN_TRY_AT(load_program(program), "{}", node.describe());
    loaded.programs.push_back(
        {&graph, resolved.node, program, context.loader, signature.inputs, signature.outputs});
    loaded.partitions.push_back({&graph, resolved.node, std::move(executable),
                                 std::move(signature.inputs), std::move(signature.outputs),
                                 std::move(inner)});
  }
  return loaded;
}

Status check_fallback(const GraphExecutor& executor, const SessionOptions& options) {
  const Node* node = options.disable_cpu_fallback ? executor.first_cpu_node() : nullptr;
  if (node == nullptr) return {};
  return fail(ErrorCode::kNotSatisfied,
              "{}: a CPU kernel would run it (session.disable_cpu_ep_fallback)", node->describe());
}

class LoadedSession final : public Session {
 public:
  LoadedSession(std::shared_ptr<const Model> model, InputTable inputs,
                std::unique_ptr<GraphExecutor> executor, std::vector<PartitionProgram> programs,
                SessionStatistics statistics, std::vector<StatePair> pairs,
                std::uint64_t max_run_bytes, std::shared_ptr<Workspace> group, ContextSet contexts,
                int threads)
      : group_(std::move(group)),
        model_(std::move(model)),
        inputs_(std::move(inputs)),
        outputs_(output_infos(*model_)),
        executor_(std::move(executor)),
        programs_(std::move(programs)),
        statistics_(statistics),
        kept_pairs_(place_pairs(pairs, inputs_.infos(), outputs_, *executor_, model_->graph)),
        max_run_bytes_(max_run_bytes),
        contexts_(std::move(contexts)),
        threads_(threads) {
    for (const KeptPair& pair : kept_pairs_) pairs_.push_back(pair.names);
  }

  std::span<const IoInfo> inputs() const override { return inputs_.infos(); }
  std::span<const IoInfo> outputs() const override { return outputs_; }
  const SessionStatistics& statistics() const override { return statistics_; }
  PlanStatistics plan_statistics() const override { return executor_->plan_statistics(); }
  std::span<const StatePair> state_pairs() const override { return pairs_; }
  NumericPaths numeric_paths() const override { return follow_roundings(*model_, programs_); }
  Result<std::optional<Certificate>> certificate() const override {
    return read_certificate(contexts_, threads_);
  }
  std::vector<OpPrecision> precisions() const override { return read_precisions(contexts_); }

  Result<std::unique_ptr<RunContext>> make_context() const override {
    return at_boundary("making a run context", [&]() -> Result<std::unique_ptr<RunContext>> {
      return std::make_unique<SessionContext>(inputs_, outputs_, *executor_, kept_pairs_,
                                              max_run_bytes_);
    });
  }

  Result<std::unique_ptr<ModelState>> make_state() const override {
    if (kept_pairs_.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "the session has no pairs of outputs and inputs for a state");
    return at_boundary("making a state", [&]() -> Result<std::unique_ptr<ModelState>> {
      return std::make_unique<KeptState>(kept_pairs_, max_run_bytes_);
    });
  }

  Result<std::vector<Tensor>> run(std::span<const NamedTensor> inputs,
                                  std::vector<OpTiming>* timings) const override {
    return at_boundary("running", [&] { return run_tensors(inputs, timings); });
  }

  Result<std::vector<RuntimeValue>> run_values(std::span<const NamedValue> inputs,
                                               const RunOptions& options) const override {
    return at_boundary("running", [&] {
      std::vector<GivenInput> given;
      for (const NamedValue& named : inputs) given.push_back({named.name, named.value});
      return run_given(
          given, {.timings = options.timings, .stop = options.stop, .observer = options.observer});
    });
  }

 private:
  /// What one call of run() needs; parked between calls.
  struct Context {
    std::unique_ptr<RunState> state;
    std::vector<Binding> bindings;
  };

  Result<std::vector<Tensor>> run_tensors(std::span<const NamedTensor> inputs,
                                          std::vector<OpTiming>* timings) const {
    std::vector<GivenInput> given;
    for (const NamedTensor& named : inputs) given.push_back({named.name, named.tensor});
    std::vector<RuntimeValue> values = CTXGEN_TRY(run_given(given, {.timings = timings}));
    std::vector<Tensor> tensors;
    for (RuntimeValue& value : values) {
      if (!value.is_tensor())
        return fail(ErrorCode::kUnsupported,
                    "output \"{}\" is not a tensor, but {} (run_values() gives it)",
                    outputs_[tensors.size()].name, describe(value));
      tensors.push_back(std::move(value.tensor()));
    }
    return tensors;
  }

  /// What is thrown here, and an error, takes the context with it: its state, or that of a body,
  /// may be half changed.
  Result<std::vector<RuntimeValue>> run_given(std::span<const GivenInput> given,
                                              const RunControl& control) const {
    std::unique_ptr<Context> context = take();
    CTXGEN_CHECK(inputs_.bind(given, context->bindings, context->state->symbols));
    auto outputs = executor_->run(*context->state, context->bindings, control);
    for (Binding& binding : context->bindings) binding.value = RuntimeValue();
    if (outputs) give_back(std::move(context));
    return outputs;
  }

  std::unique_ptr<Context> take() const {
    {
      const std::lock_guard lock(mutex_);
      if (!parked_.empty()) {
        auto context = std::move(parked_.back());
        parked_.pop_back();
        return context;
      }
    }
    auto context = std::make_unique<Context>();
    context->state = executor_->make_state(std::make_shared<TensorPool>(max_run_bytes_));
    return context;
  }
  void give_back(std::unique_ptr<Context> context) const {
    const std::lock_guard lock(mutex_);
    parked_.push_back(std::move(context));
  }

  std::shared_ptr<Workspace> group_;  // kept alive for the other sessions in it; may be null
  std::shared_ptr<const Model> model_;
  InputTable inputs_;
  std::vector<IoInfo> outputs_;
  std::unique_ptr<GraphExecutor> executor_;
  std::vector<PartitionProgram> programs_;
  SessionStatistics statistics_;
  std::vector<KeptPair> kept_pairs_;
  std::vector<StatePair> pairs_;
  std::uint64_t max_run_bytes_;
  ContextSet contexts_;
  int threads_;  // as SessionOptions has them
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> parked_;
};

Result<std::unique_ptr<Session>> load(Model read, std::filesystem::path folder,
                                      const SessionOptions& options, SessionStatistics statistics,
                                      AcceptFile accept) {
  if (options.stop_share_ep_contexts && !options.share_ep_contexts)
    return fail(ErrorCode::kInvalidArgument,
                "ep.stop_share_ep_contexts without ep.share_ep_contexts: there is no group to end");
  const auto model = std::make_shared<const Model>(std::move(read));
  InputTable inputs = CTXGEN_TRY(InputTable::build(*model));
  std::vector<StatePair> pairs =
      CTXGEN_TRY(find_state_pairs(options.states, inputs.infos(), output_infos(*model)));
  auto start = Clock::now();
  std::shared_ptr<Workspace> group = options.share_ep_contexts ? Workspace::join() : nullptr;
  const ContextPlaces places{std::move(folder), options.bin_source, options.verify_blobs,
                             group.get(), std::move(accept)};
  ContextSet set = CTXGEN_TRY(open_contexts(model, places, loaders_of(options)));
  statistics.context_read_ms = milliseconds_since(start);
  start = Clock::now();
  LoadedPartitions loaded = CTXGEN_TRY(load_partitions(set, options, places));
  statistics.load = loaded.statistics;
  statistics.partitions = loaded.partitions.size();
  statistics.program_load_ms = milliseconds_since(start);
  auto executor =
      CTXGEN_TRY(GraphExecutor::build(model, model->graph, std::move(loaded.partitions)));
  statistics.nodes = executor->step_count();
  CTXGEN_CHECK(check_fallback(*executor, options));
  executor->see_constants([&pages = loaded.pages](const RuntimeValue& constant) {
    if (constant.is_tensor() && !constant.tensor().is_string())
      pages.add({constant.tensor().owner(), constant.tensor().bytes()});
  });
  CTXGEN_CHECK(loaded.pages.prepare());
  const std::uint64_t max_run_bytes =
      options.max_run_bytes > 0 ? options.max_run_bytes : default_memory_limit_bytes();
  if (options.stop_share_ep_contexts) Workspace::stop(group);
  return std::make_unique<LoadedSession>(
      model, std::move(inputs), std::move(executor), std::move(loaded.programs), statistics,
      std::move(pairs), max_run_bytes, std::move(group), std::move(set), options.threads);
}

/// The folder that a path's neighbours are in.
std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const std::filesystem::path& path,
                                               const SessionOptions& options) {
  return at_boundary("opening a model", [&]() -> Result<std::unique_ptr<Session>> {
    SessionStatistics statistics;
    const auto start = Clock::now();
    const SignedLoad signed_load = CTXGEN_TRY(SignedLoad::start(options, path));
    ReadModelOptions read_options;
    read_options.external_data_folder = options.external_data_folder;
    read_options.external_buffers = options.external_buffers;
    std::vector<FileRead> external_files;
    read_options.external_files = &external_files;
    Model model = CTXGEN_TRY(read_model_file(path, read_options));
    CTXGEN_CHECK(signed_load.check_model(model, external_files));
    CTXGEN_CHECK(check_content_at_load(model, external_files, options.verify_blobs));
    statistics.model_read_ms = milliseconds_since(start);
    return load(std::move(model), folder_of(path), options, statistics, signed_load.accept());
  });
}

Result<std::unique_ptr<Session>> Session::open_memory(Blob bytes, const SessionOptions& options) {
  return at_boundary("opening a model", [&]() -> Result<std::unique_ptr<Session>> {
    SessionStatistics statistics;
    const auto start = Clock::now();
    const SignedLoad signed_load =
        CTXGEN_TRY(SignedLoad::start(options, options.context_file_path));
    std::filesystem::path folder;
    if (!options.context_file_path.empty()) folder = folder_of(options.context_file_path);
    ReadModelOptions read_options;
    read_options.external_data_folder =
        options.external_data_folder.empty() ? folder : options.external_data_folder;
    read_options.external_buffers = options.external_buffers;
    read_options.file_name = options.context_file_path.filename().string();
    std::vector<FileRead> external_files;
    read_options.external_files = &external_files;
    Model model = CTXGEN_TRY(read_model(std::move(bytes), read_options));
    CTXGEN_CHECK(signed_load.check_model(model, external_files));
    CTXGEN_CHECK(check_content_at_load(model, external_files, options.verify_blobs));
    statistics.model_read_ms = milliseconds_since(start);
    return load(std::move(model), std::move(folder), options, statistics, signed_load.accept());
  });
}

}  // namespace ctxgen
