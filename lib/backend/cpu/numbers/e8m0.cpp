#include "numbers/e8m0.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ctxgen::cpu {
namespace {

constexpr int kBias = 127;
constexpr int kMaxCode = 254;
constexpr std::uint8_t kNan = 255;

std::uint8_t encode(float value, E8m0Rounding rounding, bool saturate) {
  if (std::isnan(value)) return kNan;
  const float size = std::abs(value);
  if (size == 0) return saturate ? 0 : kNan;
  if (std::isinf(size)) return saturate ? kMaxCode : kNan;
  int exponent = 0;
  const float fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  --exponent;
  if (rounding == E8m0Rounding::kUp ? fraction > 0.5f
                                    : rounding == E8m0Rounding::kNearest && fraction >= 0.75f)
    ++exponent;
  const int code = exponent + kBias;
  if (code >= 0 && code <= kMaxCode) return static_cast<std::uint8_t>(code);
  return saturate ? static_cast<std::uint8_t>(std::clamp(code, 0, kMaxCode)) : kNan;
}

}  // namespace

void unpack_e8m0(const Tensor& tensor, Tensor& wide) {
  const std::uint8_t* codes = data_of<std::uint8_t>(tensor);
  for (float& to : wide.mutable_elements<float>()) {
    to =
        *codes == kNan ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, *codes - kBias);
    ++codes;
  }
}

void pack_e8m0(const Tensor& tensor, Tensor& packed, E8m0Rounding rounding, bool saturate) {
  std::ranges::transform(tensor.elements<float>(), mutable_data_of<std::uint8_t>(packed),
                         [&](float x) { return encode(x, rounding, saturate); });
}

}  // namespace ctxgen::cpu
