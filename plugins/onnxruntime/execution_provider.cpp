#include "execution_provider.h"

#include <utility>

namespace ctxgen::plugin {
namespace {

/// ONNX Runtime before 1.25 gives nodes that two graphs of one model claim the same names.
constexpr int kFirstWithSeveralGraphs = 25;

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

}  // namespace

ExecutionProvider::ExecutionProvider(OrtApis ort, std::string name, Result<EpOptions> options,
                                     const OrtLogger* logger)
    : EpTable{}, ort_(ort), name_(std::move(name)), logger_(logger), watch_(ort.terminate_flag) {
  if (options) {
    options_ = *std::move(options);
  } else {
    log_message(ort_, logger_, ORT_LOGGING_LEVEL_ERROR, options.error().message);
    options_status_ = std::unexpected(std::move(options).error());
  }
  if (options_.share_ep_contexts) group_ = Workspace::join();
  if (options_.stop_share_ep_contexts) Workspace::stop(group_);
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
                      OrtNode**) noexcept -> OrtStatus* {
    auto& ep = *static_cast<ExecutionProvider*>(self);
    return guarded(*ep.ort_.api, "loading a context", [&] {
      return ep.compile(std::span(graphs, count), std::span(fused, count), kernels);
    });
  };
  OrtEp::ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** kernels,
                                      std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) delete static_cast<PartitionKernel*>(kernels[i]);
  };
}

void ExecutionProvider::fill_running() noexcept {
  OrtEp::OnRunStart = [](OrtEp* self, const OrtRunOptions* options) noexcept -> OrtStatus* {
    static_cast<ExecutionProvider*>(self)->watch_.begin(options);
    return nullptr;
  };
  OrtEp::OnRunEnd = [](OrtEp* self, const OrtRunOptions*, bool) noexcept -> OrtStatus* {
    static_cast<ExecutionProvider*>(self)->watch_.end();
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

Status ExecutionProvider::claim(const OrtGraph& graph, OrtEpGraphSupportInfo& info) const {
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
  return any ? Status{} : claim_to_refuse(nodes, info);
}

/// What the session asks for in vain would be no error where no node is ours: Compile, which gives
/// it, would not be called. So one node is claimed then.
Status ExecutionProvider::claim_to_refuse(std::span<const OrtNode* const> nodes,
                                          OrtEpGraphSupportInfo& info) const {
  if (options_status_ && !options_.generates) return {};
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
  if (!options_.generates) return {};
  for (const OrtGraph* graph : graphs)
    for (const OrtNode* node : CTXGEN_TRY(nodes_of(ort_, *graph)))
      if (is_ours(ort_, name_, *node))
        return fail(ErrorCode::kInvalidArgument,
                    "the model is already compiled, for {}: load it without ep.context_enable=1",
                    name_);
  return fail(ErrorCode::kUnsupported,
              "{} does not compile models inside ONNX Runtime (ep.context_enable=1, CompileModel) "
              "yet; \"ctxgen compile\" does",
              name_);
}

Status ExecutionProvider::check_graph_count() {
  if (++compiled_graphs_ == 1 || ort_.minor_version >= kFirstWithSeveralGraphs) return {};
  return fail(
      ErrorCode::kUnsupported,
      "the model has EPContext nodes in several graphs (--subgraphs): ONNX Runtime 1.{} loads "
      "them in one graph only, 1.{} and later in all",
      ort_.minor_version, kFirstWithSeveralGraphs);
}

/// In the model's folder; for a model from memory in that of ep.context_file_path. With a folder
/// for external initializers ONNX Runtime gives a model from memory (since 1.29 each model) a path
/// there, which says nothing about the model's own place.
Result<ContextPlaces> ExecutionProvider::places(const OrtGraph& graph) const {
  ContextPlaces places;
  places.verify = options_.verify_blobs;
  places.workspace = group_.get();
  std::filesystem::path path = CTXGEN_TRY(model_path(ort_, graph));
  const bool elsewhere = !options_.external_data_folder.empty() &&
                         same_folder(path.parent_path(), options_.external_data_folder);
  if (!options_.context_file_path.empty() && (path.empty() || elsewhere))
    path = options_.context_file_path;
  if (path.empty()) return places;
  places.folder = path.has_parent_path() ? path.parent_path() : ".";
  return places;
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
  LoadStatistics statistics;
  const BlobSource blobs = sources.blobs_of(*program, context.reader);
  auto executable =
      CTXGEN_TRY_AT(context.loader->load(program, blobs, load, &statistics), "{}", node.where);
  return std::make_unique<PartitionKernel>(ort_, watch_, node.where, std::move(executable),
                                           std::move(bindings));
}

Status ExecutionProvider::compile(std::span<const OrtGraph* const> graphs,
                                  std::span<const OrtNode* const> fused_nodes,
                                  OrtNodeComputeInfo** kernels) {
  if (graphs.empty()) return {};
  CTXGEN_CHECK(check_options(graphs));
  CTXGEN_CHECK(check_graph_count());
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
  SourceWeights source_weights(where.folder, options_.verify_blobs);
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
