#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/builder.h"

namespace ctxgen::onednn {

/// 1-D convolutions, transposed ones and pools run as 2-D ones of height 1: oneDNN has no fast 1-D
/// depthwise kernel, and the others are as fast (docs/onednn.md, "Convolution"). These are dims,
/// windows and descriptors so widened; others are left as they are.
[[nodiscard]] Dims as_2d(const Dims& dims);
[[nodiscard]] dnnl::memory::desc channels_last_md(const Dims& dims,
                                                  DataType type = DataType::kFloat);
/// A number per spatial dim of a tensor of `rank`, less `minus`; `fill` for the dim that is added.
[[nodiscard]] dnnl::memory::dims wide_window(const std::vector<std::int64_t>& values,
                                             std::size_t rank, std::int64_t fill,
                                             std::int64_t minus = 0);

/// Weights [M, C/g, K...] as oneDNN wants them: [g, M/g, C/g, K...] where there are groups.
[[nodiscard]] Dims weight_dims(const Dims& onnx, std::int64_t group);

/// A post-op's operand, right-aligned to dst and widened where dst is: full size (in dst's layout
/// already), per channel or one number, which is what oneDNN's kernels take; else nothing.
[[nodiscard]] std::optional<dnnl::memory::desc> spatial_operand(const Slot& operand,
                                                                const Dims& dst);

}  // namespace ctxgen::onednn
