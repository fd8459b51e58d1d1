#include "stages/build_models.h"

#include <algorithm>
#include <format>
#include <functional>
#include <iterator>
#include <span>
#include <thread>
#include <utility>

#include "ctxgen/base/checked.h"
#include "ctxgen/compiler/build_graph.h"
#include "ctxgen/partition/partitioner.h"

#include "output/appended_bin.h"
#include "stages/add_variants.h"
#include "stages/report_model.h"

namespace ctxgen {
namespace {

/// The provider that wrote a bin, if this compile has it: its index.
Result<std::size_t> writer_of(const ContextReader& bin, const CompileEnv& env) {
  const int p = env.providers.find_source(bin.info().source);
  if (p >= 0 && env.providers.all()[static_cast<std::size_t>(p)]->loader() != nullptr)
    return static_cast<std::size_t>(p);
  return fail(
      ErrorCode::kVersionMismatch,
      "cannot append: the context binary was written by \"{}\", which is not an enabled compiling "
      "provider",
      bin.info().source);
}

/// session.disable_model_compile. A model of which nothing would be compiled passes: it runs on cpu,
/// or holds nodes that another provider compiled.
Status check_nothing_to_compile(const PreparedModel& prepared, const CompileEnv& env) {
  const auto check = [&](const Graph& graph, const Assignment& assignment) -> Status {
    for (std::size_t p = 0; p < env.providers.all().size(); ++p)
      for (const Partition& partition : assignment.partitions[p])
        return fail(ErrorCode::kNotSatisfied,
                    "{}: the model requires compilation: provider \"{}\" would compile {} and {} "
                    "more (session.disable_model_compile)",
                    prepared.name, env.providers.all()[p]->name(),
                    graph.node(partition.nodes.front()).describe(), partition.nodes.size() - 1);
    return {};
  };
  for (const PreparedBody& body : prepared.bodies)
    CTXGEN_CHECK(check(*body.graph, body.assignment));
  return check(prepared.model.graph, prepared.assignment);
}

/// Programs of all partitions, of the main graph first. `progress`: of the main graph.
Result<std::vector<BuiltPartition>> build_model(ContextBuilder& builder, PreparedModel& prepared,
                                                const SourceIndex& sources, const CompileEnv& env,
                                                const std::function<Status(double)>& progress) {
  const Model& model = prepared.model;
  const auto options_of = [&](bool main) {
    auto options = provider_options(prepared, main, env.options, env.providers);
    for (ProviderCompileOptions& one : options) {
      one.spill = env.spill.get();
      if (main) one.progress = progress;
      if (env.options.weightless != WeightlessMode::kNone)
        one.stays_plain = [&sources](auto bytes) { return sources.holds(bytes); };
    }
    return options;
  };
  const auto build_of = [&](std::span<const ProviderCompileOptions> options, std::size_t ordinal) {
    return GraphBuild{.providers = env.providers.all(),
                      .options = options,
                      .target = env.target,
                      .prefix = env.options.node_prefix,
                      .first_ordinal = ordinal};
  };
  const auto main_options = options_of(true), body_options = options_of(false);
  std::vector<BuiltPartition> all = CTXGEN_TRY(
      build_graph(builder, model, model.graph, prepared.assignment, build_of(main_options, 0)));
  for (std::size_t b = 0; b < prepared.bodies.size(); ++b) {
    PreparedBody& body = prepared.bodies[b];
    auto built = build_graph(builder, model, *body.graph, body.assignment,
                             build_of(body_options, all.size()));
    if (!built) return std::unexpected(with_context(std::move(built).error(), body.name));
    for (BuiltPartition& one : *built) {
      one.body = static_cast<int>(b);
      all.push_back(std::move(one));
    }
  }
  return all;
}

Status report_models(BuiltModels& built, const PreparedModels& prepared, const CompileEnv& env) {
  for (std::size_t m = 0; m < prepared.models.size(); ++m) {
    const PreparedModel& model = prepared.models[m];
    const std::vector<BuiltPartition>& partitions = built.partitions[m];
    ModelReport& report = built.report.models.emplace_back(
        report_model(model, env.providers, env.target, partitions));
    report.unplanned = unplanned_text(model, env.options, partitions);
    CTXGEN_CHECK(check_requirements(model, env.options));
    if (!partitions.empty()) continue;
    if (env.options.require_compiled)
      return fail(ErrorCode::kNotSatisfied, "{}: no node was compiled", model.name);
    report.warnings.push_back(
        "nothing was compiled: the output is a plain model without a context binary");
  }
  return {};
}

void report_sharing(BuiltModels& built, const PreparedModels& prepared) {
  for (std::size_t p = 0; p < built.contents.size(); ++p) {
    if (!built.contents[p]) continue;
    const auto programs = programs_by_name(built.contents[p]->programs);
    std::vector<ProgramUser> users;
    for (std::size_t m = 0; m < prepared.models.size(); ++m)
      for (const BuiltPartition& partition : built.partitions[m]) {
        if (partition.provider != p) continue;
        const std::string& name = partition.attributes.partition_name;
        if (const auto program = programs.find(name); program != programs.end())
          users.push_back({std::format("{}: {}", prepared.models[m].name, name), program->second});
      }
    std::vector<std::uint64_t> bytes;
    for (const Blob& blob : built.contents[p]->blobs) bytes.push_back(blob.bytes.size());
    std::ranges::move(find_shared_blobs(users, bytes), std::back_inserter(built.report.sharing));
    std::ranges::move(built.builder->split_weights(p), std::back_inserter(built.report.split));
  }
}

/// What weightless mode could not leave in the sources is said, not passed over.
void report_weightless(BuiltModels& built) {
  CompileReport& report = built.report;
  std::size_t left = 0, stored = 0;
  std::uint64_t stored_bytes = 0;
  for (const auto& content : built.contents) {
    if (!content) continue;
    for (const Program& program : content->programs)
      for (const ProgramWeight& weight : program.weights) {
        const std::uint64_t bytes = checked_size_bytes(weight.type, weight.dims).value_or(0);
        const bool is_left = std::ranges::any_of(weight.packed, [](const PackedWeight& packed) {
          return is_reference_layout(packed.layout);
        });
        (is_left ? left : stored) += 1;
        (is_left ? report.bytes_left_in_sources : stored_bytes) += bytes;
      }
  }
  report.models.front().warnings.push_back(std::format(
      "weightless: {} weights ({} bytes) stay in the source's files, which every load needs; {} ({} bytes) are inline under mode 1 or computed by the compiler, and are in the context binary",
      left, report.bytes_left_in_sources, stored, stored_bytes));
}

/// What a load on this machine would say about the bins.
Status check_optimal(const BuiltModels& built, const CompileEnv& env) {
  for (std::size_t p = 0; p < built.contents.size(); ++p) {
    if (!built.contents[p]) continue;
    const Provider& provider = *env.providers.all()[p];
    const auto [verdict, reason] =
        provider.loader()->compatibility(built.contents[p]->fingerprint, 0);
    if (verdict != Compatibility::kOptimal)
      return fail(ErrorCode::kNotSatisfied,
                  "provider \"{}\": the compiled model is not optimal for this machine: {} "
                  "(session.fail_on_suboptimal_compiled_model)",
                  provider.name(), reason);
  }
  return {};
}

Status compress(std::vector<std::optional<ContextContent>>& contents,
                const CompileOptions& options) {
  const auto all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (auto& content : contents)
    if (content)
      CTXGEN_CHECK(
          compress_blobs(*content, options.compress_level, options.jobs > 0 ? options.jobs : all));
  return {};
}

void report_weights(BuiltModels& built) {
  built.report.bytes_added = built.builder->weight_bytes_added();
  built.report.counts = built.builder->counts();
  for (const auto& content : built.contents)
    if (content)
      for (const Blob& blob : content->blobs) built.report.bytes_stored += blob.bytes.size();
}

}  // namespace

Status check_appendable(const ContextReader& bin, const CompileEnv& env) {
  const std::size_t p = CTXGEN_TRY(writer_of(bin, env));
  const ProgramLoader& loader = *env.providers.all()[p]->loader();
  const std::string fingerprint = CTXGEN_TRY(loader.fingerprint_of(env.target));
  return check_same_target(bin, fingerprint, env.options);
}

Result<BuiltModels> build_models(PreparedModels& prepared, const ContextReader* appended,
                                 const CompileEnv& env) {
  BuiltModels built;
  built.report.key = prepared.sources.key;
  built.report.files_read = prepared.sources.files_read;
  built.builder = std::make_unique<ContextBuilder>(env.providers.all(), env.target, env.spill.get(),
                                                   env.cache.get());
  ContextBuilder& builder = *built.builder;
  if (appended != nullptr) {
    const std::size_t p = CTXGEN_TRY(writer_of(*appended, env));
    CTXGEN_CHECK(builder.adopt(p, *appended));
  }
  const SourceIndex& sources = prepared.sources.index;
  if (env.options.weightless != WeightlessMode::kNone)
    builder.set_references(
        [&sources](auto bytes, Hash128 hash) { return sources.reference(bytes, hash); });
  for (PreparedModel& model : prepared.models) {
    if (env.options.disable_model_compile) CTXGEN_CHECK(check_nothing_to_compile(model, env));
    const auto progress = [&](double share) {
      const auto models = static_cast<double>(built.partitions.size()) + std::min(share, 1.0);
      return env.enter(CompileStage::kCompile,
                       models / static_cast<double>(prepared.models.size()));
    };
    CTXGEN_CHECK(progress(0));
    built.partitions.push_back(CTXGEN_TRY(build_model(builder, model, sources, env, progress)));
  }
  CTXGEN_CHECK(report_models(built, prepared, env));
  CTXGEN_CHECK(add_variants(built, prepared, env));
  for (std::size_t p = 0; p < env.providers.all().size(); ++p)
    built.contents.push_back(CTXGEN_TRY(builder.content(p)));
  if (env.options.fail_on_suboptimal) CTXGEN_CHECK(check_optimal(built, env));
  if (env.options.weightless != WeightlessMode::kNone) report_weightless(built);
  if (env.options.compress_level > 0) CTXGEN_CHECK(compress(built.contents, env.options));
  report_sharing(built, prepared);
  report_weights(built);
  return built;
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

void report_nodes(BuiltModels& built, const PreparedModels& prepared, const CompileEnv& env) {
  for (std::size_t m = 0; m < prepared.models.size(); ++m)
    report_assignment(built.report.models[m], prepared.models[m], env.providers,
                      built.partitions[m]);
}

}  // namespace ctxgen
