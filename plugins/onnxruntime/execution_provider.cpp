#include "execution_provider.h"

#include <malloc.h>

#include <algorithm>
#include <format>
#include <utility>

#include "ctxgen/ctxfile/weight_reference.h"

namespace ctxgen::plugin {
namespace {

/// ONNX Runtime before 1.25 gives nodes that two graphs of one model claim the same names.
constexpr int kFirstWithSeveralGraphs = 25;
constexpr std::uint32_t kFirstWithProfilers = 25;
constexpr std::uint32_t kFirstWithSessionEnd = 27;
constexpr std::uint32_t kFirstWithWeightless = 29;
/// OrtWeightlessSupport: all weights, or those in external data.
constexpr unsigned kWeightlessModes = 3;

bool same_folder(const std::filesystem::path& a, const std::filesystem::path& b) {
  return (a / "").lexically_normal() == (b / "").lexically_normal();
}

/// In ONNX Runtime whatever makes a context unusable is INVALID_GRAPH, also where it is only not
/// known where to look for it.
Result<ResolvedContexts> open_contexts(std::span<const ContextNode> nodes,
                                       const ContextPlaces& places) {
  auto contexts = resolve_contexts(nodes, places);
  if (!contexts && places.folder.empty() && contexts.error().code == ErrorCode::kInvalidArgument) {
    Error error = std::move(contexts).error();
    error.code = ErrorCode::kCorruptContext;
    return std::unexpected(std::move(error));
  }
  return contexts;
}

Result<std::shared_ptr<LoadedPartition>> make_partition(const LoadedPartition::Load& load) {
  return std::make_shared<LoadedPartition>(CTXGEN_TRY(load()));
}

/// Weights in files of the source: where those are is each session's own matter.
bool has_references(const Program& program) {
  return std::ranges::any_of(program.weights, [](const ProgramWeight& weight) {
    return std::ranges::any_of(weight.packed, [](const PackedWeight& packed) {
      return is_reference_layout(packed.layout);
    });
  });
}

}  // namespace

ExecutionProvider::ExecutionProvider(OrtApis ort, std::unique_ptr<Provider> provider,
                                     Result<EpOptions> options, const OrtLogger* logger)
    : EpTable{},
      ort_(ort),
      provider_(std::move(provider)),
      name_(provider_->source()),
      logger_(logger),
      watch_(ort.terminate_flag) {
  if (options) {
    options_ = *std::move(options);
  } else {
    log_message(ort_, logger_, ORT_LOGGING_LEVEL_ERROR, options.error().message);
    options_status_ = std::unexpected(std::move(options).error());
  }
  if (options_.share_ep_contexts) group_ = Workspace::join();
  if (options_.stop_share_ep_contexts) Workspace::stop(group_);
  if (options_.generates) fingerprint_ = provider_->loader()->fingerprint();
  ort_version_supported = ort_.tables_version;
  OrtEp::GetName = [](const OrtEp* self) noexcept {
    return static_cast<const ExecutionProvider*>(self)->name_.c_str();
  };
  fill_compiling();
  fill_running();
}

void ExecutionProvider::fill_compiling() noexcept {
  // An error from here is only logged, and hides the node's: faults are found in Compile.
  OrtEp::GetCapability = [](OrtEp* self, const OrtGraph* graph,
                            OrtEpGraphSupportInfo* info) noexcept -> OrtStatus* {
    auto& ep = *static_cast<ExecutionProvider*>(self);
    return guarded(*ep.ort_.api, "claiming nodes", [&] { return ep.claim(*graph, *info); });
  };
  OrtEp::Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused,
                      std::size_t count, OrtNodeComputeInfo** kernels,
                      OrtNode** context_nodes) noexcept -> OrtStatus* {
    auto& ep = *static_cast<ExecutionProvider*>(self);
    return guarded(*ep.ort_.api, "loading what was compiled", [&] {
      return ep.compile(std::span(graphs, count), std::span(fused, count), kernels, context_nodes);
    });
  };
  // Asked for what goes into the metadata of a context model.
  OrtEp::GetCompiledModelCompatibilityInfo = [](OrtEp* self, const OrtGraph*) noexcept {
    return static_cast<const ExecutionProvider*>(self)->fingerprint_.c_str();
  };
  if (ort_.tables_version >= kFirstWithWeightless)
    GetWeightlessSupport = [](const OrtEp*, unsigned* modes) noexcept -> OrtStatus* {
      *modes = kWeightlessModes;
      return nullptr;
    };
  OrtEp::ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** kernels,
                                      std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) delete static_cast<PartitionKernel*>(kernels[i]);
  };
}

void ExecutionProvider::fill_running() noexcept {
  OrtEp::OnRunStart = [](OrtEp* self, const OrtRunOptions* options) noexcept -> OrtStatus* {
    auto& ep = *static_cast<ExecutionProvider*>(self);
    ep.watch_.begin(options);
    if (ep.trims_at_run_.load(std::memory_order_relaxed) && ep.trims_at_run_.exchange(false))
      (void)::malloc_trim(0);
    return nullptr;
  };
  OrtEp::OnRunEnd = [](OrtEp* self, const OrtRunOptions*, bool) noexcept -> OrtStatus* {
    static_cast<ExecutionProvider*>(self)->watch_.end();
    return nullptr;
  };
  if (ort_.tables_version >= kFirstWithProfilers)
    CreateProfiler = [](OrtEp* self, OrtEpProfilerImpl** profiler) noexcept -> OrtStatus* {
      auto& ep = *static_cast<ExecutionProvider*>(self);
      *profiler = nullptr;
      return guarded(*ep.ort_.api, "making a profiler", [&]() -> Status {
        *profiler = OpProfiles::make_profiler(ep.ort_, ep.logger_, ep.profiles_);
        return {};
      });
    };
  // ONNX Runtime has let go of its weights by then, and malloc keeps what is between other memory. Releases that do not say
  // when a session is ready show it by its first run.
  if (ort_.tables_version >= kFirstWithSessionEnd)
    OnSessionInitializationEnd = [](OrtEp* self) noexcept -> OrtStatus* {
      if (static_cast<ExecutionProvider*>(self)->has_compiled_) (void)::malloc_trim(0);
      return nullptr;
    };
  OrtEp::SetDynamicOptions = [](OrtEp* self, const char* const* keys, const char* const* values,
                                std::size_t count) noexcept -> OrtStatus* {
    auto& ep = *static_cast<ExecutionProvider*>(self);
    return guarded(*ep.ort_.api, "setting options", [&]() -> Status {
      for (std::size_t i = 0; i < count; ++i)
        CTXGEN_CHECK(check_dynamic_option(ep.name_, keys[i], values[i]));
      return {};
    });
  };
}

Status ExecutionProvider::claim(const OrtGraph& graph, OrtEpGraphSupportInfo& info) {
  const OrtNodeFusionOptions fusion{.ort_version_supported = ort_.tables_version,
                                    .drop_constant_initializers = false};
  const auto nodes = CTXGEN_TRY(nodes_of(ort_, graph));
  bool any = false;
  for (const OrtNode* node : nodes) {
    if (!is_ours(ort_, name_, *node)) continue;
    CTXGEN_CHECK(
        from_ort(*ort_.api, ort_.ep->EpGraphSupportInfo_AddNodesToFuse(&info, &node, 1, &fusion)));
    any = true;
  }
  if (any) return {};
  if (!options_status_) return claim_to_refuse(nodes, info);
  if (has_loaded_contexts_ || CTXGEN_TRY(is_body(ort_, graph))) return {};
  const std::string_view reason = why_no_more();
  if (reason.empty()) return claim_ordinary(graph, info);
  log_message(ort_, logger_, ORT_LOGGING_LEVEL_WARNING,
              std::format("{}: what ONNX Runtime 1.{} shows after it had nodes compiled stays with "
                          "its CPU provider (nodes of a function that it expanded, or those around "
                          "a compiled body): {}",
                          name_, ort_.minor_version, reason));
  return {};
}

std::string_view ExecutionProvider::why_no_more() const {
  if (compiled_graphs_ == 0) return "";
  if (ort_.minor_version < kFirstWithSeveralGraphs) return "it takes compiled nodes once";
  // PluginExecutionProvider::Compile puts the new EPContext nodes in place of the earlier ones.
  return options_.generates ? "it writes only the EPContext nodes that were made last" : "";
}

/// With session.disable_model_compile ONNX Runtime refuses what is claimed, so nothing is compiled.
Result<SessionPrograms> ExecutionProvider::compile_ordinary(const OrtGraph& source,
                                                            SessionGraph& graph,
                                                            CacheFolder* cache) {
  if (options_.weightless != WeightlessMode::kNone && !options_.generates)
    return fail(ErrorCode::kUnsupported,
                "ep.enable_weightless_mode: context models leave weights in the source's files "
                "(ep.context_enable=1); a session that compiles for itself packs them in memory");
  const SessionCompiler compiler(*provider_, options_, cache);
  if (options_.disable_compile) return compiler.claim(graph);
  if (!options_.generates) return compiler.compile(graph);
  const auto path = CTXGEN_TRY(model_path(ort_, source));
  context_ = CTXGEN_TRY(GeneratedContext::plan(options_, path, provider_->name()));
  const auto& earlier = context_->earlier();
  const bool is_known = !path.empty() && !is_elsewhere(path);
  if (options_.weightless != WeightlessMode::kNone)
    sources_ = CTXGEN_TRY(SessionSources::find(
        graph.model, is_known ? path : options_.source_model.path, context_->folder(), options_));
  return compiler.compile_for_file(graph, earlier ? &*earlier : nullptr,
                                   sources_ ? &sources_->index() : nullptr);
}

Result<std::unique_ptr<CacheFolder>> ExecutionProvider::open_cache() const {
  if (options_.cache_dir.empty() || options_.disable_compile) return nullptr;
  auto cache = CacheFolder::open(options_.cache_dir, options_.cache_max_bytes);
  if (!cache)
    return fail(ErrorCode::kInvalidArgument, "option \"cache_dir\": {}", cache.error().message);
  return cache;
}

/// What cannot be compiled stays with ONNX Runtime's CPU provider: a model runs that ran without us.
Status ExecutionProvider::claim_ordinary(const OrtGraph& graph, OrtEpGraphSupportInfo& info) {
  const OrtNodeFusionOptions fusion{.ort_version_supported = ort_.tables_version,
                                    .drop_constant_initializers = true};
  const double start_us = steady_us();
  auto cache = open_cache();
  if (!cache) {
    refusal_ = std::unexpected(std::move(cache).error());
    return claim_to_refuse(CTXGEN_TRY(nodes_of(ort_, graph)), info);
  }
  auto read = read_session_graph(ort_, graph);
  auto programs = read ? compile_ordinary(graph, *read, cache->get())
                       : Result<SessionPrograms>(std::unexpected(read.error()));
  if (!programs && (options_.generates || options_.weightless != WeightlessMode::kNone)) {
    refusal_ = std::unexpected(std::move(programs).error());
    return claim_to_refuse(CTXGEN_TRY(nodes_of(ort_, graph)), info);
  }
  if (!programs) {
    log_message(
        ort_, logger_, ORT_LOGGING_LEVEL_WARNING,
        std::format("{}: nothing is compiled, ONNX Runtime's CPU provider runs the model: {}",
                    name_, programs.error().message));
    return {};
  }
  for (const OpenedFile& file : read->files) file.release_pages();  // what runs need comes back
  made_.clear();
  has_compiled_ = has_compiled_ || !programs->partitions.empty();
  trims_at_run_ = has_compiled_ && ort_.tables_version < kFirstWithSessionEnd;
  made_blobs_ = std::move(programs->blobs);
  if (options_.generates) made_content_ = std::move(programs->content);
  std::size_t compiled = 0;
  for (SessionPartition& partition : programs->partitions) {
    std::vector<const OrtNode*> nodes;
    for (const NodeId id : partition.nodes) nodes.push_back(read->nodes[id.index]);
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.ep->EpGraphSupportInfo_AddNodesToFuse(
                                         &info, nodes.data(), nodes.size(), &fusion)));
    made_.push_back({read->model.graph.node(partition.nodes.front()).first_output_name,
                     std::move(partition.program), std::move(partition.attributes)});
    compiled += nodes.size();
  }
  for (const std::string& refusal : programs->refusals)
    log_message(ort_, logger_, ORT_LOGGING_LEVEL_VERBOSE,
                std::format("{}: left: {}", name_, refusal));
  log_message(ort_, logger_, ORT_LOGGING_LEVEL_INFO,
              std::format("{}: {} of {} nodes in {} partitions{}, {:.1f} ms", name_, compiled,
                          programs->nodes, made_.size(), programs->cached ? ", from the cache" : "",
                          (steady_us() - start_us) / 1000));
  return {};
}

/// What the session asks for in vain would be no error where no node is ours: Compile, which gives
/// it, would not be called. So one node is claimed then.
Status ExecutionProvider::claim_to_refuse(std::span<const OrtNode* const> nodes,
                                          OrtEpGraphSupportInfo& info) const {
  if (options_status_ && refusal_) return {};
  const OrtNodeFusionOptions fusion{.ort_version_supported = ort_.tables_version,
                                    .drop_constant_initializers = false};
  for (const OrtNode* node : nodes) {
    std::size_t bodies = 0;  // nodes with bodies cannot be fused as simply
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->Node_GetNumSubgraphs(node, &bodies)));
    if (bodies != 0) continue;
    return from_ort(*ort_.api,
                    ort_.ep->EpGraphSupportInfo_AddNodesToFuse(&info, &node, 1, &fusion));
  }
  return {};
}

Status ExecutionProvider::check_options(std::span<const OrtGraph* const> graphs) const {
  CTXGEN_CHECK(options_status_);
  CTXGEN_CHECK(refusal_);
  if (!options_.generates) return {};
  for (const OrtGraph* graph : graphs)
    for (const OrtNode* node : CTXGEN_TRY(nodes_of(ort_, *graph)))
      if (is_ours(ort_, name_, *node))
        return fail(ErrorCode::kInvalidArgument,
                    "the model is already compiled, for {}: load it without ep.context_enable=1",
                    name_);
  return {};
}

Status ExecutionProvider::check_graph_count() {
  if (++compiled_graphs_ == 1 || ort_.minor_version >= kFirstWithSeveralGraphs) return {};
  return fail(
      ErrorCode::kUnsupported,
      "the model has EPContext nodes in several graphs (--subgraphs): ONNX Runtime 1.{} loads "
      "them in one graph only, 1.{} and later in all",
      ort_.minor_version, kFirstWithSeveralGraphs);
}

bool ExecutionProvider::is_elsewhere(const std::filesystem::path& model) const {
  return !options_.external_data_folder.empty() &&
         same_folder(model.parent_path(), options_.external_data_folder);
}

/// In the model's folder; for a model from memory in that of ep.context_file_path.
Result<ContextPlaces> ExecutionProvider::places(const OrtGraph& graph) const {
  ContextPlaces places;
  places.verify = options_.verify_blobs;
  places.workspace = group_.get();
  if (options_.data.reads())
    places.bin_source = [this](std::string_view name) {
      return options_.data.read(ort_, std::string(name));
    };
  std::filesystem::path path = CTXGEN_TRY(model_path(ort_, graph));
  const bool from_memory = path.empty() || is_elsewhere(path);
  if (!options_.context_file_path.empty() && from_memory) path = options_.context_file_path;
  CTXGEN_CHECK(require_signed(path, from_memory, places));
  if (path.empty()) return places;
  places.folder = path.has_parent_path() ? path.parent_path() : ".";
  return places;
}

/// ONNX Runtime reads the model and what its own nodes need, so their files are compared as they are now, with all others that
/// the signature lists; what is opened here is compared as it is used.
Status ExecutionProvider::require_signed(const std::filesystem::path& model, bool from_memory,
                                         ContextPlaces& places) const {
  const RequiredSignature& required = options_.required_signature;
  if (required.key.empty()) return {};
  if (from_memory)
    return fail(ErrorCode::kInvalidArgument,
                "require_signed: ONNX Runtime does not show the bytes of a model from memory, nor "
                "the path of a model with external initializers elsewhere");
  const std::filesystem::path folder = model.has_parent_path() ? model.parent_path() : ".";
  const auto files = std::make_shared<SignedFiles>(CTXGEN_TRY(SignedFiles::open(required, folder)));
  CTXGEN_CHECK(files->check_all());
  const Blob file = CTXGEN_TRY(map_file(model));
  CTXGEN_CHECK(files->check(model, file.bytes));
  places.accept = [files, folder](std::string_view name, std::span<const std::byte> bytes) {
    return files->check(folder / name, bytes);
  };
  return {};
}

Status ExecutionProvider::judge(const ResolvedContexts& contexts) const {
  for (const std::string& warning :
       CTXGEN_TRY(check_fitness(contexts.contexts, options_.threads))) {
    if (options_.fail_on_suboptimal) return fail(ErrorCode::kVersionMismatch, "{}", warning);
    log_message(ort_, logger_, ORT_LOGGING_LEVEL_WARNING, warning);
  }
  return {};
}

Result<std::unique_ptr<PartitionKernel>> ExecutionProvider::load(
    const ContextNode& node, const OrtNode& source, const OrtNode& fused,
    const OpenContext& context, std::size_t program_index, SourceWeights& sources) const {
  const auto program = context.program(program_index);
  PartitionKernel::NodeNames node_names, fused_names;
  node_names.inputs = CTXGEN_TRY(input_names(ort_, source));
  node_names.outputs = CTXGEN_TRY(output_names(ort_, source));
  fused_names.inputs = CTXGEN_TRY(input_names(ort_, fused));
  fused_names.outputs = CTXGEN_TRY(output_names(ort_, fused));
  auto bindings =
      CTXGEN_TRY_AT(PartitionKernel::bind(*program, node_names, fused_names), "{}", node.where);
  const LoadOptions load{.threads = options_.threads, .kept_plans = options_.kept_plans};
  const auto executable = [&] {
    return context.loader->load(program, sources.blobs_of(*program, context.reader), load, nullptr);
  };
  const bool whole = !has_references(*program);
  const void* const place = whole ? static_cast<const void*>(context.reader->address())
                                  : static_cast<const void*>(context.reader.get());
  const LoadedPartition::Key key{.context = place,
                                 .program = program_index,
                                 .hash = context.reader->program_hash(program_index),
                                 .threads = load.threads,
                                 .kept_plans = load.kept_plans};
  auto partition = whole || group_ != nullptr ? LoadedPartition::shared(key, executable)
                                              : make_partition(executable);
  auto loaded = CTXGEN_TRY_AT(std::move(partition), "{}", node.where);
  return std::make_unique<PartitionKernel>(surroundings(), node.where, std::move(loaded),
                                           std::move(bindings));
}

Result<const ExecutionProvider::Made*> ExecutionProvider::find_made(const OrtGraph& graph) const {
  for (const OrtNode* node : CTXGEN_TRY(nodes_of(ort_, graph)))
    for (const std::string& output : CTXGEN_TRY(output_names(ort_, *node))) {
      const auto found = std::ranges::find(made_, output, &Made::output);
      if (found != made_.end() && found->program != nullptr) return &*found;
    }
  return fail(ErrorCode::kInternal, "ONNX Runtime asks for nodes that were not compiled");
}

Status ExecutionProvider::generate(std::span<const OrtGraph* const> graphs,
                                   std::span<const OrtNode* const> fused_nodes,
                                   OrtNode** context_nodes) {
  CTXGEN_CHECK(context_->write(ort_, *made_content_));
  made_content_.reset();
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const Made* made = CTXGEN_TRY(find_made(*graphs[i]));
    context_nodes[i] =
        CTXGEN_TRY(make_context_node(ort_, *fused_nodes[i], *made->program,
                                     context_->complete(made->attributes, made == made_.data())));
  }
  return {};
}

Result<std::unique_ptr<PartitionKernel>> ExecutionProvider::load_ordinary(
    const OrtGraph& graph, const OrtNode& fused) const {
  const Made* made = CTXGEN_TRY(find_made(graph));
  const Program& program = *made->program;
  PartitionKernel::NodeNames names, fused_names;
  for (const std::uint32_t value : program.inputs)
    names.inputs.push_back(program.values[value].name);
  for (const std::uint32_t value : program.outputs)
    names.outputs.push_back(program.values[value].name);
  fused_names.inputs = CTXGEN_TRY(input_names(ort_, fused));
  fused_names.outputs = CTXGEN_TRY(output_names(ort_, fused));
  const std::string where = std::format("partition \"{}\"", program.name);
  auto bindings = CTXGEN_TRY_AT(PartitionKernel::bind(program, names, fused_names), "{}", where);
  const LoadOptions load{.threads = options_.threads, .kept_plans = options_.kept_plans};
  const auto folder = context_ ? context_->folder() : std::nullopt;
  SourceWeights weights(folder && folder->empty() ? "." : folder.value_or(""),
                        options_.verify_blobs);
  auto executable =
      CTXGEN_TRY_AT(provider_->loader()->load(made->program, weights.blobs_of(program, made_blobs_),
                                              load, nullptr),
                    "{}", where);
  return std::make_unique<PartitionKernel>(surroundings(), where,
                                           std::make_shared<LoadedPartition>(std::move(executable)),
                                           std::move(bindings));
}

Status ExecutionProvider::compile(std::span<const OrtGraph* const> graphs,
                                  std::span<const OrtNode* const> fused_nodes,
                                  OrtNodeComputeInfo** kernels, OrtNode** context_nodes) {
  if (graphs.empty()) return {};
  const double start_us = steady_us();
  CTXGEN_CHECK(check_options(graphs));
  CTXGEN_CHECK(check_graph_count());
  if (!made_.empty()) (void)CTXGEN_TRY(places(*graphs.front()));  // is the model signed?
  has_loaded_contexts_ = made_.empty();
  if (has_loaded_contexts_) return load_contexts(graphs, fused_nodes, kernels);
  // What is stored is ONNX Runtime's, also where a later node fails.
  for (std::size_t i = 0; i < graphs.size(); ++i)
    kernels[i] = CTXGEN_TRY(load_ordinary(*graphs[i], *fused_nodes[i])).release();
  if (made_content_) CTXGEN_CHECK(generate(graphs, fused_nodes, context_nodes));
  log_message(ort_, logger_, ORT_LOGGING_LEVEL_INFO,
              std::format("{}: {} partitions loaded, {:.1f} ms", name_, graphs.size(),
                          (steady_us() - start_us) / 1000));
  made_.clear();
  made_blobs_ = nullptr;
  sources_.reset();
  return {};
}

Status ExecutionProvider::load_contexts(std::span<const OrtGraph* const> graphs,
                                        std::span<const OrtNode* const> fused_nodes,
                                        OrtNodeComputeInfo** kernels) const {
  std::vector<const OrtNode*> sources;
  std::vector<ContextNode> nodes;
  for (const OrtGraph* graph : graphs) {
    const auto inside = CTXGEN_TRY(nodes_of(ort_, *graph));
    if (inside.size() != 1 || !is_ours(ort_, name_, *inside.front()))
      return fail(ErrorCode::kInternal, "a claim of one EPContext node came back as {} nodes",
                  inside.size());
    sources.push_back(inside.front());
    nodes.push_back(CTXGEN_TRY(read_context_node(ort_, *inside.front())));
  }
  const ContextPlaces where = CTXGEN_TRY(places(*graphs.front()));
  const ResolvedContexts contexts = CTXGEN_TRY(open_contexts(nodes, where));
  CTXGEN_CHECK(judge(contexts));
  CTXGEN_CHECK(decompress_weights(contexts.contexts, contexts.programs, options_.threads));
  SourceModel source = options_.source_model;
  source.name = nodes.front().attributes.onnx_model_filename;
  SourceWeights source_weights(where.folder, options_.verify_blobs, where.accept,
                               std::move(source));
  // What is stored is ONNX Runtime's, also where a later node fails.
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto [context, program] = contexts.programs[i];
    kernels[i] = CTXGEN_TRY(load(nodes[i], *sources[i], *fused_nodes[i], contexts.contexts[context],
                                 program, source_weights))
                     .release();
  }
  return {};
}

}  // namespace ctxgen::plugin
