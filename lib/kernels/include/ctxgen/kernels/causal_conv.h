#pragma once

#include <cstdint>

namespace ctxgen::kernels {

/// A convolution of each channel with its own taps, over positions up to the present one; what came before
/// the first position is a state. Element (image, channel, position) is at image * channels * length +
/// channel * length + position of x and out, likewise of past and present with length `before()`.
struct CausalConv {
  std::int64_t channels = 0, length = 0, taps = 0;
  const float *x = nullptr, *weights = nullptr;  // weights [channels, taps]
  const float* bias = nullptr;                   // [channels]; null: 0
  const float* past = nullptr;                   // null: zeros
  bool swish = false;                            // out = y / (1 + exp(-y))
  float *out = nullptr, *present = nullptr;      // present may be past, no other overlap

  [[nodiscard]] std::int64_t before() const { return taps - 1; }
};

/// Floats that run_causal_conv() works in.
[[nodiscard]] std::int64_t causal_conv_scratch(const CausalConv& conv);

/// Channels [first, first + count) of one image: the sum of `taps` products in order, from the bias on, then
/// the error of Activation::kSwish. NaN and infinity go through.
///
/// Requires  taps > 0.
/// Threads   any; the calling one does all the work. Calls for different channels may run at once, each with
///           scratch of its own.
void run_causal_conv(const CausalConv& conv, std::int64_t image, std::int64_t first,
                     std::int64_t count, float* scratch);

}  // namespace ctxgen::kernels
