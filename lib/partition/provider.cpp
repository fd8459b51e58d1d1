#include "ctxgen/partition/provider.h"

namespace ctxgen {

GraphView::GraphView(const Model& model, const Graph& graph)
    : model_(&model), graph_(&graph), taken_(graph.node_count(), false) {}

}  // namespace ctxgen
