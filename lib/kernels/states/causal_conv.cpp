#include "ctxgen/kernels/causal_conv.h"

#include <algorithm>
#include <cstring>

#include "ctxgen/kernels/activate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "states/causal_conv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

/// out[i] = bias + sum of taps[k] * padded[i + k].
HWY_NOINLINE void slide(std::int64_t n, std::int64_t count, const float* taps, float bias,
                        const float* padded, float* out) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vector sum = hn::Set(d, bias);
    for (std::int64_t k = 0; k < count; ++k)
      sum = hn::MulAdd(hn::Set(d, taps[k]), hn::LoadU(d, padded + i + k), sum);
    hn::StoreU(sum, d, out + i);
  }
  const auto rest = static_cast<std::size_t>(n - i);
  if (rest == 0) return;
  Vector sum = hn::Set(d, bias);
  for (std::int64_t k = 0; k < count; ++k)
    sum = hn::MulAdd(hn::Set(d, taps[k]), hn::LoadN(d, padded + i + k, rest), sum);
  hn::StoreN(sum, d, out + i, rest);
}

/// One position of `n` channels with four taps: channels are lanes. past [n, 3], weights [n, 4].
HWY_NOINLINE std::int64_t step_of_four(std::int64_t n, const float* x, const float* weights,
                                       const float* bias, const float* past, float* out,
                                       float* present) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vector w[4], p[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    hn::LoadInterleaved4(d, weights + i * 4, w[0], w[1], w[2], w[3]);
    if (past != nullptr) hn::LoadInterleaved3(d, past + i * 3, p[0], p[1], p[2]);
    const Vector now = hn::LoadU(d, x + i);
    Vector sum = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + i);
    for (int k = 0; k < 3; ++k) sum = hn::MulAdd(w[k], p[k], sum);
    hn::StoreU(hn::MulAdd(w[3], now, sum), d, out + i);
    hn::StoreInterleaved3(p[1], p[2], now, d, present + i * 3);
  }
  return i;
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {
namespace {

void slide_row(std::int64_t n, std::int64_t count, const float* taps, float bias,
               const float* padded, float* out) {
  CTXGEN_DISPATCH(slide(n, count, taps, bias, padded, out));
}

std::int64_t step_channels(std::int64_t n, const float* x, const float* weights, const float* bias,
                           const float* past, float* out, float* present) {
  CTXGEN_DISPATCH(step_of_four(n, x, weights, bias, past, out, present));
}

/// `row`: which of all images' channels; `channel`: which of its image's.
void run_channel(const CausalConv& c, std::int64_t row, std::int64_t channel, float* padded) {
  const std::int64_t before = c.before();
  if (c.past == nullptr)
    std::fill_n(padded, before, 0.0F);
  else
    std::copy_n(c.past + row * before, before, padded);
  std::copy_n(c.x + row * c.length, c.length, padded + before);
  slide_row(c.length, c.taps, c.weights + channel * c.taps,
            c.bias == nullptr ? 0.0F : c.bias[channel], padded, c.out + row * c.length);
  std::copy_n(padded + c.length, before, c.present + row * before);
}

}  // namespace

std::int64_t causal_conv_scratch(const CausalConv& conv) { return conv.before() + conv.length; }

void run_causal_conv(const CausalConv& c, std::int64_t image, std::int64_t first,
                     std::int64_t count, float* scratch) {
  const std::int64_t row = image * c.channels + first;
  std::int64_t done = 0;
  if (c.taps == 4 && c.length == 1)
    done = step_channels(
        count, c.x + row, c.weights + first * 4, c.bias == nullptr ? nullptr : c.bias + first,
        c.past == nullptr ? nullptr : c.past + row * 3, c.out + row, c.present + row * 3);
  for (; done < count; ++done) run_channel(c, row + done, first + done, scratch);
  if (c.swish)
    activate(Activation::kSwish, 1, count * c.length, c.out + row * c.length,
             c.out + row * c.length);
}

}  // namespace ctxgen::kernels
#endif
