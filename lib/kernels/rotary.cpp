#include "ctxgen/kernels/rotary.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rotary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Pairs from `first` on, one by one: what is left of vectors.
HWY_INLINE void rotate_rest(std::int64_t first, std::int64_t half, std::int64_t apart,
                            std::int64_t step, const float* cos, const float* sin, const float* in,
                            float* out) {
  for (std::int64_t i = first; i < half; ++i) {
    const float x = in[i * step], y = in[i * step + apart];
    out[i * step] = x * cos[i] - y * sin[i];
    out[i * step + apart] = x * sin[i] + y * cos[i];
  }
}

HWY_NOINLINE void rotate_halves(std::int64_t half, const float* cos, const float* sin,
                                const float* in, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    const auto x = hn::LoadU(d, in + i), y = hn::LoadU(d, in + half + i);
    const auto c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
    hn::StoreU(hn::NegMulAdd(y, s, hn::Mul(x, c)), d, out + i);
    hn::StoreU(hn::MulAdd(y, c, hn::Mul(x, s)), d, out + half + i);
  }
  rotate_rest(i, half, half, 1, cos, sin, in, out);
}

HWY_NOINLINE void rotate_neighbours(std::int64_t half, const float* cos, const float* sin,
                                    const float* in, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    hn::Vec<decltype(d)> x, y;
    hn::LoadInterleaved2(d, in + 2 * i, x, y);
    const auto c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
    hn::StoreInterleaved2(hn::NegMulAdd(y, s, hn::Mul(x, c)), hn::MulAdd(y, c, hn::Mul(x, s)), d,
                          out + 2 * i);
  }
  rotate_rest(i, half, 1, 2, cos, sin, in, out);
}

HWY_NOINLINE void rotate(std::int64_t half, bool neighbours, const float* cos, const float* sin,
                         const float* in, float* out) {
  if (neighbours) return rotate_neighbours(half, cos, sin, in, out);
  rotate_halves(half, cos, sin, in, out);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

namespace {

void rotate(std::int64_t half, bool neighbours, const float* cos, const float* sin, const float* in,
            float* out) {
  CTXGEN_DISPATCH(rotate(half, neighbours, cos, sin, in, out));
}

}  // namespace

void rotate_head(std::int64_t size, std::int64_t half, RotaryPairs pairs, const float* cos,
                 const float* sin, const float* in, float* out) {
  rotate(half, pairs == RotaryPairs::kNeighbours, cos, sin, in, out);
  if (out != in) std::copy(in + 2 * half, in + size, out + 2 * half);
}

}  // namespace ctxgen::kernels
#endif
