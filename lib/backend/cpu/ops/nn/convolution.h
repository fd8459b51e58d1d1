#pragma once

#include "numbers/gemm.h"
#include "ops/nn/sliding_window.h"

// The convolution shared by Conv, FusedConv, ConvInteger and QLinearConv.

namespace ctxgen::cpu {

struct ConvShape {
  std::int64_t batch = 0, groups = 1;
  std::int64_t in_channels = 0, out_channels = 0;  // of all groups
  Window window;
  Dims output;  // [N, M, O1..Ok]
};
/// Errors  INVALID_GRAPH where input, weights and attributes do not fit.
[[nodiscard]] Result<ConvShape> conv_shape(const WindowAttributes& attributes, std::int64_t groups,
                                           const Dims& input, const Dims& weights);

/// Sums of one image: store(channel, position, sums, count). Padding reads as 0.
template <class E>
void convolve(const ConvShape& shape, const E* image, const E* weights,
              StoreSums<typename SumOf<E>::Type> store);

}  // namespace ctxgen::cpu
