#pragma once

#include "ctxgen/ctxfile/program.h"

#include "plan/builder.h"
#include "rules/window.h"

namespace ctxgen::onednn {

/// Whether a convolution multiplies each pixel's channels by one matrix: kernel 1, stride 1, no pads,
/// one group, real numbers.
[[nodiscard]] bool is_pointwise(const NodeBuilder& builder, const Window& window,
                                std::int64_t group);

/// Such a convolution as the product [pixels, C] x [C, M]. Its weight has the packing of products,
/// which serves every number of pixels and threads; a convolution's kernel takes its own alone.
/// Errors  UNSUPPORTED where the result of the convolution's kernel is to be taken: no packing for
/// these sizes, or a post-op that a product cannot take.
[[nodiscard]] Status build_pointwise_conv(NodeBuilder& builder, double flops);

}  // namespace ctxgen::onednn
