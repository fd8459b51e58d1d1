#pragma once

#include <vector>

#include "node_scope.h"
#include "node_view.h"

namespace ctxgen::onednn {

/// Nodes that read what sizes are computed for, and what is said of them.
struct SizeReaders {
  std::vector<NodeId>
      readers;  // that a row or a pattern took, with lists of sizes as inputs (dim_list.h)
  std::vector<NodeId>
      takers;  // of patterns that need no more than sizes of what they read; ascending
  std::vector<std::vector<NodeId>> together;  // nodes that one pattern takes, readers among them
  std::vector<std::vector<NodeId>> joined;    // nodes of patterns that are to be in one partition
};

/// Nodes that compute sizes (Shape, Gather, Concat...) for ops that take them as dim code: they
/// vanish in a partition, if nothing else reads what they compute.
///
/// Determinism  depends on the graph and on `allowed` only; what vanishes in the whole graph
///              vanishes again in every partition that holds it and its readers.
/// Requires     `scope` is the whole graph, or a partition of it: no way leaves that and comes back.
class DimChains {
 public:
  /// `allowed`, `taken`: by place in `scope`. `taken`: nodes that are taken otherwise. Nodes of others
  /// between two readers part them: what both need the sizes of stays.
  DimChains(const GraphView& view, const NodeScope& scope, const std::vector<bool>& allowed,
            SizeReaders readers, const std::vector<bool>& taken);

  /// Whether the node vanishes.
  [[nodiscard]] bool vanishes(NodeId id) const { return scope_.marked(vanishes_, id); }
  /// Why a reader cannot have its sizes, or nothing.
  [[nodiscard]] Refusal refusal(NodeId reader) const;
  /// Whether taken nodes, or what these give, come before it.
  [[nodiscard]] bool follows(NodeId id) const { return scope_.marked(follows_, id); }
  /// How many times ways to the node left for nodes of others.
  [[nodiscard]] std::uint32_t level(NodeId id) const {
    const std::size_t at = scope_.place(id);
    return at < level_.size() ? level_[at] : UINT32_MAX;
  }
  /// Readers and the nodes that vanish for them; each group must stay together.
  [[nodiscard]] const std::vector<std::vector<NodeId>>& groups() const { return groups_; }

 private:
  void collect(NodeId reader);
  void find_followers();
  void find_levels();
  void settle();
  [[nodiscard]] bool is_inside(ValueId list) const;
  [[nodiscard]] bool may_vanish(NodeId id) const;
  [[nodiscard]] bool is_unread(NodeId folded, int depth) const;
  [[nodiscard]] bool is_served(NodeId reader) const;
  void keep(NodeId id, std::vector<NodeId>& open);
  void make_groups();
  [[nodiscard]] bool takes(NodeId id) const;
  [[nodiscard]] std::vector<ValueId> lists_of(NodeId reader) const;

  [[nodiscard]] bool reads(NodeId id) const { return scope_.marked(reads_, id); }

  const GraphView& view_;
  const NodeScope& scope_;
  const std::vector<bool>&allowed_, &taken_;
  std::vector<bool> vanishes_, reads_;  // by place
  std::vector<bool> follows_;           // by place: after what is taken
  std::vector<std::uint32_t> level_;    // by place: how many times its inputs left for other nodes
  SizeReaders given_;
  std::vector<std::vector<NodeId>> groups_;
};

/// Whether the node's row reads lists of sizes, and they are not constant.
[[nodiscard]] bool reads_dims(const GraphView& view, const Node& node);

}  // namespace ctxgen::onednn
