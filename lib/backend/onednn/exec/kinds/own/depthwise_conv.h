#pragma once

#include <cstdint>
#include <optional>

#include "ctxgen/kernels/product.h"

#include "plan/builder.h"
#include "rules/conv_rules.h"

namespace ctxgen::onednn {

/// Channels up to the block of a packing that kernels::convolve_depthwise() reads, where `md` is f32 in one of
/// those: decbA8a, decbA16a of a 2-D convolution with one channel and one result in each group.
[[nodiscard]] std::optional<std::int64_t> depthwise_pitch(const dnnl::memory::desc& md);

/// Whether that kernel is for the node: its instruction set, a constant weight, all in f32.
[[nodiscard]] bool takes_own_depthwise(const NodeBuilder& builder);

/// Whether it comes first, where oneDNN takes the weights, too: with AVX2; with AVX-512 it was not measured.
[[nodiscard]] bool prefers_own_depthwise();

/// The convolution with the node's bias and post-ops. Requires takes_own_depthwise() and a depthwise_pitch() of
/// `form`. Errors  UNSUPPORTED if a sum in place is not the first post-op.
[[nodiscard]] Status build_depthwise_conv(NodeBuilder& builder, const ConvOperands& conv,
                                          const kernels::Windows& windows,
                                          const dnnl::memory::desc& form);

}  // namespace ctxgen::onednn
