#include "context_set.h"

#include <algorithm>
#include <format>
#include <optional>

#include "ctxgen/base/file.h"
#include "ctxgen/registry/loaders.h"
#include "ctxgen/weights/external_file.h"
#include "workspace.h"

namespace ctxgen {
namespace {

Result<std::int64_t> flag_attribute(const Node& node, std::string_view name) {
  const Attribute* attribute = node.attribute(name);
  if (attribute == nullptr) return 1;  // the schema's default of both flags
  if (attribute->kind != AttributeKind::kInt || (attribute->i != 0 && attribute->i != 1))
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" is not 0 or 1", node.describe(),
                name);
  return attribute->i;
}

Status text_attribute(const Node& node, std::string_view name, std::string& text) {
  const Attribute* attribute = node.attribute(name);
  if (attribute == nullptr) return {};
  if (attribute->kind != AttributeKind::kString)
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" is no string", node.describe(),
                name);
  text = attribute->s;
  return {};
}

/// The embedded payload, kept alive by the model.
Result<Blob> payload(const std::shared_ptr<const Model>& model, const Node& node) {
  const Attribute* attribute = node.attribute("ep_cache_context");
  if (attribute == nullptr || attribute->kind != AttributeKind::kString || attribute->s.empty())
    return fail(ErrorCode::kCorruptContext,
                "{}: embed_mode is 1, but ep_cache_context holds no payload", node.describe());
  return Blob{model, as_bytes(attribute->s)};
}

Result<Blob> open_bin(const Node& node, const std::string& name, const ContextPlaces& places) {
  if (name.empty())
    return fail(ErrorCode::kCorruptContext,
                "{}: main_context is 1, but ep_cache_context names no context binary",
                node.describe());
  std::string tried;
  std::optional<Error> cause;
  if (places.bin_source) {
    auto blob = places.bin_source(name);
    if (blob) return blob;
    cause = std::move(blob).error();
    tried = "the caller's bin source";
  } else if (!places.folder.empty()) {
    auto blob = map_file_beneath(places.folder, name);
    if (blob) return blob;
    cause = std::move(blob).error();
    tried = (places.folder / name).string();
  } else {
    return fail(ErrorCode::kInvalidArgument,
                "{}: a model from memory needs ep.context_file_path (context_file_path) to find "
                "\"{}\"",
                node.describe(), name);
  }
  // A bin that is not there makes the context unusable: INVALID_GRAPH, whatever the file system
  // said. Out of memory and the like stay what they are.
  const bool missing =
      cause->code == ErrorCode::kIoError || cause->code == ErrorCode::kInvalidGraph;
  return fail(missing ? ErrorCode::kCorruptContext : cause->code,
              "{}: context binary \"{}\" cannot be opened ({}); tried {}", node.describe(), name,
              cause->message, tried);
}

/// One EPContext node while its context is looked for.
struct Candidate {
  const Graph* graph = nullptr;
  NodeId node;
  EpContextAttributes attributes;
  const ProgramLoader* loader = nullptr;
};

std::string sources_of(std::span<const ProgramLoader* const> loaders) {
  std::string text;
  for (const ProgramLoader* loader : loaders)
    text += std::format("{}{}", text.empty() ? "" : ", ", loader->source());
  return text;
}

/// In the order of the graph, the bodies of a node right after it.
Status find_candidates(const Graph& graph, std::span<const ProgramLoader* const> loaders,
                       std::vector<Candidate>& found) {
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId{i});
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs)
        CTXGEN_CHECK(find_candidates(*body, loaders, found));
    if (!is_ep_context(node)) continue;
    Candidate candidate{&graph, NodeId{i}, CTXGEN_TRY(read_ep_context(node)), nullptr};
    const std::string& source = candidate.attributes.source;
    candidate.loader = find_loader(loaders, source);
    if (candidate.loader == nullptr)
      return fail(ErrorCode::kUnsupported,
                  "{}: needs the execution provider \"{}\" of another vendor; ctxgen loads {}",
                  node.describe(), source, sources_of(loaders));
    found.push_back(std::move(candidate));
  }
  return {};
}

/// Opens the context of a primary node, once per name and source; returns its index.
Result<std::size_t> open_primary(const std::shared_ptr<const Model>& model,
                                 const Candidate& candidate, const ContextPlaces& places,
                                 ContextSet& set) {
  const Node& node = candidate.graph->node(candidate.node);
  const EpContextAttributes& attributes = candidate.attributes;
  OpenContext context;
  context.source = attributes.source;
  context.loader = candidate.loader;
  context.embedded = attributes.embed_mode == 1;
  context.name = context.embedded ? node.describe() : attributes.ep_cache_context;
  if (!context.embedded)
    for (std::size_t i = 0; i < set.contexts.size(); ++i)
      if (!set.contexts[i].embedded && set.contexts[i].name == context.name &&
          set.contexts[i].source == context.source)
        return i;
  const auto open = [&]() -> Result<ContextReader> {
    const Blob blob = CTXGEN_TRY(context.embedded ? payload(model, node)
                                                  : open_bin(node, context.name, places));
    return ContextReader::open(blob, context.name, places.verify);
  };
  const bool shared = places.workspace != nullptr && !context.embedded && !places.bin_source &&
                      !places.folder.empty();
  if (shared)
    context.reader =
        CTXGEN_TRY(places.workspace->get(places.folder, context.name, places.verify, open));
  else
    context.reader = std::make_shared<const ContextReader>(CTXGEN_TRY(open()));
  if (context.reader->info().source != context.source)
    return fail(ErrorCode::kCorruptContext,
                "{}: context \"{}\" was written by \"{}\", expected \"{}\"", node.describe(),
                context.name, context.reader->info().source, context.source);
  set.contexts.push_back(std::move(context));
  return set.contexts.size() - 1;
}

/// Why a partition may be missing: bin and models are renamed one after the other.
constexpr std::string_view kOtherCompile =
    "; the model and its context are of different compiles (one was interrupted, or the context is "
    "another model's): compile again";

/// Context and program of a node that leans on the primary contexts.
Result<ResolvedNode> find_in_all(const Node& node, const Candidate& candidate,
                                 const ContextSet& set) {
  const std::string& name = candidate.attributes.partition_name;
  std::optional<ResolvedNode> found;
  std::string looked;
  for (std::size_t i = 0; i < set.contexts.size(); ++i) {
    const OpenContext& context = set.contexts[i];
    if (context.source != candidate.attributes.source) continue;
    looked += std::format("{}\"{}\"", looked.empty() ? "" : ", ", context.name);
    const auto program = context.reader->find(name);
    if (!program) continue;
    if (found)
      return fail(ErrorCode::kCorruptContext,
                  "{}: partition \"{}\" is in two contexts, \"{}\" and \"{}\"", node.describe(),
                  name, set.contexts[found->context].name, context.name);
    found = ResolvedNode{candidate.graph, candidate.node, i, *program};
  }
  if (found) return *found;
  if (looked.empty())
    return fail(ErrorCode::kCorruptContext,
                "{}: main_context is 0, but no node of source \"{}\" has main_context 1",
                node.describe(), candidate.attributes.source);
  return fail(ErrorCode::kCorruptContext, "{}: partition \"{}\" is in none of the contexts {}{}",
              node.describe(), name, looked, kOtherCompile);
}

/// The model and its bin are renamed one after the other: a kill in between leaves two that do not
/// belong together, which shows in the program's hash.
Status check_hash(const Node& node, const EpContextAttributes& attributes, Hash128 found) {
  constexpr std::string_view key = "hash=";
  if (attributes.notes.empty()) return {};
  std::string_view rest = attributes.notes;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (!part.starts_with(key)) continue;
    if (part.substr(key.size()) == found.hex()) return {};
    return fail(ErrorCode::kCorruptContext,
                "{}: interrupted compile: partition \"{}\" has program {}, the model expects {}; "
                "compile again",
                node.describe(), attributes.partition_name, found.hex(), part.substr(key.size()));
  }
  return fail(ErrorCode::kCorruptContext, "{}: attribute \"notes\" holds no program hash",
              node.describe());
}

}  // namespace

bool is_ep_context(const Node& node) {
  return node.op_type == kEpContextOpType && node.domain == kMicrosoftDomain;
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

Result<EpContextAttributes> read_ep_context(const Node& node) {
  EpContextAttributes result;
  result.main_context = CTXGEN_TRY(flag_attribute(node, "main_context"));
  result.embed_mode = CTXGEN_TRY(flag_attribute(node, "embed_mode"));
  if (result.embed_mode == 0)
    CTXGEN_CHECK(text_attribute(node, "ep_cache_context", result.ep_cache_context));
  CTXGEN_CHECK(text_attribute(node, "ep_sdk_version", result.ep_sdk_version));
  CTXGEN_CHECK(text_attribute(node, "onnx_model_filename", result.onnx_model_filename));
  CTXGEN_CHECK(text_attribute(node, "hardware_architecture", result.hardware_architecture));
  CTXGEN_CHECK(text_attribute(node, "partition_name", result.partition_name));
  CTXGEN_CHECK(text_attribute(node, "source", result.source));
  CTXGEN_CHECK(text_attribute(node, "notes", result.notes));
  result.max_size = node.int_or("max_size", 0);
  return result;
}

Result<ContextSet> open_contexts(const std::shared_ptr<const Model>& model,
                                 const ContextPlaces& places,
                                 std::span<const ProgramLoader* const> loaders) {
  for (const auto& [key, value] : model->metadata)
    if (key == kExternalFileKey) CTXGEN_CHECK(check_external_file(model->folder, value));
  std::vector<Candidate> all;
  CTXGEN_CHECK(find_candidates(model->graph, loaders, all));
  ContextSet set;
  set.nodes.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].attributes.main_context == 0) continue;
    const Node& node = all[i].graph->node(all[i].node);
    const std::size_t context = CTXGEN_TRY(open_primary(model, all[i], places, set));
    auto program = set.contexts[context].reader->find(all[i].attributes.partition_name);
    if (!program) {
      Error error = with_context(std::move(program).error(), node.describe());
      error.message += kOtherCompile;
      return std::unexpected(std::move(error));
    }
    set.nodes[i] = {all[i].graph, all[i].node, context, *program};
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].attributes.main_context == 0)
      set.nodes[i] = CTXGEN_TRY(find_in_all(all[i].graph->node(all[i].node), all[i], set));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ResolvedNode& resolved = set.nodes[i];
    CTXGEN_CHECK(check_hash(all[i].graph->node(resolved.node), all[i].attributes,
                            set.contexts[resolved.context].reader->program_hash(resolved.program)));
  }
  return set;
}

}  // namespace ctxgen
