#include "ops/quantized/quantized_tensors.h"

namespace ctxgen::cpu {

Result<ScratchVector<std::int32_t>> bytes_as_ints(const Tensor& tensor) {
  ScratchVector<std::int32_t> values;
  CTXGEN_CHECK(dispatch(ByteTypes{}, tensor.type(), [&]<class T>() -> Status {
    const auto elements = tensor.elements<T>();
    values.assign(elements.begin(), elements.end());
    return {};
  }));
  return values;
}

ByteRange byte_range_of(std::span<const float> x) {
  float low = 0, high = 0;
  for (const float value : x) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // All zeros: any scale will do, 1 divides.
  const float scale = high == low ? 1.0F : (high - low) / 255.0F;
  const float least = -low / scale;  // NaN where both are infinite
  const float zero = std::isnan(least) ? 0.0F : std::nearbyint(std::clamp(least, 0.0F, 255.0F));
  return {.scale = scale, .zero = static_cast<std::uint8_t>(zero)};
}

Result<Quantization> quantization_of(const KernelContext& context, std::size_t scale_index,
                                     std::size_t zero_index, std::int64_t channels) {
  Quantization result{.scales = {1.0f}, .zeros = {0}};
  if (const Tensor* scale = optional_input(context, scale_index)) {
    result.scales.clear();
    CTXGEN_CHECK(dispatch(RealTypes{}, scale->type(), [&]<class T>() -> Status {
      for (const T& x : scale->elements<T>()) result.scales.push_back(static_cast<float>(load(x)));
      return {};
    }));
  }
  if (const Tensor* zero = optional_input(context, zero_index))
    result.zeros = CTXGEN_TRY(bytes_as_ints(*zero));
  for (std::size_t count : {result.scales.size(), result.zeros.size()})
    if (count != 1 && static_cast<std::int64_t>(count) != channels)
      return fail(ErrorCode::kInvalidGraph, "{} scales or zero points for {} channels", count,
                  channels);
  return result;
}

Result<ScratchVector<std::int32_t>> centred(const Tensor& tensor, const Quantization& quantization,
                                            std::size_t axis) {
  auto values = CTXGEN_TRY(bytes_as_ints(tensor));
  if (quantization.zeros.size() == 1) {
    for (std::int32_t& value : values) value -= quantization.zeros[0];
    return values;
  }
  const AxisSplit split = split_at(tensor.dims(), axis);
  if (static_cast<std::int64_t>(quantization.zeros.size()) != split.extent)
    return fail(ErrorCode::kInvalidGraph, "{} zero points for {} channels",
                quantization.zeros.size(), split.extent);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] -= quantization.zeros[static_cast<std::size_t>(static_cast<std::int64_t>(i) /
                                                             split.inner % split.extent)];
  return values;
}

}  // namespace ctxgen::cpu
