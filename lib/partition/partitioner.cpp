#include "ctxgen/partition/partitioner.h"

#include <algorithm>
#include <format>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "ctxgen/graph/folding.h"

namespace ctxgen {
namespace {

/// What EPContext's schema allows as input or output: numbers of 8 bits and more, and bool.
bool may_cross_boundary(const ValueType& type) {
  if (!type.is_tensor()) return false;
  switch (type.element) {
    case DataType::kFloat:
    case DataType::kDouble:
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
    case DataType::kBool: return true;
    default: return false;
  }
}

bool is_folded(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.outputs, &ValueId::valid) && all_outputs_folded(graph, node);
}

/// Union-find over nodes, for connected components inside a partition.
class Components {
 public:
  explicit Components(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0U);
  }
  void part(std::span<const NodeId> nodes) {  // each alone again
    for (const NodeId node : nodes) parent_[node.index] = node.index;
  }
  std::uint32_t find(std::uint32_t n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }
  void join(std::uint32_t a, std::uint32_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::uint32_t> parent_;
};

/// Marks on nodes or values that are all taken away at once: lists that many partitions use in turn
/// without a walk over the graph for each.
class Marks {
 public:
  explicit Marks(std::size_t count) : round_of_(count, 0) {}
  void clear() { ++round_; }
  void set(std::uint32_t index) { round_of_[index] = round_; }
  [[nodiscard]] bool has(std::uint32_t index) const { return round_of_[index] == round_; }

 private:
  std::vector<std::uint32_t> round_of_;
  std::uint32_t round_ = 1;
};

class Partitioner {
 public:
  Partitioner(const Model& model, const Graph& graph, std::span<const Provider* const> providers,
              std::span<const Exclusion> exclusions, const CompileTarget& target)
      : graph_(graph),
        providers_(providers),
        view_(model, graph, target),
        components_(graph.node_count()),
        inside_(graph.node_count()),
        has_work_(graph.node_count()),
        seen_(graph.value_count()),
        excluded_(providers.size()) {
    for (const Exclusion& exclusion : exclusions)
      if (exclusion.provider < providers.size())
        excluded_[exclusion.provider].try_emplace(exclusion.rejection.node, &exclusion);
    assignment_.nodes.resize(graph.node_count());
    assignment_.partitions.resize(providers.size());
    for (std::uint32_t n = 0; n < graph.node_count(); ++n)
      assignment_.nodes[n].folded = is_folded(graph, graph.node(NodeId{n}));
  }

  Result<Assignment> run() {
    for (std::size_t p = 0; p < providers_.size(); ++p) {
      const Capabilities capabilities = CTXGEN_TRY(providers_[p]->capabilities(view_));
      note_rejections(p, capabilities);
      std::vector<Claim> claims = accept_claims(p, capabilities);
      if (providers_[p]->compiles()) {
        make_partitions(p, claims);
      } else {
        for (const Claim& claim : claims)
          for (NodeId node : claim.nodes) take(node, static_cast<int>(p), -1);
      }
    }
    find_boundaries();
    return std::move(assignment_);
  }

 private:
  void take(NodeId node, int provider, int partition) {
    assignment_.nodes[node.index].provider = provider;
    assignment_.nodes[node.index].partition = partition;
    view_.take(node);
  }

  void give_reason(NodeId node, std::size_t provider, std::string_view reason) {
    assignment_.nodes[node.index].reasons.push_back(
        std::format("{}: {}", providers_[provider]->name(), reason));
  }

  void note_rejections(std::size_t provider, const Capabilities& capabilities) {
    for (const Rejection& rejection : capabilities.rejections)
      if (rejection.node.index < graph_.node_count() && !view_.taken(rejection.node))
        give_reason(rejection.node, provider, rejection.reason);
  }

  /// Why the provider is not to get this claim, if it holds an excluded node.
  [[nodiscard]] std::optional<std::string> exclusion_of(std::size_t provider,
                                                        const Claim& claim) const {
    const Exclusion* first = nullptr;  // in the order of the list, of which they are elements
    for (const NodeId node : claim.nodes)
      if (const auto found = excluded_[provider].find(node); found != excluded_[provider].end())
        first = first == nullptr ? found->second : std::min(first, found->second);
    if (first == nullptr) return std::nullopt;
    return first->rejection.reason;
  }

  /// Claims that hold no taken node, no node twice and no unknown one; the others are reported.
  std::vector<Claim> accept_claims(std::size_t provider, const Capabilities& capabilities) {
    std::vector<Claim> accepted;
    std::vector<bool> claimed(graph_.node_count(), false);
    for (const Claim& claim : capabilities.claims) {
      if (const auto reason = exclusion_of(provider, claim)) {
        for (NodeId node : claim.nodes) give_reason(node, provider, *reason);
        continue;
      }
      std::optional<std::string> fault;
      std::vector<NodeId> nodes = claim.nodes;
      std::ranges::sort(nodes);
      if (nodes.empty()) fault = "it is empty";
      if (std::ranges::adjacent_find(nodes) != nodes.end()) fault = "it holds a node twice";
      for (NodeId node : nodes) {
        if (fault) break;
        if (!node.valid() || node.index >= graph_.node_count())
          fault = "it holds an unknown node";
        else if (view_.taken(node) || claimed[node.index])
          fault = std::format("{} is taken already", graph_.node(node).describe());
      }
      if (fault) {
        assignment_.warnings.push_back(std::format("a claim of provider \"{}\" is refused: {}",
                                                   providers_[provider]->name(), *fault));
        for (NodeId node : nodes)
          if (node.valid() && node.index < graph_.node_count() && !view_.taken(node))
            give_reason(node, provider, std::format("claim refused: {}", *fault));
        continue;
      }
      for (NodeId node : nodes) claimed[node.index] = true;
      accepted.push_back({std::move(nodes), claim.glue});
    }
    return accepted;
  }

  void make_partitions(std::size_t provider, std::span<const Claim> claims) {
    std::vector<NodeSet> sets, units;
    std::vector<const Claim*> claim_of(graph_.node_count(), nullptr);
    for (const Claim& claim : claims) {
      sets.push_back(claim.nodes);
      for (NodeId node : claim.nodes) claim_of[node.index] = &claim;
    }
    for (const auto& partitions : assignment_.partitions)
      for (const Partition& partition : partitions) units.push_back(partition.nodes);

    ConvexResult convex = merge_convex(graph_, sets, units);
    for (std::size_t index : convex.not_convex) {
      assignment_.warnings.push_back(
          std::format("a claim of provider \"{}\" is refused: it is not convex (holds {})",
                      providers_[provider]->name(), graph_.node(sets[index].front()).describe()));
      for (NodeId node : sets[index]) give_reason(node, provider, "claim refused: not convex");
    }
    for (NodeSet& nodes : convex.partitions) {
      drop_lone_glue(provider, nodes, claim_of);
      if (nodes.empty()) continue;
      if (auto fault = boundary_fault(nodes)) {
        for (NodeId node : nodes) give_reason(node, provider, *fault);
        continue;
      }
      const auto index = static_cast<int>(assignment_.partitions[provider].size());
      for (NodeId node : nodes) take(node, static_cast<int>(provider), index);
      assignment_.partitions[provider].push_back(Partition{std::move(nodes), {}, {}});
    }
  }

  /// Removes connected parts of a partition that hold glue only; a claim is connected, whatever it
  /// holds. What is left stays convex: a path between two parts inside one level would join them.
  void drop_lone_glue(std::size_t provider, NodeSet& nodes,
                      const std::vector<const Claim*>& claim_of) {
    mark_inside(nodes);
    components_.part(nodes);
    for (NodeId node : nodes) {
      components_.join(node.index, claim_of[node.index]->nodes.front().index);
      for (ValueId output : graph_.node(node).outputs)
        if (output.valid())
          for (NodeId consumer : graph_.value(output).consumers)
            if (inside_.has(consumer.index)) components_.join(node.index, consumer.index);
    }
    has_work_.clear();
    for (NodeId node : nodes)
      if (!claim_of[node.index]->glue) has_work_.set(components_.find(node.index));
    std::erase_if(nodes, [&](NodeId node) {
      if (has_work_.has(components_.find(node.index))) return false;
      give_reason(node, provider, "only moves data, and nothing next to it is compiled");
      return true;
    });
  }

  void mark_inside(std::span<const NodeId> nodes) {
    inside_.clear();
    for (NodeId node : nodes) inside_.set(node.index);
  }

  std::optional<std::string> boundary_fault(std::span<const NodeId> nodes) {
    mark_inside(nodes);
    bool has_input = false, has_output = false;
    auto check = [&](ValueId id) -> std::optional<std::string> {
      const Value& value = graph_.value(id);
      if (may_cross_boundary(value.type)) return std::nullopt;
      return std::format(
          "value \"{}\" on the partition's boundary has no type that EPContext "
          "takes",
          value.name);
    };
    for (NodeId id : nodes) {
      const Node& node = graph_.node(id);
      auto read = [&](ValueId input) -> std::optional<std::string> {
        if (!input.valid()) return std::nullopt;
        const Value& value = graph_.value(input);
        if (value.constant() != nullptr) return std::nullopt;
        if (value.producer.valid() && inside_.has(value.producer.index)) return std::nullopt;
        has_input = true;
        return check(input);
      };
      for (ValueId input : node.inputs)
        if (auto fault = read(input)) return fault;
      for (ValueId input : node.captures)
        if (auto fault = read(input)) return fault;
      for (ValueId output : node.outputs) {
        if (!output.valid()) continue;
        const Value& value = graph_.value(output);
        const bool leaves = value.is_output || std::ranges::any_of(value.consumers, [&](NodeId c) {
                              return !inside_.has(c.index);
                            });
        if (!leaves) continue;
        has_output = true;
        if (auto fault = check(output)) return fault;
      }
    }
    if (!has_input) return "the partition would have no input";
    if (!has_output) return "the partition would have no output";
    return std::nullopt;
  }

  /// Nodes that run at all: not in a partition, and either not folded or read by such a node.
  std::vector<bool> nodes_outside() const {
    std::vector<bool> outside(graph_.node_count(), false);
    for (std::uint32_t n = static_cast<std::uint32_t>(graph_.node_count()); n-- > 0;) {
      const NodeAssignment& a = assignment_.nodes[n];
      if (a.partition >= 0) continue;
      if (!a.folded) {
        outside[n] = true;
        continue;
      }
      for (ValueId output : graph_.node(NodeId{n}).outputs) {
        if (!output.valid()) continue;
        const Value& value = graph_.value(output);
        if (value.is_output || value.consumers.empty() ||
            std::ranges::any_of(value.consumers, [&](NodeId c) { return outside[c.index]; }))
          outside[n] = true;
      }
    }
    return outside;
  }

  void find_boundaries() {
    const std::vector<bool> outside = nodes_outside();
    for (std::size_t p = 0; p < providers_.size(); ++p)
      for (std::size_t i = 0; i < assignment_.partitions[p].size(); ++i)
        find_boundary(assignment_.partitions[p][i], static_cast<int>(p), static_cast<int>(i),
                      outside);
    for (std::size_t p = 0; p < providers_.size(); ++p) give_back_unread(p);
  }

  /// A partition whose results only folded nodes read has no output: its nodes stay in the model as
  /// the dead nodes that they are.
  void give_back_unread(std::size_t provider) {
    auto& partitions = assignment_.partitions[provider];
    int fallback = -1;
    for (std::size_t p = 0; p < providers_.size(); ++p)
      if (!providers_[p]->compiles()) fallback = static_cast<int>(p);
    for (std::size_t i = 0; i < partitions.size(); ++i) {
      if (partitions[i].outputs.empty()) {
        for (NodeId node : partitions[i].nodes) {
          give_reason(node, provider, "nothing reads the partition's results");
          take(node, fallback, -1);
        }
        partitions.erase(partitions.begin() + static_cast<std::ptrdiff_t>(i--));
        continue;
      }
      for (NodeId node : partitions[i].nodes)
        assignment_.nodes[node.index].partition = static_cast<int>(i);
    }
  }

  void find_boundary(Partition& partition, int provider, int index,
                     const std::vector<bool>& outside) {
    auto inside = [&](NodeId id) {
      const NodeAssignment& a = assignment_.nodes[id.index];
      return a.provider == provider && a.partition == index;
    };
    seen_.clear();
    auto read = [&](ValueId id) {
      if (!id.valid() || seen_.has(id.index)) return;
      const Value& value = graph_.value(id);
      if (value.constant() != nullptr || (value.producer.valid() && inside(value.producer))) return;
      seen_.set(id.index);
      partition.inputs.push_back(id);
    };
    for (NodeId id : partition.nodes) {
      for (ValueId input : graph_.node(id).inputs) read(input);
      for (ValueId input : graph_.node(id).captures) read(input);
    }
    for (NodeId id : partition.nodes)
      for (ValueId output : graph_.node(id).outputs) {
        if (!output.valid()) continue;
        const Value& value = graph_.value(output);
        const bool leaves = value.is_output || std::ranges::any_of(value.consumers, [&](NodeId c) {
                              if (inside(c)) return false;
                              return assignment_.nodes[c.index].partition >= 0 || outside[c.index];
                            });
        if (leaves) partition.outputs.push_back(output);
      }
  }

  const Graph& graph_;
  std::span<const Provider* const> providers_;
  GraphView view_;
  Assignment assignment_;
  // Of the partition that is looked at.
  Components components_;
  Marks inside_, has_work_, seen_;  // by node, by node, by value
  /// By provider: the first exclusion of each node.
  std::vector<std::unordered_map<NodeId, const Exclusion*>> excluded_;
};

}  // namespace

Result<Assignment> partition_graph(const Model& model, const Graph& graph,
                                   std::span<const Provider* const> providers,
                                   std::span<const Exclusion> exclusions,
                                   const CompileTarget& target) {
  return Partitioner(model, graph, providers, exclusions, target).run();
}

}  // namespace ctxgen
