#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "ctxgen/base/boundary.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/weights/weight_store.h"

#include "core/blob_table.h"
#include "stages/compile_env.h"
#include "stages/prepare_model.h"
#include "stages/variant_exchange.h"

namespace ctxgen {
namespace {

/// Nodes of a model's partitions: the graph's index and the node's.
std::set<std::pair<std::size_t, std::uint32_t>> nodes_of(PreparedModel& prepared) {
  std::set<std::pair<std::size_t, std::uint32_t>> nodes;
  const auto graphs = graphs_of(prepared);
  for (std::size_t g = 0; g < graphs.size(); ++g)
    for (const auto& of_provider : graphs[g].assignment->partitions)
      for (const Partition& partition : of_provider)
        for (const NodeId node : partition.nodes) nodes.emplace(g, node.index);
  return nodes;
}

class VariantCompiler {
 public:
  VariantCompiler(const CompileOptions& options, const ProviderList& providers,
                  const CompileTarget& target)
      : options_(options), providers_(providers), target_(target) {}

  Status add(std::size_t m, PreparedModel& prepared) {
    const auto graphs = graphs_of(prepared);
    for (std::size_t g = 0; g < graphs.size(); ++g) {
      const GraphView view(prepared.model, *graphs[g].graph, target_);
      const auto options = provider_options(prepared, graphs[g].main, options_, providers_);
      for (std::size_t p = 0; p < providers_.all().size(); ++p) {
        const std::vector<Partition>& partitions = graphs[g].assignment->partitions[p];
        for (std::size_t i = 0; i < partitions.size(); ++i)
          CTXGEN_CHECK(add_partition(view, partitions[i], *providers_.all()[p], options[p],
                                     answer_name({m, g, p, i})));
      }
    }
    return {};
  }

  Status write(const ByteSink& sink) {
    BlobTable table(store_);
    for (Program& program : content_.programs) table.renumber(program);
    table.put_into(content_);
    return write_context(content_, sink);
  }

 private:
  Status add_partition(const GraphView& view, const Partition& partition, const Provider& provider,
                       const ProviderCompileOptions& options, std::string name) {
    if (options_.cancelled && options_.cancelled())
      return fail(ErrorCode::kCancelled, "interrupted");
    auto compiled = provider.compile(view, std::span(&partition, 1), options, store_);
    // What the smaller instruction set compiles, this one runs in that form.
    if (!compiled && compiled.error().code == ErrorCode::kUnsupported) return {};
    if (!compiled) return std::unexpected(std::move(compiled).error());
    Program program = std::move(compiled->front().program);
    program.name = std::move(name);
    program.source = provider.source();
    content_.programs.push_back(std::move(program));
    return {};
  }

  const CompileOptions& options_;
  const ProviderList& providers_;
  const CompileTarget& target_;
  WeightStore store_;
  ContextContent content_;
};

}  // namespace

Status serve_variant(const std::vector<ModelInput>& inputs, const CompileOptions& options,
                     const std::function<Result<Blob>()>& request, const ByteSink& response) {
  return at_boundary("compiling", [&]() -> Status {
    const ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
    const CompileTarget target = CTXGEN_TRY(make_target(options, providers));
    CTXGEN_CHECK(limit_process(target, providers));
    const Blob asked = CTXGEN_TRY(request());
    const StageFunction stage = [&](CompileStage) -> Status {
      if (options.cancelled && options.cancelled())
        return fail(ErrorCode::kCancelled, "interrupted");
      return {};
    };
    std::vector<PreparedModel> models;
    std::vector<std::set<std::pair<std::size_t, std::uint32_t>>> own;
    for (const ModelInput& input : inputs) {
      ImportedModel imported = CTXGEN_TRY(import_model(input, options, providers));
      models.push_back(
          CTXGEN_TRY(prepare_model(std::move(imported), options, providers, target, stage)));
      own.push_back(nodes_of(models.back()));
    }
    CTXGEN_CHECK(apply_request(asked.bytes, models));
    VariantCompiler compiler(options, providers, target);
    std::vector<std::uint64_t> left_out;
    for (std::size_t m = 0; m < models.size(); ++m) {
      const auto given = nodes_of(models[m]);
      left_out.push_back(static_cast<std::uint64_t>(
          std::ranges::count_if(own[m], [&](const auto& node) { return !given.contains(node); })));
      CTXGEN_CHECK(compiler.add(m, models[m]));
    }
    CTXGEN_CHECK(response(encode_answer(left_out)));
    return compiler.write(response);
  });
}

}  // namespace ctxgen
