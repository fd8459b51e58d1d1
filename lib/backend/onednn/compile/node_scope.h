#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ctxgen/graph/graph.h"

namespace ctxgen::onednn {

/// Some nodes of a graph, or all of them, ascending. What is known of each is kept by its place among
/// them, so that work on a partition costs what the partition holds, not what the graph does.
class NodeScope {
 public:
  /// The place of each node is its index.
  explicit NodeScope(const Graph& graph) : size_(graph.node_count()) {}
  explicit NodeScope(std::span<const NodeId> nodes) : nodes_(nodes.begin(), nodes.end()) {
    std::ranges::sort(nodes_);
    nodes_.erase(std::ranges::unique(nodes_).begin(), nodes_.end());
    size_ = nodes_.size();
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] NodeId at(std::size_t place) const {
    return nodes_.empty() ? NodeId{static_cast<std::uint32_t>(place)} : nodes_[place];
  }
  /// size(), if the node is none of them.
  [[nodiscard]] std::size_t place(NodeId id) const {
    if (nodes_.empty()) return std::min<std::size_t>(id.index, size_);
    const auto found = std::ranges::lower_bound(nodes_, id);
    return found != nodes_.end() && *found == id ? static_cast<std::size_t>(found - nodes_.begin())
                                                 : size_;
  }
  /// Whether the node is one of them and marked in a list by place.
  [[nodiscard]] bool marked(const std::vector<bool>& marks, NodeId id) const {
    const std::size_t at = place(id);
    return at < size_ && marks[at];
  }

 private:
  std::vector<NodeId> nodes_;  // empty: those of the whole graph, or none
  std::size_t size_ = 0;
};

}  // namespace ctxgen::onednn
