#include "regroup/kept_model.h"

#include <algorithm>
#include <charconv>
#include <format>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "ctxgen/base/file.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/onnx_lite/content_state.h"
#include "ctxgen/onnx_lite/context_node.h"
#include "ctxgen/onnx_lite/external_place.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/partition/provider.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

std::string metadata_of(const Model& model, std::string_view key) {
  const auto entry =
      std::ranges::find(model.metadata, key, &std::pair<std::string, std::string>::first);
  return entry == model.metadata.end() ? std::string() : entry->second;
}

/// What a compile has counted the partitions of a model by: the last part of a name.
Result<std::uint64_t> ordinal_of(std::string_view where, std::string_view name) {
  const std::size_t at = name.rfind('_');
  const std::string_view digits = at == std::string_view::npos ? "" : name.substr(at + 1);
  std::uint64_t ordinal = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (error == std::errc() && !digits.empty() && end == digits.data() + digits.size())
    return ordinal;
  return fail(ErrorCode::kInvalidGraph, "{}: partition_name \"{}\" does not end with a number",
              where, name);
}

/// Plans that everything of a model is written as it is, with the EPContext nodes of our providers as such.
class Keeper {
 public:
  Keeper(KeptModel& kept, const ProviderList& providers) : kept_(kept), providers_(providers) {}

  Status run() {
    kept_.rewrite = identity_rewrite(*kept_.model);
    bool changes = false;
    CTXGEN_CHECK(replace_nodes(kept_.model->graph, kept_.rewrite, changes));
    CTXGEN_CHECK(list(kept_.model->graph, kept_.rewrite));
    std::ranges::stable_sort(kept_.contexts, {}, &KeptContext::ordinal);
    const auto same = std::ranges::adjacent_find(kept_.contexts, {}, &KeptContext::ordinal);
    if (same == kept_.contexts.end()) return {};
    return fail(ErrorCode::kInvalidGraph, "{}: another partition of the model ends with {}, too",
                same->where, same->ordinal);
  }

 private:
  [[nodiscard]] int provider_of(const Node& node) const {
    const int p = providers_.find_source(node.string_or("source", ""));
    const bool loads = p >= 0 && providers_.all()[static_cast<std::size_t>(p)]->loader() != nullptr;
    return is_ep_context(node) && loads ? p : -1;
  }

  Status replace_nodes(const Graph& graph, GraphRewrite& rewrite, bool& changes) {
    for (NodeToWrite& what : rewrite.nodes) {
      const Node& node = graph.node(what.node);
      if (is_ep_context(node) && provider_of(node) >= 0) {
        what = {.kind = NodeToWrite::Kind::kEpContext, .node = what.node};
        what.ep_context = rewrite.ep_contexts.size();
        rewrite.ep_contexts.push_back(CTXGEN_TRY(context_node(node)));
        changes = true;
        continue;
      }
      if (is_ep_context(node)) CTXGEN_CHECK(take_foreign(node));
      for (const Attribute& attribute : node.attributes)
        for (const auto& body : attribute.graphs) {
          BodyRewrite inner{body.get(), identity_rewrite(*body)};
          bool inner_changes = false;
          CTXGEN_CHECK(replace_nodes(*body, inner.rewrite, inner_changes));
          if (!inner_changes) continue;
          rewrite.bodies.push_back(std::move(inner));
          changes = true;
        }
    }
    return {};
  }

  Result<EpContextNode> context_node(const Node& node) const {
    EpContextNode written;
    written.name = node.name;
    written.inputs.assign(node.inputs.begin(), node.inputs.end());
    written.outputs.assign(node.outputs.begin(), node.outputs.end());
    written.attributes = CTXGEN_TRY(read_ep_context(node));
    if (written.attributes.main_context == 0 || written.attributes.embed_mode == 0) return written;
    const Attribute* cache = node.attribute("ep_cache_context");
    if (cache == nullptr || cache->kind != AttributeKind::kString || cache->s.empty())
      return fail(ErrorCode::kCorruptContext,
                  "{}: embed_mode is 1, but ep_cache_context holds no payload", node.describe());
    written.payload = {kept_.model->source.owner, kept_.model->bytes(cache->s_source)};
    return written;
  }

  /// Bins of other providers are next to the model wherever that is.
  Status take_foreign(const Node& node) {
    const std::string file(node.string_or("ep_cache_context", ""));
    if (node.int_or("embed_mode", 1) == 1 || file.empty() || !foreign_.insert(file).second)
      return {};
    const fs::path folder = kept_.path.parent_path();
    auto bin = map_file_beneath(folder.empty() ? "." : folder, file);
    if (!bin)
      return std::unexpected(with_context(
          bin.error(), std::format("{}: context binary \"{}\"", node.describe(), file)));
    kept_.foreign_bins.emplace_back(file, FileRead{folder / file, std::move(*bin)});
    return {};
  }

  /// All of them, once nothing moves any more.
  Status list(const Graph& graph, GraphRewrite& rewrite) {
    for (const NodeToWrite& what : rewrite.nodes) {
      if (what.kind != NodeToWrite::Kind::kEpContext) continue;
      const Node& node = graph.node(what.node);
      KeptContext context;
      context.node = &rewrite.ep_contexts[what.ep_context];
      context.provider = static_cast<std::size_t>(provider_of(node));
      context.where = node.describe();
      context.ordinal =
          CTXGEN_TRY(ordinal_of(context.where, context.node->attributes.partition_name));
      kept_.contexts.push_back(std::move(context));
    }
    for (BodyRewrite& body : rewrite.bodies) CTXGEN_CHECK(list(*body.graph, body.rewrite));
    return {};
  }

  KeptModel& kept_;
  const ProviderList& providers_;
  std::set<std::string> foreign_;
};

/// What loading checks, too: nothing damaged is written again with hashes that fit.
Status check_intact(const KeptModel& kept) {
  if (!kept.external_entry.empty())
    CTXGEN_CHECK(check_external_file(kept.model->folder, kept.external_entry));
  const ContentCheck check = CTXGEN_TRY(check_content(*kept.model, kept.external_files));
  switch (check.state) {
    case ContentState::kIntact: return {};
    case ContentState::kDamaged: return fail(ErrorCode::kCorruptContext, "{}", check.detail);
    case ContentState::kChanged:
      return fail(ErrorCode::kNotSatisfied, "{}: compile it again", check.detail);
    case ContentState::kNotCovered: break;
  }
  return fail(ErrorCode::kInvalidGraph,
              "it is not a context model of this version of ctxgen: {}; compile it first",
              check.detail);
}

Status open_bins(KeptModel& kept, const ProviderList& providers, Workspace& workspace) {
  const fs::path folder = kept.path.parent_path().empty() ? "." : kept.path.parent_path();
  std::vector<ContextNode> nodes;
  for (const KeptContext& context : kept.contexts) {
    const EpContextNode& node = *context.node;
    nodes.push_back({.where = context.where,
                     .attributes = node.attributes,
                     .payload = node.payload,
                     .loader = providers.all()[context.provider]->loader()});
    if (node.attributes.main_context == 1 && node.attributes.embed_mode == 0)
      if (fs::path bin = kept.path.parent_path() / node.attributes.ep_cache_context;
          !std::ranges::contains(kept.bins, bin))
        kept.bins.push_back(std::move(bin));
  }
  const ResolvedContexts resolved =
      CTXGEN_TRY(resolve_contexts(nodes, {.folder = folder,
                                          .bin_source = {},
                                          .verify = VerifyBlobs::kNever,
                                          .workspace = &workspace}));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const OpenContext& open = resolved.contexts[resolved.programs[i].context];
    KeptContext& context = kept.contexts[i];
    context.reader = open.reader;
    // Not the one for this machine.
    context.program = CTXGEN_TRY(open.reader->find(nodes[i].attributes.partition_name));
  }
  return {};
}

}  // namespace

Result<KeptModel> read_kept_model(const fs::path& path, const ProviderList& providers,
                                  Workspace& workspace) {
  KeptModel kept;
  kept.path = path;
  kept.name = std::format("\"{}\"", path.string());
  const auto read = [&]() -> Status {
    ReadModelOptions how;
    how.file_name = path.filename().string();
    how.expand_functions = false;  // their calls are written as they are
    how.external_files = &kept.external_files;
    kept.model = std::make_unique<Model>(CTXGEN_TRY(read_model_file(path, how)));
    kept.key_parts = metadata_of(*kept.model, kCompileKeyPartsMetadata);
    kept.external_entry = metadata_of(*kept.model, kExternalFileKey);
    if (!metadata_of(*kept.model, "weightless_mode").empty())
      return fail(
          ErrorCode::kUnsupported,
          "its weights are in files of its source (ep.enable_weightless_mode): compile such models in "
          "one batch");
    CTXGEN_CHECK(check_intact(kept));
    CTXGEN_CHECK(Keeper(kept, providers).run());
    return open_bins(kept, providers, workspace);
  };
  if (auto status = read(); !status)
    return std::unexpected(with_context(std::move(status).error(), kept.name));
  return kept;
}

Status keep_initializers(KeptModel& kept, const std::string& location, ExternalFileBuilder& file) {
  const Model& model = *kept.model;
  const std::string_view entry = kept.external_entry;
  const std::string_view name = entry.substr(0, std::min(entry.rfind(':'), entry.size()));
  kept.rewrite.external_location = location;
  for (const ValueId id : kept.rewrite.initializers) {
    const Value& value = model.graph.value(id);
    const auto place = CTXGEN_TRY(external_place(model, value));
    if (!place) continue;
    if (name.empty() || place->location != name)
      return fail(
          ErrorCode::kUnsupported,
          "{}: initializer \"{}\" is in \"{}\", a file that ctxgen did not write: compile such models "
          "in one batch",
          kept.name, value.name, place->location);
    const auto bytes = value.initializer->bytes();
    const std::uint64_t offset = CTXGEN_TRY(file.add({value.initializer->owner(), bytes}));
    kept.rewrite.external.emplace(id, ExternalPlace{offset, bytes.size()});
  }
  return {};
}

}  // namespace ctxgen
