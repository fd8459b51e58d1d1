#include "ctxgen/partition/rewrite.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace ctxgen {
namespace {

/// Things that are written as one node: a node, an expanded call, a partition.
struct Unit {
  NodeToWrite write;
  std::vector<NodeId> nodes;
  std::vector<ValueId> reads;
};

class RewritePlanner {
 public:
  RewritePlanner(const Graph& graph, const Assignment& assignment,
                 std::span<const CompiledNode> compiled, std::vector<BodyRewrite> bodies,
                 bool freeze)
      : graph_(graph),
        assignment_(assignment),
        compiled_(compiled),
        freeze_(freeze),
        unit_of_(graph_.node_count(), kDropped),
        broken_(graph_.calls().size(), false) {
    rewrite_.bodies = std::move(bodies);
    for (const BodyRewrite& body : rewrite_.bodies) body_of_.try_emplace(body.graph, &body.rewrite);
  }

  GraphRewrite run() {
    add_partitions();
    const std::size_t partitions = units_.size();
    add_remaining_nodes();
    find_reads();
    // A call that reads what a partition gives and gives what it reads cannot stay in one piece.
    while (!order_units()) {
      break_unordered_calls();
      units_.resize(partitions);
      for (std::size_t& unit : unit_of_)
        if (unit != kDropped && unit >= partitions) unit = kDropped;
      add_remaining_nodes();
      find_reads();
    }
    keep_values();
    return std::move(rewrite_);
  }

 private:
  static constexpr std::size_t kDropped = SIZE_MAX;

  void add_partitions() {
    for (const CompiledNode& node : compiled_) {
      Unit unit;
      unit.write.kind = NodeToWrite::Kind::kEpContext;
      unit.write.ep_context = rewrite_.ep_contexts.size();
      unit.nodes = node.partition->nodes;
      for (NodeId id : unit.nodes) unit_of_[id.index] = units_.size();
      EpContextNode written;
      written.name = unique_name(node.attributes.partition_name);
      written.inputs = node.partition->inputs;
      written.outputs = node.partition->outputs;
      written.attributes = node.attributes;
      written.payload = node.payload;
      rewrite_.ep_contexts.push_back(std::move(written));
      units_.push_back(std::move(unit));
    }
  }

  std::string unique_name(std::string name) {
    if (names_.empty())
      for (const Node& node : graph_.nodes()) names_.insert(node.name);
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  /// Calls of functions of which some node was compiled; those are written expanded.
  std::vector<bool> broken_calls() const {
    std::vector<bool> broken = broken_;
    for (std::uint32_t n = 0; n < graph_.node_count(); ++n)
      if (graph_.node(NodeId{n}).call >= 0 && unit_of_[n] != kDropped)
        broken[static_cast<std::size_t>(graph_.node(NodeId{n}).call)] = true;
    return broken;
  }

  /// Nodes outside partitions, but for folded ones that nothing outside reads (constants that only
  /// partitions used). Dead nodes of the source stay: they were there.
  void add_remaining_nodes() {
    const std::vector<bool> broken = broken_calls();
    std::vector<std::size_t> unit_of_call(graph_.calls().size(), kDropped);
    std::vector<bool> needed(graph_.node_count(), false);
    for (std::uint32_t n = static_cast<std::uint32_t>(graph_.node_count()); n-- > 0;)
      needed[n] = unit_of_[n] == kDropped && is_needed(NodeId{n}, needed, broken);
    for (std::uint32_t n = 0; n < graph_.node_count(); ++n) {
      if (!needed[n]) continue;
      const Node& node = graph_.node(NodeId{n});
      const bool whole_call = node.call >= 0 && !broken[static_cast<std::size_t>(node.call)];
      if (whole_call) {
        std::size_t& unit = unit_of_call[static_cast<std::size_t>(node.call)];
        if (unit == kDropped) {
          unit = units_.size();
          units_.push_back(Unit{{NodeToWrite::Kind::kCall, {}, node.call, 0}, {}, {}});
        }
        units_[unit].nodes.push_back(NodeId{n});
        unit_of_[n] = unit;
        continue;
      }
      unit_of_[n] = units_.size();
      units_.push_back(Unit{{NodeToWrite::Kind::kNode, NodeId{n}, -1, 0}, {NodeId{n}}, {}});
    }
  }

  bool is_needed(NodeId id, const std::vector<bool>& needed,
                 const std::vector<bool>& broken) const {
    const Node& node = graph_.node(id);
    if (!assignment_.nodes[id.index].folded) return true;
    if (node.call >= 0 && !broken[static_cast<std::size_t>(node.call)]) return true;
    return std::ranges::any_of(node.outputs, [&](ValueId output) {
      if (!output.valid()) return false;
      const Value& value = graph_.value(output);
      return value.is_output || value.consumers.empty() ||
             std::ranges::any_of(value.consumers, [&](NodeId c) { return needed[c.index]; });
    });
  }

  void find_reads() {
    for (Unit& unit : units_) {
      if (unit.write.kind == NodeToWrite::Kind::kEpContext) {
        unit.reads = rewrite_.ep_contexts[unit.write.ep_context].inputs;
      } else if (unit.write.kind == NodeToWrite::Kind::kCall) {
        unit.reads = graph_.calls()[static_cast<std::size_t>(unit.write.call)].inputs;
        // Values of the body that capture or fold still order the call after their producers.
        for (NodeId id : unit.nodes) add_reads(graph_.node(id), unit.reads);
      } else {
        add_reads(graph_.node(unit.write.node), unit.reads);
      }
      std::erase_if(unit.reads, [](ValueId id) { return !id.valid(); });
    }
  }

  void add_reads(const Node& node, std::vector<ValueId>& reads) const {
    reads.insert(reads.end(), node.inputs.begin(), node.inputs.end());
    const bool changes = std::ranges::any_of(node.attributes, [this](const Attribute& attribute) {
      return std::ranges::any_of(attribute.graphs,
                                 [this](const auto& body) { return find_body(*body) != nullptr; });
    });
    if (!changes) {
      reads.insert(reads.end(), node.captures.begin(), node.captures.end());
      return;
    }
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) add_captures(*body, reads);
  }

  [[nodiscard]] const GraphRewrite* find_body(const Graph& body) const {
    const auto it = body_of_.find(&body);
    return it == body_of_.end() ? nullptr : it->second;
  }

  /// What a body reads of this graph; what only its partitions read as constants is packed in them.
  void add_captures(const Graph& body, std::vector<ValueId>& reads) const {
    const auto add = [&](ValueId inner) { reads.push_back(graph_.find(body.value(inner).name)); };
    if (const GraphRewrite* changed = find_body(body)) {
      std::ranges::for_each(changed->captures, add);
      return;
    }
    for (std::uint32_t v = 0; v < body.value_count(); ++v) {
      const Value& value = body.value(ValueId{v});
      if (value.is_outer && (value.is_output || !value.consumers.empty())) add(ValueId{v});
    }
  }

  /// Kahn's algorithm; among ready units the one whose last node stands first in the source. False
  /// if units are left that wait for each other.
  [[nodiscard]] bool order_units() {
    rewrite_.nodes.clear();
    ordered_.assign(units_.size(), false);
    std::vector<std::vector<std::size_t>> next(units_.size());
    std::vector<std::size_t> waiting(units_.size(), 0);
    for (std::size_t u = 0; u < units_.size(); ++u)
      for (ValueId id : units_[u].reads) {
        const NodeId producer = graph_.value(id).producer;
        if (!producer.valid() || unit_of_[producer.index] == kDropped) continue;
        const std::size_t from = unit_of_[producer.index];
        if (from == u) continue;
        next[from].push_back(u);
        ++waiting[u];
      }
    auto later = [&](std::size_t a, std::size_t b) {
      return units_[a].nodes.back() > units_[b].nodes.back();
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> ready(later);
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (waiting[u] == 0) ready.push(u);
    while (!ready.empty()) {
      const std::size_t u = ready.top();
      ready.pop();
      rewrite_.nodes.push_back(units_[u].write);
      ordered_[u] = true;
      for (std::size_t to : next[u])
        if (--waiting[to] == 0) ready.push(to);
    }
    return rewrite_.nodes.size() == units_.size();
  }

  /// Calls among the units that wait for each other are written expanded; there is one, as nodes
  /// and partitions have an order.
  void break_unordered_calls() {
    std::size_t found = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (ordered_[u] || units_[u].write.kind != NodeToWrite::Kind::kCall) continue;
      broken_[static_cast<std::size_t>(units_[u].write.call)] = true;
      ++found;
    }
    CTXGEN_ASSERT(found > 0);
  }

  void keep_values() {
    std::vector<bool> read(graph_.value_count(), false);    // by a written node
    std::vector<bool> exists(graph_.value_count(), false);  // produced by a written node, or input
    std::vector<bool> boundary(graph_.value_count(), false);
    for (const Unit& unit : units_) {
      for (ValueId id : unit.reads) read[id.index] = true;
      if (unit.write.kind == NodeToWrite::Kind::kEpContext) {
        const EpContextNode& node = rewrite_.ep_contexts[unit.write.ep_context];
        for (ValueId id : node.inputs) boundary[id.index] = true;
        for (ValueId id : node.outputs) boundary[id.index] = exists[id.index] = true;
      } else {
        for (NodeId node : unit.nodes)
          for (ValueId id : graph_.node(node).outputs)
            if (id.valid()) exists[id.index] = true;
      }
    }
    for (std::uint32_t v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(ValueId{v});
      if (value.is_outer && (read[v] || value.is_output)) rewrite_.captures.push_back(ValueId{v});
    }
    std::vector<bool> initializer_kept(graph_.value_count(), false);
    for (std::uint32_t v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(ValueId{v});
      if (!value.initializer || value.is_outer) continue;
      // Nobody read it in the source: it stays, as everything that compiling did not touch.
      if (!read[v] && !value.is_output && !value.consumers.empty() && !value.is_overridable)
        continue;
      initializer_kept[v] = true;
      rewrite_.initializers.push_back(ValueId{v});
    }
    std::ranges::sort(rewrite_.initializers, {},
                      [&](ValueId id) { return graph_.value(id).initializer_source().offset; });
    for (ValueId id : graph_.inputs) {
      const Value& value = graph_.value(id);
      if (value.initializer && (freeze_ || !initializer_kept[id.index])) continue;
      exists[id.index] = true;
      rewrite_.inputs.push_back(id);
    }
    for (std::uint32_t v = 0; v < graph_.value_count(); ++v) {
      const Value& value = graph_.value(ValueId{v});
      if (value.is_input || value.is_output || value.is_outer) continue;
      const bool in_source = !value.info_source().empty() && (exists[v] || initializer_kept[v]);
      const bool needed = boundary[v] && value.type.kind != ValueType::Kind::kUnknown;
      if (in_source || needed) rewrite_.value_infos.push_back(ValueId{v});
    }
  }

  const Graph& graph_;
  const Assignment& assignment_;
  std::span<const CompiledNode> compiled_;
  bool freeze_;
  std::vector<std::size_t> unit_of_;  // by node; kDropped: not written
  std::vector<Unit> units_;
  std::vector<bool> ordered_;  // by unit
  std::vector<bool> broken_;   // by call: written expanded, whatever is compiled of it
  std::unordered_set<std::string> names_;
  GraphRewrite rewrite_;
  std::unordered_map<const Graph*, const GraphRewrite*> body_of_;  // of rewrite_.bodies, which stay
};

/// Functions that something written calls, and those that nothing called in the source either: what
/// compiling did not touch stays.
std::vector<std::size_t> functions_to_keep(const Model& model, const GraphRewrite& rewrite) {
  std::vector<std::size_t> kept;
  if (model.functions.empty()) return kept;
  std::vector<bool> dropped(model.functions.size(), false);
  for (std::size_t f : functions_in_use(model, identity_rewrite(model).nodes)) dropped[f] = true;
  for (std::size_t f : functions_in_use(model, rewrite.nodes)) dropped[f] = false;
  for (std::size_t f = 0; f < dropped.size(); ++f)
    if (!dropped[f]) kept.push_back(f);
  return kept;
}

bool has_ep_context(const GraphRewrite& rewrite) {
  return !rewrite.ep_contexts.empty() ||
         std::ranges::any_of(rewrite.bodies,
                             [](const BodyRewrite& body) { return has_ep_context(body.rewrite); });
}

}  // namespace

GraphRewrite plan_graph_rewrite(const Graph& graph, const Assignment& assignment,
                                std::span<const CompiledNode> compiled,
                                std::vector<BodyRewrite> bodies, bool freeze_initializers) {
  return RewritePlanner(graph, assignment, compiled, std::move(bodies), freeze_initializers).run();
}

ModelRewrite plan_rewrite(const Model& model, const Assignment& assignment,
                          std::span<const CompiledNode> compiled,
                          std::span<const std::pair<std::string, std::string>> metadata,
                          bool freeze_initializers, std::vector<BodyRewrite> bodies) {
  ModelRewrite rewrite;
  static_cast<GraphRewrite&>(rewrite) =
      plan_graph_rewrite(model.graph, assignment, compiled, std::move(bodies), freeze_initializers);
  rewrite.functions = functions_to_keep(model, rewrite);
  rewrite.needs_microsoft_opset = has_ep_context(rewrite);
  rewrite.metadata.assign(metadata.begin(), metadata.end());
  return rewrite;
}

}  // namespace ctxgen
