#include "compilation.h"

#include <set>

#include "ctxgen/partition/partitioner.h"
#include "ctxgen/partition/rewrite.h"
#include "external_initializers.h"
#include "output.h"
#include "report.h"

namespace ctxgen {

Compilation::Compilation(const CompileOptions& options, ProviderList providers)
    : options_(options), providers_(std::move(providers)),
      builder_(providers_.all(), options.threads) {}

Status Compilation::prepare(const std::vector<ModelInput>& inputs) {
  for (std::size_t m = 0; m < inputs.size(); ++m) {
    const double share = 1.0 / static_cast<double>(inputs.size());
    const auto stage = [&, m](CompileStage s) { return enter(s, static_cast<double>(m) * share); };
    models_.push_back(CTXGEN_TRY(prepare_model(inputs[m], options_, providers_, stage)));
  }
  return {};
}

Status Compilation::compile() {
  for (PreparedModel& prepared : models_) {
    if (options_.disable_model_compile) CTXGEN_CHECK(check_nothing_to_compile(prepared));
    CTXGEN_CHECK(enter(CompileStage::kCompile, static_cast<double>(built_.size()) /
                                                   static_cast<double>(models_.size())));
    built_.push_back(CTXGEN_TRY(build(prepared)));
    report_.models.push_back(report_model(prepared, providers_, built_.back()));
    CTXGEN_CHECK(check_requirements(report_.models.back(), options_));
    if (built_.back().empty()) {
      if (options_.require_compiled)
        return fail(ErrorCode::kNotSatisfied, "{}: no node was compiled", prepared.name);
      report_.models.back().warnings.push_back(
          "nothing was compiled: the output is a plain model without a context binary");
    }
  }
  for (std::size_t p = 0; p < providers_.all().size(); ++p)
    contents_.push_back(CTXGEN_TRY(builder_.content(p)));
  if (options_.fail_on_suboptimal) CTXGEN_CHECK(check_optimal());
  report_.bytes_added = builder_.weight_bytes_added();
  for (const auto& content : contents_)
    if (content)
      for (const Blob& blob : content->blobs) report_.bytes_stored += blob.bytes.size();
  return {};
}

Status Compilation::rewrite(const BinName& bin_name) {
  CTXGEN_CHECK(enter(CompileStage::kRewrite, 0));
  for (std::size_t m = 0; m < models_.size(); ++m) {
    rewrites_.push_back(CTXGEN_TRY(rewrite_model(m, bin_name)));
    CTXGEN_CHECK(move_initializers(models_[m].model, options_, rewrites_[m], external_));
  }
  name_external_file(options_, external_, rewrites_);
  for (std::size_t m = 0; m < models_.size(); ++m)
    report_.models[m].model_bytes = CTXGEN_TRY(model_size(models_[m].model, rewrites_[m]));
  return report_external();
}

Status Compilation::enter(CompileStage stage, double fraction) const {
  if (options_.cancelled && options_.cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
  if (options_.progress) options_.progress(stage, fraction);
  return {};
}

/// session.disable_model_compile. A model of which nothing would be compiled passes: it runs on cpu,
/// or holds nodes that another provider compiled.
Status Compilation::check_nothing_to_compile(const PreparedModel& prepared) const {
  for (std::size_t p = 0; p < providers_.all().size(); ++p)
    for (const Partition& partition : prepared.assignment.partitions[p])
      return fail(ErrorCode::kNotSatisfied,
                  "{}: the model requires compilation: provider \"{}\" would compile {} and {} more "
                  "(session.disable_model_compile)", prepared.name, providers_.all()[p]->name(),
                  prepared.model.graph.node(partition.nodes.front()).describe(),
                  partition.nodes.size() - 1);
  return {};
}

/// Programs of all partitions. What a provider claimed and then cannot compile goes to the next
/// one: the nodes are left out and the graph is partitioned again.
Result<std::vector<BuiltPartition>> Compilation::build(PreparedModel& prepared) {
  const auto options = provider_options(prepared);
  std::vector<Exclusion> exclusions;
  while (true) {
    auto built = builder_.add_model(prepared.model, prepared.model.graph, prepared.assignment,
                                    options, options_.node_prefix);
    if (built) return built;
    const GraphView view(prepared.model, prepared.model.graph);
    const std::size_t before = exclusions.size();
    for (std::size_t p = 0; p < providers_.all().size(); ++p)
      for (Rejection& rejection : providers_.all()[p]->refused_after_all(
               view, prepared.assignment.partitions[p], options[p]))
        exclusions.push_back({p, std::move(rejection)});
    if (exclusions.size() == before) return built;
    prepared.assignment = CTXGEN_TRY(partition_graph(prepared.model, prepared.model.graph,
                                                     providers_.all(), exclusions));
  }
}

std::vector<ProviderCompileOptions> Compilation::provider_options(const PreparedModel& prepared) const {
  std::vector<ProviderCompileOptions> all;
  for (std::size_t p = 0; p < providers_.all().size(); ++p) {
    ProviderCompileOptions one;
    one.profiles = options_.profiles;
    one.threads = options_.threads;
    one.jobs = options_.jobs;
    one.profile_dims = [&prepared](std::size_t profile, ValueId value) -> std::optional<Dims> {
      return prepared.profile_dims[profile][value.index];
    };
    const auto given = providers_.options(p);
    one.provider_options.assign(given.begin(), given.end());
    all.push_back(std::move(one));
  }
  return all;
}

Result<ModelRewrite> Compilation::rewrite_model(std::size_t m, const BinName& bin_name) {
  PreparedModel& prepared = models_[m];
  std::vector<CompiledNode> nodes;
  std::set<std::size_t> with_primary;
  std::vector<std::pair<std::string, std::string>> metadata;
  for (const BuiltPartition& built : built_[m]) {
    const std::size_t p = built.provider;
    CompiledNode node;
    node.partition = &prepared.assignment.partitions[p][built.partition];
    node.attributes = built.attributes;
    node.attributes.onnx_model_filename = prepared.name;
    node.attributes.embed_mode = options_.embed ? 1 : 0;
    node.attributes.main_context = with_primary.insert(p).second ? 1 : 0;
    if (node.attributes.main_context == 1) {
      metadata.emplace_back(kCompatibilityKeyPrefix + std::string(providers_.all()[p]->source()),
                            contents_[p]->fingerprint);
      if (options_.embed)
        node.payload = CTXGEN_TRY(write_to_memory(
            [&](const ByteSink& sink) { return write_context(*contents_[p], sink); }));
      else
        node.attributes.ep_cache_context = CTXGEN_TRY(bin_name(providers_.all()[p]->name()));
    }
    nodes.push_back(std::move(node));
  }
  return plan_rewrite(prepared.model, prepared.assignment, nodes, metadata,
                      options_.freeze_initializers);
}

/// What a load on this machine would say about the bins.
Status Compilation::check_optimal() const {
  for (std::size_t p = 0; p < contents_.size(); ++p) {
    if (!contents_[p]) continue;
    const Provider& provider = *providers_.all()[p];
    const auto [verdict, reason] = provider.loader()->compatibility(contents_[p]->fingerprint, 0);
    if (verdict != Compatibility::kOptimal)
      return fail(ErrorCode::kNotSatisfied,
                  "provider \"{}\": the compiled model is not optimal for this machine: {} "
                  "(session.fail_on_suboptimal_compiled_model)", provider.name(), reason);
  }
  return {};
}

Status Compilation::report_external() {
  if (external_.empty()) return {};
  CompileReport::ExternalFile& file = report_.external.emplace();
  file.name = options_.external_initializers;
  file.bytes = external_.size();
  for (const ModelRewrite& rewrite : rewrites_) file.tensors += rewrite.external.size();
  return {};
}

Status add_bin_report(CompileReport& report, std::string name, const ContextContent& content) {
  CompileReport::Bin bin;
  bin.name = std::move(name);
  bin.bytes = CTXGEN_TRY(context_size(content));
  bin.blobs = content.blobs.size();
  for (const Blob& blob : content.blobs) bin.weight_bytes += blob.bytes.size();
  report.bins.push_back(std::move(bin));
  return {};
}

}  // namespace ctxgen
