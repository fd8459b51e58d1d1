#include "quantized_constant.h"

#include <cmath>
#include <cstring>

#include "node_view.h"

namespace ctxgen::onednn {

namespace {

/// Calls visit(element, slice of the axis) for all elements in order.
template <class Visit>
void for_each_slice(const QuantizedWeight& weight, const Visit& visit) {
  const Dims& dims = weight.stored.dims();
  const auto axis = static_cast<std::size_t>(weight.axis);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  const std::int64_t extent = weight.scales.size() == 1 ? 1 : dims[axis];
  for (std::int64_t i = 0; i < weight.stored.element_count(); ++i) {
    visit(static_cast<std::size_t>(i),
          extent == 1 ? std::size_t{0} : static_cast<std::size_t>(i / inner % extent));
  }
}

}  // namespace

std::vector<std::int32_t> integers_of(const Tensor& tensor) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.element_count()));
  const std::byte* bytes = tensor.bytes().data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.type() == DataType::kUint8)
      values[i] = static_cast<std::uint8_t>(bytes[i]);
    else if (tensor.type() == DataType::kInt8)
      values[i] = static_cast<std::int8_t>(bytes[i]);
    else
      std::memcpy(&values[i], bytes + i * sizeof(std::int32_t), sizeof(std::int32_t));
  }
  return values;
}

std::optional<QuantizedWeight> quantized_weight(const Tensor& stored, const Tensor& scale,
                                                const Tensor* zero, std::int64_t axis) {
  const auto count = scale.element_count();
  const auto rank = static_cast<std::int64_t>(stored.rank());
  if (!is_byte(stored.type()) || scale.type() != DataType::kFloat || count < 1) {
    return std::nullopt;
  }
  if (zero != nullptr && (zero->type() != stored.type() || zero->element_count() != count)) {
    return std::nullopt;
  }
  if (axis < 0) axis += rank;
  if (count > 1 && (scale.rank() != 1 || axis < 0 || axis >= rank ||
                    stored.dims()[static_cast<std::size_t>(axis)] != count)) {
    return std::nullopt;
  }
  QuantizedWeight weight{
      .stored = stored, .scales = floats_of(scale), .zeros = {}, .axis = count > 1 ? axis : 0};
  for (const float s : weight.scales) {
    if (!std::isfinite(s) || !(s > 0.0F)) return std::nullopt;
  }
  weight.zeros = zero != nullptr ? integers_of(*zero)
                                 : std::vector<std::int32_t>(static_cast<std::size_t>(count), 0);
  return weight;
}

bool is_onnx_or_microsoft(const Node& node) {
  return node.domain.empty() || node.domain == "com.microsoft";
}

std::optional<QuantizedWeight> quantized_constant(const GraphView& view, ValueId id) {
  const NodeId producer = view.graph().value(id).producer;
  if (!producer.valid()) return std::nullopt;
  const NodeView n(view, view.graph().node(producer));
  if (!is_onnx_or_microsoft(n.node()) || n.node().op_type != "DequantizeLinear" ||
      n.output(0) != id)
    return std::nullopt;
  if (n.node().int_or("block_size", 0) != 0) return std::nullopt;
  const Tensor* stored = n.constant(0);
  const Tensor* scale = n.input_count() > 1 ? n.constant(1) : nullptr;
  const Tensor* zero = n.has_input(2) ? n.constant(2) : nullptr;
  if (stored == nullptr || scale == nullptr || (n.has_input(2) && zero == nullptr)) {
    return std::nullopt;
  }
  return quantized_weight(*stored, *scale, zero, n.node().int_or("axis", 1));
}

Result<std::optional<Tensor>> symmetric_s8(const QuantizedWeight& weight) {
  const std::vector<std::int32_t> stored = integers_of(weight.stored);
  Tensor tensor = CTXGEN_TRY(Tensor::allocate(DataType::kInt8, weight.stored.dims()));
  const auto out = tensor.mutable_elements<std::int8_t>();
  bool fits = true;
  for_each_slice(weight, [&](std::size_t i, std::size_t slice) {
    const std::int32_t value = stored[i] - weight.zeros[slice];
    fits = fits && value >= -128 && value <= 127;
    out[i] = static_cast<std::int8_t>(value);
  });
  return fits ? std::optional(std::move(tensor)) : std::nullopt;
}

Result<Tensor> dequantized(const QuantizedWeight& weight) {
  const std::vector<std::int32_t> stored = integers_of(weight.stored);
  std::vector<float> values(stored.size());
  for_each_slice(weight, [&](std::size_t i, std::size_t slice) {
    values[i] = static_cast<float>(stored[i] - weight.zeros[slice]) * weight.scales[slice];
  });
  return tensor_of(weight.stored.dims(), values);
}

}  // namespace ctxgen::onednn
