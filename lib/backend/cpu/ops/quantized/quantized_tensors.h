#pragma once

#include <cmath>
#include <span>

#include "kernel/function_kernel.h"

// What the integer operators of ONNX and of com.microsoft share: 8-bit tensors with zero points.

namespace ctxgen::cpu {

/// Scales and zero points of one quantised tensor: one of each, or one per channel.
struct Quantization {
  ScratchVector<float> scales;
  ScratchVector<std::int32_t> zeros;
  [[nodiscard]] float scale(std::int64_t channel) const {
    return scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
  }
  [[nodiscard]] std::int32_t zero(std::int64_t channel) const {
    return zeros[zeros.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
  }
};

/// Values of an int8 or uint8 tensor. Errors: UNSUPPORTED for other types.
[[nodiscard]] Result<ScratchVector<std::int32_t>> bytes_as_ints(const Tensor& tensor);

/// Inputs `scale_index` (absent: 1) and `zero_index` (absent: 0); each has 1 or `channels` values.
[[nodiscard]] Result<Quantization> quantization_of(const KernelContext& context,
                                                   std::size_t scale_index, std::size_t zero_index,
                                                   std::int64_t channels);

/// Elements minus their zero point, which may differ per slice of `axis`.
[[nodiscard]] Result<ScratchVector<std::int32_t>> centred(const Tensor& tensor,
                                                          const Quantization& quantization,
                                                          std::size_t axis);

/// Rounds half to even, adds the zero point and saturates to int8 or uint8.
template <class T>
[[nodiscard]] T requantized(float steps, std::int32_t zero) {
  const float value = std::nearbyint(steps) + static_cast<float>(zero);
  constexpr float kLow = std::is_signed_v<T> ? -128.0f : 0.0f;
  constexpr float kHigh = std::is_signed_v<T> ? 127.0f : 255.0f;
  if (!(value > kLow)) return static_cast<T>(kLow);  // NaN too
  return value < kHigh ? static_cast<T>(value) : static_cast<T>(kHigh);
}

/// How DynamicQuantizeLinear rounds to uint8.
struct ByteRange {
  float scale = 1;
  std::uint8_t zero = 0;
};

/// The range of x with zero in it becomes 0 to 255. A range of nothing has scale 1, one that is infinite on both sides
/// zero point 0.
[[nodiscard]] ByteRange byte_range_of(std::span<const float> x);

using ByteTypes = Types<std::int8_t, std::uint8_t>;

}  // namespace ctxgen::cpu
