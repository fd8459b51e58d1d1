#include "ctxgen/compiler/build_graph.h"

#include <utility>

namespace ctxgen {

Result<std::vector<BuiltPartition>> build_graph(ContextBuilder& builder, const Model& model,
                                                const Graph& graph, Assignment& assignment,
                                                const GraphBuild& build) {
  std::vector<Exclusion> exclusions;
  while (true) {
    if (build.adjust) build.adjust(assignment);
    auto built = builder.add_model(model, graph, assignment, build.options, build.prefix,
                                   build.first_ordinal);
    if (built || built.error().code == ErrorCode::kCancelled) return built;
    const GraphView view(model, graph, build.target);
    const std::size_t before = exclusions.size();
    for (std::size_t p = 0; p < build.providers.size(); ++p)
      for (Rejection& rejection :
           build.providers[p]->refused_after_all(view, assignment.partitions[p], build.options[p]))
        exclusions.push_back({p, std::move(rejection)});
    if (exclusions.size() == before) return built;
    assignment =
        CTXGEN_TRY(partition_graph(model, graph, build.providers, exclusions, build.target));
  }
}

}  // namespace ctxgen
