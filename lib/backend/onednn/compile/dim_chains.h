#pragma once

#include <vector>

#include "node_scope.h"
#include "node_view.h"

namespace ctxgen::onednn {

/// Nodes that compute sizes (Shape, Gather, Concat...) for ops that take them as dim code: they
/// vanish in a partition, if nothing else reads what they compute.
///
/// Determinism  depends on the graph and on `allowed` only; what vanishes in the whole graph
///              vanishes again in every partition that holds it and its readers.
/// Requires     `scope` is the whole graph, or a partition of it: no way leaves that and comes back.
class DimChains {
 public:
  /// `readers`: nodes that a row took, with lists of sizes as inputs (dim_list.h).
  /// `allowed`, `taken`: by place in `scope`. `taken`: nodes that are taken otherwise. Nodes of others
  /// between two readers part them: what both need the sizes of stays. `together`: nodes that one
  /// pattern takes, in one group with the readers among them.
  DimChains(const GraphView& view, const NodeScope& scope, const std::vector<bool>& allowed,
            const std::vector<NodeId>& readers, const std::vector<bool>& taken,
            const std::vector<std::vector<NodeId>>& together = {});

  /// Whether the node vanishes.
  [[nodiscard]] bool vanishes(NodeId id) const { return scope_.marked(vanishes_, id); }
  /// Why a reader cannot have its sizes, or nothing.
  [[nodiscard]] Refusal refusal(NodeId reader) const;
  /// Readers and the nodes that vanish for them; each group must stay together.
  [[nodiscard]] const std::vector<std::vector<NodeId>>& groups() const { return groups_; }

 private:
  void collect(NodeId reader);
  void find_levels(const std::vector<bool>& taken,
                   const std::vector<std::vector<NodeId>>& together);
  void settle();
  [[nodiscard]] bool is_inside(ValueId list) const;
  [[nodiscard]] bool may_vanish(NodeId id) const;
  [[nodiscard]] bool is_unread(NodeId folded, int depth) const;
  [[nodiscard]] bool is_served(NodeId reader) const;
  void keep(NodeId id, std::vector<NodeId>& open);
  void make_groups(const std::vector<std::vector<NodeId>>& together);

  [[nodiscard]] bool reads(NodeId id) const { return scope_.marked(reads_, id); }

  const GraphView& view_;
  const NodeScope& scope_;
  const std::vector<bool>&allowed_, &taken_;
  std::vector<bool> vanishes_, reads_;  // by place
  std::vector<std::uint32_t> level_;    // by place: how many times its inputs left for other nodes
  std::vector<NodeId> readers_;
  std::vector<std::vector<NodeId>> groups_;
};

/// Whether the node's row reads lists of sizes, and they are not constant.
[[nodiscard]] bool reads_dims(const GraphView& view, const Node& node);

}  // namespace ctxgen::onednn
