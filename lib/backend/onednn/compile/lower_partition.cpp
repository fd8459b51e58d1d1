#include "lower_partition.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "node_choice.h"
#include "op_row.h"

namespace ctxgen::onednn {

namespace {

bool is_constant(const GraphView& view, const Node& node) {
  return std::ranges::all_of(node.outputs, [&](ValueId output) {
    return !output.valid() || view.constant(output) != nullptr;
  });
}

}  // namespace

Result<Lowered> lower_partition(const GraphView& view, const Partition& partition,
                                SpillFile* spill) {
  ProgramBuilder builder(view, spill);
  for (const ValueId id : partition.inputs) builder.add_input(id);
  for (const ValueId id : partition.outputs) builder.add_output(id);
  // Where defaults count as constants, what follows from them alone is one, too.
  std::vector<NodeId> nodes;
  std::ranges::copy_if(partition.nodes, std::back_inserter(nodes),
                       [&](NodeId id) { return !is_constant(view, view.graph().node(id)); });
  const NodeScope scope(nodes);
  const NodeChoice choice(view, scope, std::vector<bool>(scope.size(), true),
                          [](const NodeView&) { return Refusal(); });

  // A pattern is lowered where its last node is; its other nodes vanish.
  std::unordered_map<NodeId, const PatternMatch*> last_nodes;
  for (const PatternMatch& match : choice.patterns())
    last_nodes.emplace(match.nodes.back(), &match);
  for (const NodeId id : nodes) {
    if (const auto found = last_nodes.find(id); found != last_nodes.end()) {
      CTXGEN_CHECK(lower_pattern(view, *found->second, builder));
    }
    if (choice.in_pattern(id) || choice.chains().vanishes(id)) continue;
    const NodeView n(view, view.graph().node(id));
    if (const Refusal refusal = check_node(n)) {
      // With defaults as constants it may be one that folding should have taken, but could not.
      return fail(view.is_by_default() ? ErrorCode::kUnsupported : ErrorCode::kInternal,
                  "{} is in a partition although it was refused: {}", n.node().describe(),
                  *refusal);
    }
    CTXGEN_CHECK(lower_node(n, builder));
  }
  return CTXGEN_TRY(std::move(builder).finish());
}

}  // namespace ctxgen::onednn
