#include "load/context_set.h"

#include <algorithm>
#include <format>

#include "ctxgen/base/file.h"
#include "ctxgen/onnx_lite/context_node.h"
#include "ctxgen/registry/loaders.h"
#include "ctxgen/runtime/session.h"
#include "ctxgen/weights/external_file.h"

namespace ctxgen {
namespace {

/// The embedded payload, kept alive by the model.
Result<Blob> payload(const std::shared_ptr<const Model>& model, const Node& node) {
  const Attribute* attribute = node.attribute("ep_cache_context");
  if (attribute == nullptr || attribute->kind != AttributeKind::kString || attribute->s.empty())
    return fail(ErrorCode::kCorruptContext,
                "{}: embed_mode is 1, but ep_cache_context holds no payload", node.describe());
  return Blob{model, as_bytes(attribute->s)};
}

std::string sources_of(std::span<const ProgramLoader* const> loaders) {
  std::string text;
  for (const ProgramLoader* loader : loaders)
    text += std::format("{}{}", text.empty() ? "" : ", ", loader->source());
  return text;
}

/// What resolving needs to know of a node.
Result<ContextNode> context_node(const std::shared_ptr<const Model>& model, const Node& node,
                                 std::span<const ProgramLoader* const> loaders) {
  ContextNode result;
  result.where = node.describe();
  result.attributes = CTXGEN_TRY(read_ep_context(node));
  const std::string& source = result.attributes.source;
  result.loader = find_loader(loaders, source);
  if (result.loader == nullptr)
    return fail(ErrorCode::kUnsupported,
                "{}: needs the execution provider \"{}\" of another vendor; ctxgen loads {}",
                node.describe(), source, sources_of(loaders));
  if (result.attributes.main_context == 1 && result.attributes.embed_mode == 1)
    result.payload = CTXGEN_TRY(payload(model, node));
  return result;
}

/// In the order of the graph, the bodies of a node before it.
Status find_nodes(const std::shared_ptr<const Model>& model, const Graph& graph,
                  std::span<const ProgramLoader* const> loaders, std::vector<ContextNode>& found,
                  std::vector<ResolvedNode>& places) {
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId{i});
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs)
        CTXGEN_CHECK(find_nodes(model, *body, loaders, found, places));
    if (!is_ep_context(node)) continue;
    found.push_back(CTXGEN_TRY(context_node(model, node, loaders)));
    places.push_back({&graph, NodeId{i}, 0, 0});
  }
  return {};
}

}  // namespace

std::span<const ProgramLoader* const> loaders_of(const SessionOptions& options) {
  return options.loaders.empty() ? default_loaders() : std::span(options.loaders);
}

std::size_t count_ep_contexts(const Graph& graph) {
  std::size_t count = 0;
  for (const Node& node : graph.nodes()) {
    if (is_ep_context(node)) ++count;
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) count += count_ep_contexts(*body);
  }
  return count;
}

bool is_compiled(const Model& model) {
  return std::ranges::contains(model.metadata, kCompileKeyMetadata,
                               &std::pair<std::string, std::string>::first) ||
         count_ep_contexts(model.graph) > 0;
}

Result<ContextSet> open_contexts(const std::shared_ptr<const Model>& model,
                                 const ContextPlaces& places,
                                 std::span<const ProgramLoader* const> loaders) {
  for (const auto& [key, value] : model->metadata)
    if (key == kExternalFileKey) CTXGEN_CHECK(check_external_file(model->folder, value));
  std::vector<ContextNode> nodes;
  ContextSet set;
  CTXGEN_CHECK(find_nodes(model, model->graph, loaders, nodes, set.nodes));
  ResolvedContexts resolved = CTXGEN_TRY(resolve_contexts(nodes, places));
  set.contexts = std::move(resolved.contexts);
  if (!nodes.empty()) set.source_model_name = nodes.front().attributes.onnx_model_filename;
  for (std::size_t i = 0; i < set.nodes.size(); ++i) {
    set.nodes[i].context = resolved.programs[i].context;
    set.nodes[i].program = resolved.programs[i].program;
  }
  return set;
}

}  // namespace ctxgen
