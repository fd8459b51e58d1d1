#include "node_view.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ctxgen/base/half.h"

namespace ctxgen::onednn {

namespace {

std::string shown(const Value& value) { return std::format("\"{}\"", value.name); }

using Types = std::initializer_list<DataType>;
constexpr Types kFloats = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};
constexpr Types kMovable = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16,
                            DataType::kUint8, DataType::kInt8,    DataType::kBool};

bool contains(Types types, DataType type) { return std::ranges::find(types, type) != types.end(); }

Refusal check_type(const Value& value, Types types = kFloats) {
  const ValueType& type = value.type;
  if (type.kind == ValueType::Kind::kUnknown) {
    return std::format("type of {} is unknown", shown(value));
  }
  if (!type.is_tensor()) return std::format("{} is not a dense tensor", shown(value));
  if (!contains(types, type.element)) {
    return std::format("element type {}", name_of(type.element));
  }
  if (!type.has_rank()) return std::format("rank of {} is unknown", shown(value));
  if (type.rank() == 0) return std::format("{} is a scalar", shown(value));
  if (type.rank() > kMaxRank) {
    return std::format("rank {} of {} is above {}", type.rank(), shown(value), kMaxRank);
  }
  const bool empty = std::ranges::any_of(
      *type.shape, [](const Dim& dim) { return dim.is_fixed() && dim.value() == 0; });
  if (empty) return std::format("{} has a dimension of 0", shown(value));
  // No tensor has such dims; below it, what is computed with them does not pass 64 bits.
  for (const Dim& dim : *type.shape) {
    if (dim.is_fixed() && std::cmp_greater(dim.value(), kMaxTensorBytes)) {
      return std::format("{} has a dimension of {}", shown(value), dim.value());
    }
  }
  return std::nullopt;
}

Refusal check_input(const NodeView& n, std::size_t i, Types types = kFloats) {
  if (!n.has_input(i)) return std::format("input {} is absent", i);
  const Tensor* constant = n.constant(i);
  if (constant == nullptr) return check_type(n.input_value(i), types);
  if (!contains(types, constant->type())) {
    return std::format("element type {}", name_of(constant->type()));
  }
  if (constant->element_count() == 0) {
    return std::format("{} has a dimension of 0", shown(n.input_value(i)));
  }
  return std::nullopt;
}

std::vector<Dim> dims_of(const ValueType& type) {
  return type.shape ? *type.shape : std::vector<Dim>{};
}

}  // namespace

std::vector<Dim> NodeView::input_dims(std::size_t i) const {
  if (const Tensor* tensor = constant(i)) {
    std::vector<Dim> dims;
    for (const std::int64_t dim : tensor->dims()) dims.push_back(Dim::fixed(dim));
    return dims;
  }
  return dims_of(input_value(i).type);
}

std::vector<Dim> NodeView::output_dims(std::size_t i) const {
  return dims_of(output_value(i).type);
}

bool NodeView::output_wanted(std::size_t i) const {
  if (!output(i).valid()) return false;
  const Value& value = output_value(i);
  return value.is_output || !value.consumers.empty();
}

Refusal require_f32(const NodeView& n, std::span<const std::size_t> inputs) {
  for (const std::size_t i : inputs) {
    CTXGEN_REFUSE(check_input(n, i));
  }
  if (n.output_count() == 0 || !n.output(0).valid()) return "first output is absent";
  return check_type(n.output_value(0));
}

Refusal require_f32(const NodeView& n, std::initializer_list<std::size_t> inputs) {
  return require_f32(n, std::span<const std::size_t>(inputs.begin(), inputs.size()));
}

Refusal require_all_f32(const NodeView& n) {
  if (n.input_count() == 0) return "has no inputs";
  std::vector<std::size_t> all(n.input_count());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return require_f32(n, all);
}

Refusal require_movable(const NodeView& n, std::size_t inputs) {
  const auto type = [&](std::size_t i) {
    const Tensor* constant = n.constant(i);
    return constant != nullptr ? constant->type() : n.input_value(i).type.element;
  };
  for (std::size_t i = 0; i < inputs; ++i) {
    CTXGEN_REFUSE(check_input(n, i, kMovable));
    if (type(i) != type(0)) {
      return std::format("element types {} and {}", name_of(type(0)), name_of(type(i)));
    }
  }
  if (inputs == 0) return "has no inputs";
  if (n.output_count() == 0 || !n.output(0).valid()) return "first output is absent";
  return check_type(n.output_value(0), {type(0)});
}

Refusal require_condition(const NodeView& n, std::size_t i) {
  return check_input(n, i, {DataType::kBool});
}

Refusal require_value(const NodeView& n, std::size_t i, std::initializer_list<DataType> types) {
  if (!n.has_input(i)) return std::format("input {} is absent", i);
  if (n.constant(i) != nullptr) return std::format("input {} is constant", i);
  return check_type(n.input_value(i), types);
}

Refusal require_one_output(const NodeView& n) {
  for (std::size_t i = 1; i < n.output_count(); ++i) {
    if (n.output_wanted(i)) {
      return std::format("optional output {} {} is used", i, shown(n.output_value(i)));
    }
  }
  return std::nullopt;
}

Read<const Tensor*> constant_f32(const NodeView& n, std::size_t i, std::string_view what) {
  if (!n.has_input(i)) return refuse("{} is absent", what);
  const Tensor* tensor = n.constant(i);
  if (tensor == nullptr) return refuse("{} is not constant", what);
  if (!contains(kFloats, tensor->type())) {
    return refuse("element type {}", name_of(tensor->type()));
  }
  if (tensor->element_count() == 0) return refuse("{} is empty", what);
  return tensor;
}

Read<Dims> known_dims_f32(const NodeView& n, std::size_t i, std::string_view what) {
  if (n.has_input(i) && n.constant(i) == nullptr) {
    CTXGEN_REFUSE(check_input(n, i));
    const std::optional<Dims> dims = n.input_value(i).type.fixed_dims();
    if (!dims) return refuse("{} is not constant, and its dims are not known", what);
    return *dims;
  }
  return CTXGEN_TRY(constant_f32(n, i, what))->dims();
}

Read<float> constant_scalar(const NodeView& n, std::size_t i, std::string_view what) {
  const Tensor* tensor = CTXGEN_TRY(constant_f32(n, i, what));
  if (tensor->element_count() != 1) {
    return refuse("{} has {} elements, expected 1", what, tensor->element_count());
  }
  return floats_of(*tensor)[0];
}

Read<std::vector<std::int64_t>> constant_ints(const NodeView& n, std::size_t i,
                                              std::string_view what) {
  if (!n.has_input(i)) return refuse("{} is absent", what);
  const Tensor* tensor = n.constant(i);
  if (tensor == nullptr) return refuse("{} is not constant", what);
  if (tensor->rank() > 1) return refuse("{} has rank {}, expected 1", what, tensor->rank());
  return ints_of(*tensor, what);
}

Read<std::vector<std::int64_t>> ints_of(const Tensor& tensor, std::string_view what) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.element_count()));
  if (tensor.type() == DataType::kInt64) {
    if (!values.empty()) std::memcpy(values.data(), tensor.bytes().data(), tensor.bytes().size());
    return values;
  }
  if (tensor.type() != DataType::kInt32) {
    return refuse("{} has element type {}", what, name_of(tensor.type()));
  }
  for (std::size_t k = 0; k < values.size(); ++k) {
    std::int32_t value = 0;
    std::memcpy(&value, tensor.bytes().data() + k * sizeof value, sizeof value);
    values[k] = value;
  }
  return values;
}

Refusal require_same_tail(const NodeView& n, std::size_t i, std::string_view what,
                          std::size_t axis) {
  const std::vector<Dim> src = n.input_dims(0), dims = n.input_dims(i);
  bool same = dims.size() == src.size() - axis;
  for (std::size_t k = 0; same && k < dims.size(); ++k) {
    same = dims[k] == src[axis + k] && !(dims[k] == Dim{});
  }
  if (same) return std::nullopt;
  return std::format("{} is not known to have the dims of the input from axis {} on", what, axis);
}

Read<std::int64_t> axis_of(std::int64_t axis, std::size_t rank, bool end) {
  const auto r = static_cast<std::int64_t>(rank);
  if (axis < -r || axis > (end ? r : r - 1)) {
    return refuse("axis {} is outside of rank {}", axis, rank);
  }
  return axis < 0 ? axis + r : axis;
}

std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.element_count()));
  if (is_half(tensor.type())) {
    const bool brain = tensor.type() == DataType::kBfloat16;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes().data() + i * sizeof bits, sizeof bits);
      values[i] = brain ? bfloat16_to_float(bits) : float16_to_float(bits);
    }
    return values;
  }
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes().data(), tensor.bytes().size());
  return values;
}

Result<Tensor> tensor_of(const Dims& dims, std::span<const float> values) {
  Tensor tensor = CTXGEN_TRY(Tensor::allocate(DataType::kFloat, dims));
  CTXGEN_ASSERT(tensor.bytes().size() == values.size_bytes());
  std::ranges::copy(values, tensor.mutable_elements<float>().begin());
  return tensor;
}

std::vector<std::int64_t> list_of(std::span<const std::int64_t> values) {
  return {values.begin(), values.end()};
}

}  // namespace ctxgen::onednn
