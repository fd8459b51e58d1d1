#pragma once

#include <optional>
#include <vector>

#include "ctxgen/base/function_ref.h"

#include "dim_chains.h"
#include "patterns/patterns.h"

namespace ctxgen::onednn {

/// What becomes of nodes: parts of patterns, readers of sizes, nodes that vanish, and others.
///
/// Determinism  as find_patterns() and DimChains: what holds in the whole graph holds again in every
///              partition that has the same nodes.
class NodeChoice {
 public:
  using Check = FunctionRef<Refusal(const NodeView& n)>;

  /// `free`: by place, nodes that may be chosen. `check`: why one that is in no pattern is refused.
  /// Lifetime  borrows `view` and `scope`.
  NodeChoice(const GraphView& view, const NodeScope& scope, std::vector<bool> free, Check check);
  NodeChoice(const NodeChoice&) = delete;
  NodeChoice& operator=(const NodeChoice&) = delete;

  [[nodiscard]] const std::vector<PatternMatch>& patterns() const { return patterns_; }
  /// By place: neither taken by others nor in a pattern.
  [[nodiscard]] const std::vector<bool>& alone() const { return alone_; }
  [[nodiscard]] bool in_pattern(NodeId id) const { return scope_.marked(in_pattern_, id); }
  [[nodiscard]] const DimChains& chains() const { return *chains_; }
  /// Why a node that is alone is refused.
  [[nodiscard]] Refusal refusal(NodeId id) const { return refusals_[scope_.place(id)]; }

 private:
  void choose(Check check);
  void refuse_masks();
  bool find_early();
  [[nodiscard]] bool reaches_taken(NodeId from) const;
  [[nodiscard]] bool comes_early(std::size_t place) const;
  [[nodiscard]] bool holds(const PatternMatch& match) const;
  [[nodiscard]] bool all_make(const PatternMatch& match) const;
  [[nodiscard]] std::vector<std::vector<NodeId>> makers() const;

  const GraphView& view_;
  const NodeScope& scope_;
  const std::vector<bool> free_;
  std::vector<PatternMatch> patterns_;
  std::vector<bool> alone_, in_pattern_, taken_;
  std::vector<bool> early_;  // moves that others need before the partition
  std::vector<Refusal> refusals_;
  std::vector<NodeId> readers_;
  std::optional<DimChains> chains_;
};

}  // namespace ctxgen::onednn
