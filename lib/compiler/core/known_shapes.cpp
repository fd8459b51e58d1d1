#include "core/known_shapes.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

using Shape = std::vector<Dim>;
using Ints = std::vector<std::int64_t>;

/// A node with what its rule may ask for; every answer may be "not known".
class Asked {
 public:
  Asked(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] bool has(std::size_t input) const { return node_.input(input).valid(); }
  [[nodiscard]] const Shape* shape(std::size_t input) const {
    if (!has(input)) return nullptr;
    const ValueType& type = graph_.value(node_.input(input)).type;
    return type.is_tensor() && type.has_rank() ? &*type.shape : nullptr;
  }
  /// The content of an input of integers.
  [[nodiscard]] std::optional<Ints> ints(std::size_t input) const {
    const Tensor* tensor = has(input) ? graph_.value(node_.input(input)).constant() : nullptr;
    if (tensor == nullptr || tensor->dims().size() > 1) return std::nullopt;
    const auto bytes = tensor->bytes();
    if (tensor->type() == DataType::kInt64) return numbers<std::int64_t>(bytes);
    if (tensor->type() == DataType::kInt32) return numbers<std::int32_t>(bytes);
    return std::nullopt;
  }
  /// An attribute of early opsets, an input of later ones.
  [[nodiscard]] std::optional<Ints> ints(std::string_view attribute, std::size_t input) const {
    if (const auto given = node_.ints(attribute)) return Ints(given->begin(), given->end());
    return ints(input);
  }

 private:
  template <class T>
  static Ints numbers(std::span<const std::byte> bytes) {
    Ints result(bytes.size() / sizeof(T));
    for (std::size_t i = 0; i < result.size(); ++i) {
      T number;
      std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
      result[i] = number;
    }
    return result;
  }
  const Graph& graph_;
  const Node& node_;
};

using Found = std::optional<Shape>;

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
  return static_cast<std::size_t>(axis);
}

/// Marks the axes; nothing if one is none.
std::optional<std::vector<bool>> marked(std::span<const std::int64_t> axes, std::size_t rank) {
  std::vector<bool> marks(rank, false);
  for (const std::int64_t one : axes) {
    const auto axis = axis_of(one, rank);
    if (!axis) return std::nullopt;
    marks[*axis] = true;
  }
  return marks;
}

Dim broadcast_dim(const Dim& a, const Dim& b) {
  if (a == Dim::fixed(1) || a == b) return b;
  if (b == Dim::fixed(1)) return a;
  if (a.is_fixed()) return b.is_fixed() ? Dim() : a;
  return b.is_fixed() ? b : Dim();
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
  Shape result = longer;
  const std::size_t skipped = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i)
    result[skipped + i] = broadcast_dim(longer[skipped + i], shorter[i]);
  return result;
}

Found same_as_first(const Asked& asked) {
  const Shape* shape = asked.shape(0);
  return shape == nullptr ? Found() : *shape;
}

Found all_broadcast(const Asked& asked) {
  Found result;
  for (std::size_t i = 0; i < asked.node().inputs.size(); ++i) {
    const Shape* shape = asked.shape(i);
    if (shape == nullptr) return std::nullopt;
    result = result ? broadcast(*result, *shape) : *shape;
  }
  return result;
}

Found reduced(const Asked& asked) {
  const Shape* shape = asked.shape(0);
  const auto axes = asked.ints("axes", 1);
  if (shape == nullptr || (!axes && asked.has(1))) return std::nullopt;
  const bool all = !axes || axes->empty();
  if (all && asked.node().int_or("noop_with_empty_axes", 0) != 0) return *shape;
  const auto marks = all ? std::vector<bool>(shape->size(), true) : marked(*axes, shape->size());
  if (!marks) return std::nullopt;
  const bool keeps = asked.node().int_or("keepdims", 1) != 0;
  Shape result;
  for (std::size_t i = 0; i < shape->size(); ++i)
    if (!(*marks)[i])
      result.push_back((*shape)[i]);
    else if (keeps)
      result.push_back(Dim::fixed(1));
  return result;
}

/// Product of the numbers; nothing if one is not known, or it is too large.
std::optional<std::int64_t> product(const Shape& shape) {
  std::int64_t result = 1;
  for (const Dim& dim : shape) {
    if (!dim.is_fixed()) return std::nullopt;
    if (dim.value() != 0 && result > std::numeric_limits<std::int64_t>::max() / dim.value())
      return std::nullopt;
    result *= dim.value();
  }
  return result;
}

Found reshaped(const Asked& asked) {
  const Shape* shape = asked.shape(0);
  const auto wanted = asked.ints(1);
  if (!wanted || wanted->size() > kMaxRank) return std::nullopt;
  const bool keeps_zeros = asked.node().int_or("allowzero", 0) != 0;
  Shape result;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    const std::int64_t number = (*wanted)[i];
    if (number < -1 || (number == -1 && open)) return std::nullopt;
    if (number == -1) open = i;
    if (number > 0 || (number == 0 && keeps_zeros))
      result.push_back(Dim::fixed(number));
    else if (number == 0 && shape != nullptr && i < shape->size())
      result.push_back((*shape)[i]);
    else
      result.emplace_back();
  }
  if (!open || shape == nullptr) return result;
  Shape others = result, source = *shape;
  others[*open] = Dim::fixed(1);
  // Dims that are copied are on both sides, known or not.
  for (std::size_t i = 0; i < wanted->size() && i < source.size(); ++i)
    if ((*wanted)[i] == 0 && !keeps_zeros) others[i] = source[i] = Dim::fixed(1);
  const auto all = product(source), given = product(others);
  if (all && given && *given > 0 && *all % *given == 0) result[*open] = Dim::fixed(*all / *given);
  return result;
}

Found expanded(const Asked& asked) {
  const Shape* shape = asked.shape(0);
  const auto wanted = asked.ints(1);
  if (shape == nullptr || !wanted || wanted->size() > kMaxRank) return std::nullopt;
  Shape target;
  for (const std::int64_t number : *wanted) {
    if (number < 0) return std::nullopt;
    target.push_back(Dim::fixed(number));
  }
  return broadcast(*shape, target);
}

Found transposed(const Asked& asked) {
  const Shape* shape = asked.shape(0);
  if (shape == nullptr) return std::nullopt;
  const auto perm = asked.node().ints("perm");
  if (!perm) return Shape(shape->rbegin(), shape->rend());
  if (perm->size() != shape->size()) return std::nullopt;
  Shape result;
  for (const std::int64_t axis : *perm) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape->size())) return std::nullopt;
    result.push_back((*shape)[static_cast<std::size_t>(axis)]);
  }
  return result;
}

Found concatenated(const Asked& asked) {
  const Shape* first = asked.shape(0);
  if (first == nullptr) return std::nullopt;
  const auto axis = axis_of(asked.node().int_or("axis", 0), first->size());
  if (!axis) return std::nullopt;
  Shape result = *first;
  for (std::size_t i = 1; i < asked.node().inputs.size(); ++i) {
    const Shape* shape = asked.shape(i);
    if (shape == nullptr || shape->size() != first->size()) return std::nullopt;
    for (std::size_t d = 0; d < result.size(); ++d) {
      const Dim& other = (*shape)[d];
      if (d != *axis) {
        if (!result[d].is_fixed() && other.is_fixed()) result[d] = other;
        continue;
      }
      const auto sum = result[d].is_fixed() && other.is_fixed()
                           ? checked_add(static_cast<std::uint64_t>(result[d].value()),
                                         static_cast<std::uint64_t>(other.value()))
                           : std::nullopt;
      result[d] = sum && *sum <= std::numeric_limits<std::int64_t>::max()
                      ? Dim::fixed(static_cast<std::int64_t>(*sum))
                      : Dim();
    }
  }
  return result;
}

Found unsqueezed(const Asked& asked) {
  const Shape* shape = asked.shape(0);
  const auto axes = asked.ints("axes", 1);
  if (shape == nullptr || !axes || shape->size() + axes->size() > kMaxRank) return std::nullopt;
  const auto marks = marked(*axes, shape->size() + axes->size());
  if (!marks || std::ranges::count(*marks, true) != static_cast<std::ptrdiff_t>(axes->size()))
    return std::nullopt;
  Shape result;
  auto next = shape->begin();
  for (const bool is_new : *marks) result.push_back(is_new ? Dim::fixed(1) : *next++);
  return result;
}

Found squeezed(const Asked& asked) {
  const Shape* shape = asked.shape(0);
  const auto axes = asked.ints("axes", 1);
  if (shape == nullptr || !axes) return std::nullopt;
  const auto marks = marked(*axes, shape->size());
  if (!marks) return std::nullopt;
  Shape result;
  for (std::size_t i = 0; i < shape->size(); ++i)
    if (!(*marks)[i]) result.push_back((*shape)[i]);
  return result;
}

Found gathered(const Asked& asked) {
  const Shape *data = asked.shape(0), *indices = asked.shape(1);
  if (data == nullptr || indices == nullptr) return std::nullopt;
  const auto axis = axis_of(asked.node().int_or("axis", 0), data->size());
  if (!axis || data->size() + indices->size() > kMaxRank + 1) return std::nullopt;
  Shape result = *data;
  const auto at = result.erase(result.begin() + static_cast<std::ptrdiff_t>(*axis));
  result.insert(at, indices->begin(), indices->end());
  return result;
}

/// How many elements a slice of an axis of `size` takes.
std::int64_t slice_length(std::int64_t size, std::int64_t from, std::int64_t to,
                          std::int64_t step) {
  const std::int64_t last = step > 0 ? size : size - 1, first = step > 0 ? 0 : -1;
  const auto placed = [&](std::int64_t place) {
    if (place < 0) place += size;
    return std::clamp(place, first, last);
  };
  from = std::max<std::int64_t>(placed(from), 0);
  // The end of a backward slice that begins before the first element is "before it", not counted from the end.
  to = step < 0 && to < -size ? -1 : placed(to);
  const std::int64_t distance = step > 0 ? to - from : from - to, stride = step > 0 ? step : -step;
  return distance <= 0 ? 0 : (distance - 1) / stride + 1;
}

Found sliced(const Asked& asked) {
  const Shape* shape = asked.shape(0);
  const auto from = asked.ints("starts", 1), to = asked.ints("ends", 2);
  auto axes = asked.ints("axes", 3), steps = asked.ints(4);
  if (shape == nullptr || !from || !to || from->size() != to->size()) return std::nullopt;
  if ((asked.has(3) && !axes) || (asked.has(4) && !steps)) return std::nullopt;
  if (!axes) {
    axes.emplace();
    for (std::size_t i = 0; i < from->size(); ++i) axes->push_back(static_cast<std::int64_t>(i));
  }
  if (!steps) steps = Ints(from->size(), 1);
  if (axes->size() != from->size() || steps->size() != from->size()) return std::nullopt;
  Shape result = *shape;
  for (std::size_t i = 0; i < from->size(); ++i) {
    const auto axis = axis_of((*axes)[i], shape->size());
    const std::int64_t step = (*steps)[i];
    if (!axis || step == 0 || step == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    Dim& dim = result[*axis];
    const bool whole = (*from)[i] == 0 && step == 1 && (*to)[i] >= std::numeric_limits<int>::max();
    if (dim.is_fixed())
      dim = Dim::fixed(slice_length(dim.value(), (*from)[i], (*to)[i], step));
    else if (!whole)
      dim = Dim();
  }
  return result;
}

/// One of the outputs.
Found split(const Asked& asked, std::size_t output) {
  const Shape* shape = asked.shape(0);
  if (shape == nullptr) return std::nullopt;
  const auto axis = axis_of(asked.node().int_or("axis", 0), shape->size());
  const auto sizes = asked.ints("split", 1);
  if (!axis || (asked.has(1) && !sizes)) return std::nullopt;
  Shape result = *shape;
  const auto count = static_cast<std::int64_t>(asked.node().outputs.size());
  if (sizes) {
    if (sizes->size() <= output || (*sizes)[output] < 0) return std::nullopt;
    result[*axis] = Dim::fixed((*sizes)[output]);
  } else if (const Dim& dim = result[*axis]; dim.is_fixed()) {
    const std::int64_t part = dim.value() / count + (dim.value() % count == 0 ? 0 : 1);
    const std::int64_t before = part * static_cast<std::int64_t>(output);
    result[*axis] = Dim::fixed(std::clamp<std::int64_t>(dim.value() - before, 0, part));
  }
  return result;
}

Found multiplied(const Asked& asked) {
  const Shape *a = asked.shape(0), *b = asked.shape(1);
  if (a == nullptr || b == nullptr || a->size() < 2 || b->size() < 2) return std::nullopt;
  Shape result = broadcast({a->begin(), a->end() - 2}, {b->begin(), b->end() - 2});
  result.push_back((*a)[a->size() - 2]);
  result.push_back(b->back());
  return result;
}

constexpr std::string_view kSameShape[] = {
    "Abs",      "Acos",       "Acosh",       "Asin",       "Asinh",      "Atan",
    "Atanh",    "BitwiseNot", "Cast",        "Ceil",       "Celu",       "Clip",
    "Cos",      "Cosh",       "CumSum",      "Elu",        "Erf",        "Exp",
    "Floor",    "Gelu",       "HardSigmoid", "HardSwish",  "Hardmax",    "Identity",
    "IsInf",    "IsNaN",      "LeakyRelu",   "Log",        "LogSoftmax", "Mish",
    "Neg",      "Not",        "PRelu",       "Reciprocal", "Relu",       "Round",
    "Selu",     "Sigmoid",    "Sign",        "Sin",        "Sinh",       "Softmax",
    "Softplus", "Softsign",   "Sqrt",        "Tan",        "Tanh",       "ThresholdedRelu",
    "Trilu"};
constexpr std::string_view kBroadcast[] = {"Add",       "And",         "BitwiseAnd",
                                           "BitwiseOr", "BitwiseXor",  "Div",
                                           "Equal",     "Greater",     "GreaterOrEqual",
                                           "Less",      "LessOrEqual", "Max",
                                           "Mean",      "Min",         "Mod",
                                           "Mul",       "Or",          "Pow",
                                           "Sub",       "Sum",         "Where",
                                           "Xor"};
static_assert(std::ranges::is_sorted(kSameShape) && std::ranges::is_sorted(kBroadcast));

struct Rule {
  std::string_view op_type;
  Found (*shape)(const Asked&);
};
constexpr Rule kRules[] = {
    {"Concat", concatenated}, {"Expand", expanded},      {"Gather", gathered},
    {"MatMul", multiplied},   {"Reshape", reshaped},     {"Slice", sliced},
    {"Squeeze", squeezed},    {"Transpose", transposed}, {"Unsqueeze", unsqueezed},
};
static_assert(std::ranges::is_sorted(kRules, {}, &Rule::op_type));

Found shape_of(const Asked& asked, std::size_t output) {
  const std::string_view type = asked.node().op_type.view();
  if (type == "Split") return split(asked, output);
  if (output != 0) return std::nullopt;
  if (std::ranges::binary_search(kSameShape, type)) return same_as_first(asked);
  if (std::ranges::binary_search(kBroadcast, type)) return all_broadcast(asked);
  if (type.starts_with("Reduce")) return reduced(asked);
  const auto rule = std::ranges::lower_bound(kRules, type, {}, &Rule::op_type);
  if (rule == std::end(kRules) || rule->op_type != type) return std::nullopt;
  return rule->shape(asked);
}

/// Whether that told anything new.
bool complete(ValueType& type, const Shape& found) {
  if (!type.is_tensor() || found.size() > kMaxRank) return false;
  if (!type.has_rank()) {
    type.shape = found;
    return true;
  }
  if (type.rank() != found.size()) return false;  // the model's word counts
  bool changed = false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    Dim& dim = (*type.shape)[i];
    if (dim.is_fixed() || found[i].is_unknown() || (dim.is_symbol() && found[i].is_symbol()))
      continue;
    dim = found[i];
    changed = true;
  }
  return changed;
}

}  // namespace

std::size_t complete_shapes(Model& model) {
  Graph& graph = model.graph;
  std::size_t changed = 0;
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId{n});
    if (!node.domain.view().empty()) continue;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (!output.valid() || graph.value(output).constant() != nullptr) continue;
      if (const Found found = shape_of(Asked(graph, node), i))
        changed += complete(graph.value(output).type, *found) ? 1 : 0;
    }
  }
  return changed;
}

}  // namespace ctxgen
