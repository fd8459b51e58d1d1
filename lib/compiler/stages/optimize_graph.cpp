#include "stages/optimize_graph.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ctxgen/cpu/fold.h"
#include "ctxgen/graph/folding.h"

namespace ctxgen {
namespace {

/// A folded value that is larger than this, and than what it was computed from, stays a node.
constexpr std::uint64_t kMaxGrownBytes = std::uint64_t{64} << 10;

bool has_body(const Node& node) {
  return std::ranges::any_of(node.attributes, [](const Attribute& a) { return !a.graphs.empty(); });
}

class Optimizer {
 public:
  explicit Optimizer(Model& model) : model_(model), graph_(model.graph) {
    removed_.resize(graph_.node_count());
    rewired_.resize(graph_.node_count());
    was_read_.resize(graph_.value_count());
    named_by_call_.resize(graph_.value_count());
    captured_.resize(graph_.value_count());
    replaced_by_.resize(graph_.value_count());
    for (const Node& node : graph_.nodes())
      for (const ValueId id : node.captures) captured_[id.index] = true;
    for (const FunctionCall& call : graph_.calls())
      for (const ValueId id : call.inputs)
        if (id.valid()) named_by_call_[id.index] = true;
    for (std::uint32_t v = 0; v < graph_.value_count(); ++v)
      was_read_[v] = !graph_.value(ValueId{v}).consumers.empty();
  }

  OptimizedGraph run(GraphOptimization level) {
    write_folded_constants();
    for (std::uint32_t n = 0; n < graph_.node_count(); ++n) {
      take_replacements(NodeId{n});
      skip_if_unchanging(NodeId{n});
    }
    if (level != GraphOptimization::kBasic) merge_equal_nodes();
    remove_dead_nodes();
    return finish();
  }

 private:
  /// Nodes that came out of a function are written as its call, if nothing of it is compiled.
  [[nodiscard]] bool is_free(NodeId id) const {
    return !removed_[id.index] && graph_.node(id).call < 0;
  }

  /// Whether every reader of a value names it among its inputs, where it can be given another.
  [[nodiscard]] bool may_be_replaced(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.is_output || named_by_call_[id.index] || captured_[id.index]) return false;
    return std::ranges::all_of(value.consumers,
                               [&](NodeId reader) { return graph_.node(reader).call < 0; });
  }

  /// The readers come after the node in question: each takes the other value when it is its
  /// turn. Until finish() links again, consumers are in no order, and one may occur twice.
  void replace(ValueId old_value, ValueId new_value) {
    auto& readers = graph_.value(new_value).consumers;
    for (const NodeId reader : graph_.value(old_value).consumers) {
      if (removed_[reader.index]) continue;
      rewired_[reader.index] = true;
      if (readers.empty() || readers.back() != reader) readers.push_back(reader);
    }
    graph_.value(old_value).consumers.clear();
    replaced_by_[old_value.index] = new_value;
  }

  void take_replacements(NodeId id) {
    for (ValueId& input : graph_.node(id).inputs)
      if (input.valid() && replaced_by_[input.index].valid()) input = replaced_by_[input.index];
  }

  [[nodiscard]] bool grows(const Node& node) const {
    std::uint64_t read = kMaxGrownBytes, written = 0;
    for (const ValueId id : node.inputs)
      if (id.valid() && graph_.value(id).constant() != nullptr)
        read = std::max<std::uint64_t>(read, graph_.value(id).constant()->bytes().size());
    for (const ValueId id : node.outputs)
      if (id.valid()) written += graph_.value(id).folded->bytes().size();
    return written > read && node.op_type != "Constant";
  }

  void write_folded_constants() {
    for (std::uint32_t n = 0; n < graph_.node_count(); ++n) {
      const Node& node = graph_.node(NodeId{n});
      const bool folded = !node.outputs.empty() && all_outputs_folded(graph_, node);
      // Products in integers need to see what was dequantised.
      if (!folded || !is_free(NodeId{n}) || grows(node) || node.op_type == "DequantizeLinear")
        continue;
      removed_[n] = true;
      for (const ValueId id : node.outputs) {
        if (!id.valid()) continue;
        Value& value = graph_.value(id);
        value.initializer = std::exchange(value.folded, std::nullopt);
        value.edit_sources().info = {};  // the initializer says it
      }
    }
  }

  [[nodiscard]] bool same_fixed_type(ValueId a, ValueId b) const {
    const ValueType& left = graph_.value(a).type;
    const ValueType& right = graph_.value(b).type;
    const auto dims = left.fixed_dims();
    return left.is_tensor() && right.is_tensor() && left.element == right.element && dims &&
           dims == right.fixed_dims();
  }

  /// Whether the first output is the first input, bit by bit.
  [[nodiscard]] bool changes_nothing(const Node& node) const {
    if (!node.domain.empty() || !node.input(0).valid() || !node.output(0).valid()) return false;
    if (node.op_type == "Identity") return true;
    const ValueType& from = graph_.value(node.input(0)).type;
    if (node.op_type == "Dropout")  // training mode: an input since version 12, `is_test` until 6
      return node.opset >= 7 && !node.output(1).valid() && !node.input(2).valid();
    if (node.op_type == "Cast")
      return from.is_tensor() && static_cast<std::int64_t>(from.element) == node.int_or("to", -1);
    if (node.op_type == "Concat" || node.op_type == "Sum" || node.op_type == "Max" ||
        node.op_type == "Min" || node.op_type == "Mean")
      return node.inputs.size() == 1;
    if (node.op_type == "Transpose") {
      const auto perm = node.ints("perm");
      if (!perm) return from.has_rank() && from.rank() < 2;
      return std::ranges::is_sorted(*perm) && std::ranges::adjacent_find(*perm) == perm->end();
    }
    constexpr std::string_view kShapeOps[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze",
                                              "Expand"};
    return std::ranges::contains(kShapeOps, std::string_view(node.op_type)) &&
           same_fixed_type(node.input(0), node.output(0));
  }

  void skip_if_unchanging(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_free(id) || !changes_nothing(node) || !may_be_replaced(node.output(0))) return;
    replace(node.output(0), node.input(0));  // the node is dead now
  }

  /// What a node computes: everything but names. "": not to be merged.
  [[nodiscard]] std::string key_of(const Node& node) const {
    std::string key = node.domain.str() + '\0' + node.op_type + '\0' + node.overload + '\0' +
                      std::to_string(node.opset) + '\0' + std::to_string(node.outputs.size());
    for (const ValueId id : node.inputs)
      key += '\0' + (id.valid() ? std::to_string(id.index) : "-");
    std::vector<std::string> attributes;
    for (const Attribute& attribute : node.attributes) {
      if (attribute.source.empty()) return {};
      attributes.emplace_back(as_text(model_.bytes(attribute.source)));
    }
    std::ranges::sort(attributes);
    for (const std::string& attribute : attributes)
      key += '\0' + std::to_string(attribute.size()) + '\0' + attribute;
    return key;
  }

  void merge_equal_nodes() {
    std::map<std::string, NodeId> first;
    for (std::uint32_t n = 0; n < graph_.node_count(); ++n) {
      take_replacements(NodeId{n});
      const Node& node = graph_.node(NodeId{n});
      if (!is_free(NodeId{n}) || cpu::is_random(node) || node.op_type == "Dropout" ||
          has_body(node))
        continue;
      const std::string key = key_of(node);
      if (key.empty()) continue;
      const auto [known, added] = first.try_emplace(key, NodeId{n});
      if (!added) merge(known->second, NodeId{n});
    }
  }

  void merge(NodeId kept, NodeId other) {
    const Node& node = graph_.node(other);
    const Node& same = graph_.node(kept);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (!id.valid() || (graph_.value(id).consumers.empty() && !graph_.value(id).is_output))
        continue;
      if (!same.outputs[i].valid() || !may_be_replaced(id)) return;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i].valid() && same.outputs[i].valid())
        replace(node.outputs[i], same.outputs[i]);
  }

  void remove_dead_nodes() {
    for (std::uint32_t n = static_cast<std::uint32_t>(graph_.node_count()); n-- > 0;) {
      const NodeId id{n};
      if (!is_free(id) || graph_.node(id).outputs.empty()) continue;
      removed_[n] = std::ranges::none_of(graph_.node(id).outputs, [&](ValueId output) {
        if (!output.valid()) return false;
        const Value& value = graph_.value(output);
        return value.is_output || named_by_call_[output.index] ||
               std::ranges::any_of(value.consumers,
                                   [&](NodeId reader) { return !removed_[reader.index]; });
      });
    }
  }

  OptimizedGraph finish() {
    OptimizedGraph result;
    std::vector<Node> kept;
    for (std::uint32_t n = 0; n < graph_.node_count(); ++n) {
      if (removed_[n]) continue;
      if (rewired_[n]) result.rewired.push_back(NodeId{static_cast<std::uint32_t>(kept.size())});
      kept.push_back(std::move(graph_.node(NodeId{n})));
    }
    result.removed_nodes = graph_.node_count() - kept.size();
    graph_.set_nodes(std::move(kept));
    for (std::uint32_t v = 0; v < graph_.value_count(); ++v) {
      Value& value = graph_.value(ValueId{v});
      const bool forgotten =
          was_read_[v] && value.consumers.empty() && !value.is_output && !named_by_call_[v];
      if (!forgotten) continue;
      value.edit_sources().info = {};
      if (!value.is_input) value.initializer.reset();
    }
    return result;
  }

  Model& model_;
  Graph& graph_;
  std::vector<bool> removed_, rewired_;  // by node
  std::vector<bool> was_read_;           // by value
  std::vector<bool> named_by_call_;      // by value: the text of a function's call reads it
  std::vector<bool> captured_;           // by value: a body reads it
  std::vector<ValueId> replaced_by_;     // by value: what readers take instead; invalid: itself
};

}  // namespace

OptimizedGraph optimize_graph(Model& model, GraphOptimization level) {
  if (level == GraphOptimization::kNone) return {};
  return Optimizer(model).run(level);
}

}  // namespace ctxgen
