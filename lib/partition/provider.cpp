#include "ctxgen/partition/provider.h"

namespace ctxgen {

GraphView::GraphView(const Model& model, const Graph& graph, const CompileTarget& target)
    : model_(&model), graph_(&graph), target_(target), taken_(graph.node_count(), false) {}

}  // namespace ctxgen
