#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace ctxgen::onednn {

enum class ReduceMode : std::uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kSumSquare,
  kLogSum,
  kLogSumExp
};
[[nodiscard]] std::optional<ReduceMode> reduce_mode(std::string_view word);

/// Reduces `src` over the dims of `reduced`; dst has strides over all dims of src (those of reduced
/// ones are ignored). Sums are kept in double. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_reduce_kernel(const Dims& dims,
                                                               const Dims& src_strides,
                                                               const Dims& dst_strides,
                                                               const std::vector<bool>& reduced,
                                                               ReduceMode mode);

/// Rows of `width`: src / sqrt(mean(src^2) + epsilon) * scale. Args: src, scale, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_rms_kernel(std::int64_t rows, std::int64_t width,
                                                            float epsilon);

/// Where the elements of a group are: [images, channels, pixels], channels last or not.
struct GroupNormShape {
  std::int64_t images, channels, pixels, groups;
  bool channels_last;
};
/// Normalises groups, then scales and shifts channels. Args: src, dst, then scale and shift where
/// they are given.
[[nodiscard]] std::shared_ptr<const Kernel> make_group_norm_kernel(GroupNormShape shape,
                                                                   float epsilon, bool has_scale,
                                                                   bool has_shift);

}  // namespace ctxgen::onednn
