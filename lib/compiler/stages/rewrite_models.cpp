#include "stages/rewrite_models.h"

#include <algorithm>
#include <format>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "ctxgen/compiler/option_table.h"
#include "ctxgen/onnx_lite/content_hash.h"
#include "ctxgen/partition/rewrite.h"

#include "output/external_initializers.h"
#include "output/initializer_locations.h"
#include "output/write_outputs.h"

namespace ctxgen {
namespace {

/// check_model_size(), and the option that helps by the name that the caller knows.
Status check_size(std::uint64_t size, std::uint64_t embedded, const CompileOptions& options) {
  Status status = check_model_size(size, embedded);
  if (status) return status;
  const bool without = size - std::min(size, embedded) <= kMaxModelBytes;
  Error error = std::move(status).error();
  error.message +=
      without ? std::format(" (no {})", option_name(options, &CompileOptions::embed))
              : std::format(" ({})", option_name(options, &CompileOptions::external_initializers));
  return std::unexpected(std::move(error));
}

/// A context binary as it goes into its model.
/// Errors  RESOURCE_LIMIT before it takes memory, if it is too large for any model.
Result<Blob> embedded_context(const ContextContent& content, const CompileOptions& options) {
  const std::uint64_t size = CTXGEN_TRY(context_size(content));
  CTXGEN_CHECK(check_size(size, size, options));
  return write_to_memory([&](const ByteSink& sink) { return write_context(content, sink); }, size);
}

/// Plans what is written of one model.
class ModelPlan {
 public:
  ModelPlan(std::size_t m, const PreparedModels& prepared, const BuiltModels& built,
            const CompileEnv& env)
      : env_(env),
        built_(built),
        sources_(prepared.sources),
        key_(prepared.sources.keys[m]),
        source_reference_(prepared.sources.source_references[m]),
        model_(prepared.models[m]),
        partitions_(built.partitions[m]) {}

  [[nodiscard]] Result<ModelRewrite> run() const {
    const auto nodes = CTXGEN_TRY(compiled_nodes(-1));
    auto bodies = CTXGEN_TRY(rewrite_bodies(model_.main_bodies));
    ModelRewrite rewrite = plan_rewrite(model_.model, model_.assignment, nodes, metadata(),
                                        env_.options.freeze_initializers, std::move(bodies));
    for (NodeToWrite& node : rewrite.nodes)
      node.rewired = node.kind == NodeToWrite::Kind::kNode &&
                     std::ranges::binary_search(model_.rewired, node.node);
    return rewrite;
  }

 private:
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> metadata() const {
    std::vector<std::pair<std::string, std::string>> metadata{
        {std::string(kCompileKeyMetadata), key_.hash.hex()},
        {std::string(kCompileKeyPartsMetadata), key_.parts}};
    std::set<std::size_t> named;
    for (const BuiltPartition& built : partitions_)
      if (named.insert(built.provider).second)
        metadata.emplace_back(
            kCompatibilityKeyPrefix + std::string(env_.providers.all()[built.provider]->source()),
            built_.contents[built.provider]->fingerprint);
    if (env_.options.weightless != WeightlessMode::kNone && !partitions_.empty())
      metadata.emplace_back("weightless_mode",
                            std::to_string(static_cast<int>(env_.options.weightless)));
    return metadata;
  }

  /// The EPContext nodes of one graph: the first of each provider in it is primary.
  [[nodiscard]] Result<std::vector<CompiledNode>> compiled_nodes(int body) const {
    const Assignment& assignment =
        body < 0 ? model_.assignment : model_.bodies[static_cast<std::size_t>(body)].assignment;
    std::vector<CompiledNode> nodes;
    std::set<std::size_t> with_primary;
    // Those of the main graph come first (-1), then body by body.
    for (const BuiltPartition& built :
         std::ranges::equal_range(partitions_, body, {}, &BuiltPartition::body)) {
      const std::size_t p = built.provider;
      CompiledNode node;
      node.partition = &assignment.partitions[p][built.partition];
      node.attributes = built.attributes;
      node.attributes.onnx_model_filename =
          source_reference_.empty() ? model_.name : source_reference_;
      node.attributes.embed_mode = env_.options.embed ? 1 : 0;
      node.attributes.main_context = with_primary.insert(p).second ? 1 : 0;
      if (node.attributes.main_context == 1 && env_.options.embed)
        node.payload = CTXGEN_TRY(embedded_context(*built_.contents[p], env_.options));
      else if (node.attributes.main_context == 1)
        node.attributes.ep_cache_context = sources_.bin_references[p];
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  [[nodiscard]] Result<std::vector<BodyRewrite>> rewrite_bodies(
      std::span<const std::size_t> bodies) const {
    std::vector<BodyRewrite> rewrites;
    for (const std::size_t b : bodies) {
      const PreparedBody& body = model_.bodies[b];
      const auto nodes = CTXGEN_TRY(compiled_nodes(static_cast<int>(b)));
      auto inner = CTXGEN_TRY(rewrite_bodies(body.bodies));
      if (nodes.empty() && inner.empty()) continue;  // stays unchanged
      rewrites.push_back(
          {body.graph, plan_graph_rewrite(*body.graph, body.assignment, nodes, std::move(inner),
                                          env_.options.freeze_initializers)});
    }
    return rewrites;
  }

  const CompileEnv& env_;
  const BuiltModels& built_;
  const ModelSources& sources_;
  const ModelKey& key_;
  const std::string& source_reference_;  // of a weightless compile
  const PreparedModel& model_;
  const std::vector<BuiltPartition>& partitions_;
};

/// Where initializers go that the models keep.
Status place_initializers(RewrittenModels& rewritten, const PreparedModels& prepared,
                          const CompileEnv& env) {
  for (std::size_t m = 0; m < prepared.models.size(); ++m) {
    const Model& model = prepared.models[m].model;
    ModelRewrite& rewrite = rewritten.rewrites[m];
    rewrite.external_buffers = prepared.sources.external_data[m];
    CTXGEN_CHECK(move_initializers(model, env.options, rewrite, *rewritten.external));
    const auto folder = env.output_folder(m);
    CTXGEN_CHECK(locate_initializers(model, env.options, folder ? &*folder : nullptr, rewrite));
  }
  name_external_file(env.options, *rewritten.external, rewritten.rewrites);
  return {};
}

Status report_sizes(CompileReport& report, const RewrittenModels& rewritten,
                    const PreparedModels& prepared, const CompileEnv& env) {
  for (std::size_t m = 0; m < prepared.models.size(); ++m) {
    const ModelRewrite& rewrite = rewritten.rewrites[m];
    report.models[m].model_bytes = CTXGEN_TRY(model_size(prepared.models[m].model, rewrite));
    std::uint64_t embedded = 0;
    for (const EpContextNode& node : rewrite.ep_contexts) embedded += node.payload.bytes.size();
    CTXGEN_CHECK(check_size(report.models[m].model_bytes, embedded, env.options));
  }
  if (env.options.external_initializers.empty()) return {};
  ExternalInitializersReport& file = report.external.emplace();
  file.name = env.options.external_initializers;
  file.bytes = rewritten.external->size();
  for (const ModelRewrite& rewrite : rewritten.rewrites) file.tensors += rewrite.external.size();
  return {};
}

}  // namespace

Result<RewrittenModels> rewrite_models(const PreparedModels& prepared, BuiltModels& built,
                                       const CompileEnv& env) {
  CTXGEN_CHECK(env.enter(CompileStage::kRewrite, 0));
  RewrittenModels rewritten;
  for (std::size_t m = 0; m < prepared.models.size(); ++m)
    rewritten.rewrites.push_back(CTXGEN_TRY(ModelPlan(m, prepared, built, env).run()));
  CTXGEN_CHECK(place_initializers(rewritten, prepared, env));
  for (std::size_t m = 0; m < prepared.models.size(); ++m) {
    ModelRewrite& rewrite = rewritten.rewrites[m];
    const Hash128 hash = CTXGEN_TRY(content_hash(prepared.models[m].model, rewrite));
    rewrite.metadata.emplace_back(std::string(kContentHashKey), hash.hex());
  }
  CTXGEN_CHECK(report_sizes(built.report, rewritten, prepared, env));
  return rewritten;
}

}  // namespace ctxgen
