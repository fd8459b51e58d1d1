#include "report/gather_report.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <format>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "ctxgen/base/atomic_folder.h"
#include "ctxgen/onnx_lite/list_contexts.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/registry/loaders.h"

#include "flags/arguments.h"
#include "report/find_lints.h"
#include "report/source_nodes.h"
#include "running/open_model.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

using Bins = std::vector<std::pair<std::string, Blob>>;

/// "CtxgenDnnlExecutionProvider" -> "dnnl".
std::string provider_of(std::string_view source) {
  constexpr std::string_view kBefore = "Ctxgen", kAfter = "ExecutionProvider";
  if (!source.starts_with(kBefore) || !source.ends_with(kAfter)) return std::string(source);
  std::string name(source.substr(kBefore.size(), source.size() - kBefore.size() - kAfter.size()));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

/// The contexts and programs of our EPContext nodes, those of others left out.
Result<ResolvedContexts> contexts_of(const Blob& model, const ContextPlaces& places) {
  const ListedContexts listed = CTXGEN_TRY(list_contexts(model));
  std::vector<ContextNode> nodes;
  for (const ListedContext& one : listed.nodes)
    if (const ProgramLoader* loader = find_loader(default_loaders(), one.attributes.source))
      nodes.push_back({one.where, one.attributes, one.payload, loader});
  return resolve_contexts(nodes, places);
}

/// A program as its loader shows it, or why it does not.
void show_plans(ReportProgram& one, const OpenContext& context, int threads) {
  const auto* shows = dynamic_cast<const ShowsPlans*>(context.loader);
  if (shows == nullptr) return;
  const std::shared_ptr<const ContextReader> reader = context.reader;
  const BlobSource blobs = [reader](BlobIndex index) { return reader->blob(index); };
  LoadOptions options;
  options.threads = threads;
  auto shown = shows->show_plans(one.program, blobs, options);
  if (shown)
    one.shown = std::move(*shown);
  else
    one.error = shown.error().message;
}

void add_programs(ReportData& data, ResolvedContexts contexts, int threads) {
  std::map<std::pair<std::size_t, std::size_t>, bool> seen;
  data.contexts = std::move(contexts.contexts);
  for (const ProgramPlace& place : contexts.programs) {
    if (!seen.try_emplace({place.context, place.program}, true).second) continue;
    const OpenContext& context = data.contexts[place.context];
    ReportProgram one{.provider = provider_of(context.source),
                      .hash = context.reader->program_hash(place.program).hex(),
                      .context = place.context,
                      .program = context.program(place.program),
                      .shown = {}};
    show_plans(one, context, threads);
    data.programs.push_back(std::move(one));
  }
}

/// Of 32 hex digits; zero if they are not.
Hash128 hash_of(std::string_view digits) {
  constexpr std::size_t kHalf = 16;
  if (digits.size() != 2 * kHalf) return {};
  Hash128 hash;
  const char* const middle = digits.data() + kHalf;
  const bool whole = std::from_chars(digits.data(), middle, hash.high, 16).ptr == middle &&
                     std::from_chars(middle, middle + kHalf, hash.low, 16).ptr == middle + kHalf;
  return whole ? hash : Hash128{};
}

/// What a context model tells of its compile.
CompileReport told_by(const ReportData& data, const Model& context) {
  CompileReport report;
  ModelReport& model = report.models.emplace_back();
  model.output_name = data.facts.name;
  model.model_bytes = data.facts.file_bytes;
  for (const ModelFacts::Partition& partition : data.facts.partitions)
    if (model.input_name.empty()) model.input_name = partition.attributes.onnx_model_filename;
  for (const ReportProgram& one : data.programs) {
    PartitionReport& partition = model.partitions.emplace_back();
    partition.name = one.program->variant_of.empty() ? one.program->name : one.program->variant_of;
    partition.provider = one.provider;
    partition.nodes = one.program->ops.size();
    partition.inputs = one.program->inputs.size();
    partition.outputs = one.program->outputs.size();
    partition.plans = one.program->plans.size();
    for (const ProgramWeight& weight : one.program->weights)
      for (const PackedWeight& packed : weight.packed)
        if (const auto& blobs = data.contexts[one.context].reader->blobs();
            packed.blob.bin_index().value < blobs.size())
          partition.weight_bytes += blobs[packed.blob.bin_index().value].size;
  }
  for (const OpenContext& one : data.contexts) {
    CompileReport::Bin& bin = report.bins.emplace_back();
    bin.name = one.name;
    bin.bytes = one.reader->file_size();
    bin.blobs = one.reader->blobs().size();
    for (const BlobEntry& blob : one.reader->blobs()) bin.weight_bytes += blob.size;
    std::vector<ProgramUser> users;
    std::vector<std::uint64_t> bytes;
    for (const Program& program : one.reader->programs()) users.push_back({program.name, &program});
    for (const BlobEntry& blob : one.reader->blobs()) bytes.push_back(blob.size);
    std::ranges::move(find_shared_blobs(users, bytes), std::back_inserter(report.sharing));
    report.bytes_stored += bin.weight_bytes;
  }
  report.bytes_added = report.bytes_stored;
  for (const SharedBlobs& shared : report.sharing) report.bytes_added += shared.saved_bytes;
  for (const auto& [key, value] : context.metadata)
    if (key == kCompileKeyMetadata) report.key = hash_of(value);
  return report;
}

/// Counts of a context model: ops of programs and nodes that stayed.
void count_nodes(ReportData& data) {
  ModelReport& model = data.compiled.models.front();
  model.nodes = data.nodes.size();
  for (const ShownNode& node : data.nodes) {
    if (node.program != kNoIndex) ++model.compiled_nodes;
    NodeReport& row = model.assignment.emplace_back();
    row.name = node.name;
    row.op_type = node.op_type;
    row.provider = node.provider;
    row.partition = node.program == kNoIndex ? -1 : static_cast<int>(node.program);
  }
}

/// Times by name and kind, to be taken in order by those who run under these.
class TimesByName {
 public:
  explicit TimesByName(std::span<const OpTiming> timings) {
    for (const OpTiming& one : timings)
      queues_[key(one.name, one.kind, one.implementation)].push_back(one.microseconds);
  }
  /// Negative: there is none (left).
  [[nodiscard]] double take(std::string_view name, std::string_view kind,
                            std::string_view implementation) {
    const auto found = queues_.find(key(name, kind, implementation));
    if (found == queues_.end()) return -1;
    auto& [times, next] = found->second;
    return next < times.size() ? times[next++] : -1;
  }

 private:
  struct Queue {
    std::vector<double> times;
    std::size_t next = 0;
    void push_back(double time) { times.push_back(time); }
  };
  static std::string key(std::string_view name, std::string_view kind,
                         std::string_view implementation) {
    return std::format("{}\n{}\n{}", kind, implementation, name);
  }
  std::unordered_map<std::string, Queue> queues_;
};

/// Puts measured times where they belong: steps of the first plan, and nodes that run by themselves.
void spread_times(ReportData& data) {
  TimesByName times(data.measured->ops);
  for (ReportProgram& one : data.programs) {
    if (!one.shown.program || one.shown.plans.empty()) continue;
    for (const PlanStep& step : one.shown.plans.front().steps) {
      const ProgramOp& op = one.shown.program->ops[step.op];
      one.microseconds.push_back(times.take(op.name, op.kind, step.implementation));
    }
  }
  std::unordered_map<std::string_view, std::pair<std::string_view, double>> nodes;
  for (const OpTiming& one : data.measured->ops)
    if (one.implementation == "cpu") nodes.emplace(one.name, std::pair(one.kind, one.microseconds));
  for (ShownNode& node : data.nodes)
    if (const auto found = nodes.find(node.name);
        node.program == kNoIndex && !node.folded && found != nodes.end())
      node.microseconds = found->second.second;
}

Status compare_with(ReportData& data, const Session& session, const std::string& source,
                    const ReportRequest& request) {
  SessionOptions options;
  options.threads = request.flags.options.threads;
  options.external_data_folder = request.flags.options.external_data_folder;
  const auto reference = CTXGEN_TRY(Session::open(source, options));
  const NumericPaths paths = CTXGEN_TRY(common_paths(session, *reference));
  const auto profiles = CTXGEN_TRY(parse_profiles(request.flags.dims, request.flags.shapes));
  const auto inputs = CTXGEN_TRY(random_verification_inputs(session.inputs(), {}, profiles, 0, 1));
  data.verification = CTXGEN_TRY(verify_runs(session, *reference, inputs, paths));
  return {};
}

/// Names instead of paths, so that the report of a model is the same in every folder; and no time where
/// nothing was measured.
void leave_out_place(CompileReport& report, bool measured) {
  for (FileReport& file : report.files) file.path = file.path.filename();
  for (fs::path& file : report.files_read) file = file.filename();
  if (!measured) report.seconds = 0;
}

/// The files of a model that was compiled in memory, as `ctxgen compile` would write them; gives the context model's path.
Result<fs::path> write_compiled(AtomicFolder& folder, const CompiledModel& compiled) {
  const fs::path name = compiled.report.models.front().output_name;
  const auto write = [&](const fs::path& file, const Blob& bytes) {
    return folder.write_file(file,
                             [&](const AtomicFolder::Sink& sink) { return sink(bytes.bytes); });
  };
  std::set<fs::path> folders;
  for (const auto& [file, bytes] : compiled.bins) {
    fs::path above;
    for (const fs::path& part : fs::path(file).parent_path())
      if (above /= part; folders.insert(above).second) CTXGEN_CHECK(folder.make_folder(above));
    CTXGEN_CHECK(write(file, bytes));
  }
  CTXGEN_CHECK(write(name, compiled.model));
  return folder.path() / name;
}

BenchRequest bench_of(const ReportRequest& request) {
  return {.model = request.model,
          .flags = request.flags,
          .compile_flag = {},
          .iterations = request.iterations,
          .profile = {}};
}

/// Load, runs and memory by a process that does nothing else and opens files, as users do; the time of each step by this one.
Status measure_as_asked(ReportData& data, const OpenModel& open, const ReportRequest& request,
                        MeasuringProcess* process) {
  data.iterations = request.iterations;
  if (!request.runs) return {};
  BenchRequest steps = bench_of(request);
  steps.per_op = true;
  steps.iterations = 1;
  data.measured = CTXGEN_TRY(measure_open(open, steps));
  BenchNumbers numbers;
  if (open.compiled) {
    AtomicFolder folder = CTXGEN_TRY(AtomicFolder::scratch());
    const fs::path path = CTXGEN_TRY(write_compiled(folder, *open.compiled));
    numbers = CTXGEN_TRY(process->measure(path)).numbers;
    numbers.compile_ms = open.compile_ms;
  } else {
    numbers = CTXGEN_TRY(process->measure()).numbers;
  }
  data.measured->numbers = numbers;
  return {};
}

/// All that is read from the models, in the order of the report.
Status gather(ReportData& data, const Model& context, const Model* source,
              ResolvedContexts contexts, int threads) {
  data.from_source = source != nullptr;
  add_programs(data, std::move(contexts), threads);
  if (source != nullptr) {
    data.nodes = source_nodes(source->graph, data.compiled.models.front(), data.programs);
  } else {
    data.nodes = compiled_nodes(context.graph, data.programs);
    data.compiled = told_by(data, context);
    count_nodes(data);
  }
  if (data.measured) spread_times(data);
  data.lints = find_lints(data);
  leave_out_place(data.compiled, data.measured.has_value());
  return {};
}

void add_files(ReportData& data, const fs::path& path) {
  CompileReport& report = data.compiled;
  const auto add = [&](const fs::path& file, FileReport::Kind kind, std::uint64_t bytes) {
    report.files.push_back({file, kind, bytes, FileReport::State::kUnchanged});
  };
  for (const CompileReport::Bin& bin : report.bins)
    add(bin.name, FileReport::Kind::kBin, bin.bytes);
  for (const auto& [name, bytes] : data.facts.external_files)
    add(name, FileReport::Kind::kExternalInitializers, bytes);
  add(path.filename(), FileReport::Kind::kModel, data.facts.file_bytes);
}

Result<ReportData> report_context(const ReportRequest& request, MeasuringProcess* process) {
  ReportData data;
  if (request.runs || !request.against.empty()) {
    const OpenModel open =
        CTXGEN_TRY(open_model(request.model, request.flags, request.compile_flag));
    CTXGEN_CHECK(measure_as_asked(data, open, request, process));
    if (!request.against.empty())
      CTXGEN_CHECK(compare_with(data, *open.session, request.against, request));
  } else if (!request.compile_flag.empty()) {
    return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is already compiled", request.compile_flag,
                request.model);
  }
  const fs::path path = request.model;
  const Model context = CTXGEN_TRY(read_model_file(path));
  data.facts = model_facts(context);
  const ContextPlaces places{
      path.has_parent_path() ? path.parent_path() : ".", {}, VerifyBlobs::kNever};
  CTXGEN_CHECK(gather(data, context, nullptr, CTXGEN_TRY(contexts_of(context.source, places)),
                      request.flags.options.threads));
  add_files(data, path);
  return data;
}

Result<ReportData> report_source(const ReportRequest& request, MeasuringProcess* process) {
  const CompileOptions options = CTXGEN_TRY(compile_options(request.flags));
  const ModelInput input = CTXGEN_TRY(model_input(request.model));
  ReportData data;
  CompiledModel compiled;
  if (request.runs || request.verify) {
    OpenModel open = CTXGEN_TRY(open_model(request.model, request.flags, request.compile_flag));
    CTXGEN_CHECK(measure_as_asked(data, open, request, process));
    if (request.verify) CTXGEN_CHECK(compare_with(data, *open.session, request.model, request));
    compiled =
        open.compiled ? std::move(*open.compiled) : CTXGEN_TRY(compile_in_memory(input, options));
  } else {
    compiled = CTXGEN_TRY(compile_in_memory(input, options));
  }
  data.compiled = std::move(compiled.report);
  ReadModelOptions made;
  made.external_data_folder = fs::path(request.model).parent_path();
  made.external_buffers = compiled.bins;
  const Model context = CTXGEN_TRY(read_model(compiled.model, made));
  data.facts = model_facts(context);
  data.facts.name = data.compiled.models.front().output_name;
  ReadModelOptions read;
  read.external_data_folder = options.external_data_folder;
  const Model source = CTXGEN_TRY(read_model_file(request.model, read));
  const Bins bins = std::move(compiled.bins);
  const auto find_bin = [&bins](std::string_view name) -> Result<Blob> {
    for (const auto& [known, blob] : bins)
      if (known == name) return blob;
    return fail(ErrorCode::kInternal, "no bin \"{}\" was compiled", name);
  };
  CTXGEN_CHECK(gather(data, context, &source,
                      CTXGEN_TRY(contexts_of(context.source, {{}, find_bin, VerifyBlobs::kNever})),
                      options.threads));
  return data;
}

}  // namespace

Result<MeasuringProcess> start_measuring(const ReportRequest& request) {
  return MeasuringProcess::start(bench_of(request));
}

Result<ReportData> gather_report(const ReportRequest& request, MeasuringProcess* process) {
  const std::string folder = request.flags.options.external_data_folder.string();
  if (!CTXGEN_TRY(is_context_model(request.model, folder))) {
    if (!request.against.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "--against: \"{}\" is a plain model; --verify compares it with itself",
                  request.model);
    return report_source(request, process);
  }
  if (request.verify)
    return fail(ErrorCode::kInvalidArgument,
                "--verify: \"{}\" is compiled already; --against MODEL names its source",
                request.model);
  return report_context(request, process);
}

Result<ReportData> gather_written(const CompileReport& report, std::size_t index,
                                  const ModelInput& source, const fs::path& context,
                                  const CompileOptions& options) {
  ReportData data;
  data.compiled = report;
  data.compiled.models = {report.models[index]};
  const Model written = CTXGEN_TRY(read_model_file(context));
  data.facts = model_facts(written);
  ReadModelOptions read;
  read.external_data_folder = options.external_data_folder;
  const Model model = CTXGEN_TRY(source.path.empty() ? read_model(source.bytes, read)
                                                     : read_model_file(source.path, read));
  const ContextPlaces places{
      context.has_parent_path() ? context.parent_path() : ".", {}, VerifyBlobs::kNever};
  CTXGEN_CHECK(gather(data, written, &model, CTXGEN_TRY(contexts_of(written.source, places)),
                      options.threads));
  return data;
}

}  // namespace ctxgen::cli
