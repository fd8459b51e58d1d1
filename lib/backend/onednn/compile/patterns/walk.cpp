#include "walk.h"

#include <algorithm>
#include <cmath>

namespace ctxgen::onednn {

NodeId PatternWalk::producer(ValueId value, std::string_view op_type) const {
  if (!value.valid()) return {};
  const NodeId id = graph().value(value).producer;
  if (!id.valid()) return {};
  return node(id).op_type == op_type && node(id).domain.empty() ? id : NodeId{};
}

NodeId PatternWalk::only_consumer(ValueId value, std::string_view op_type) const {
  if (!value.valid()) return {};
  const Value& v = graph().value(value);
  if (v.is_output || v.consumers.size() != 1) return {};
  const NodeId id = v.consumers[0];
  if (!node(id).captures.empty() || !node(id).domain.empty()) return {};
  return op_type.empty() || node(id).op_type == op_type ? id : NodeId{};
}

ValueId PatternWalk::other(NodeId id, ValueId known) const {
  const Node& n = node(id);
  if (n.inputs.size() != 2) return {};
  const bool first = n.inputs[0] == known, second = n.inputs[1] == known;
  if (first == second) return {};
  return first ? n.inputs[1] : n.inputs[0];
}

std::optional<float> PatternWalk::scalar(ValueId value) const {
  const Tensor* tensor = view_->constant(value);
  if (tensor == nullptr || !is_real(tensor->type()) || tensor->element_count() != 1) {
    return std::nullopt;
  }
  if (tensor->rank() > 1) return std::nullopt;  // could raise the rank of the result
  return floats_of(*tensor)[0];
}

ValueId PatternWalk::without_scalar(NodeId id, double expected) const {
  const Node& n = node(id);
  if (n.inputs.size() != 2) return {};
  const auto fits = [&](ValueId value) {
    const auto number = scalar(value);
    return number && std::abs(double{*number} - expected) <= 5e-4 * std::abs(expected);
  };
  if (fits(n.inputs[1])) return n.inputs[0];
  if (n.op_type != "Div" && fits(n.inputs[0])) return n.inputs[1];
  return {};
}

bool PatternWalk::is_data(ValueId value) const {
  if (!value.valid() || view_->constant(value) != nullptr) return false;
  const ValueType& type = graph().value(value).type;
  return type.is_tensor() && is_real(type.element) && type.has_rank() && type.rank() > 0 &&
         std::ranges::none_of(*type.shape,
                              [](const Dim& dim) { return dim.is_fixed() && dim.value() == 0; });
}

std::vector<NodeId> PatternWalk::nodes() const {
  std::vector<NodeId> sorted = nodes_;
  std::ranges::sort(sorted);
  sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
  return sorted;
}

}  // namespace ctxgen::onednn
