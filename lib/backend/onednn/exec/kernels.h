#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ctxgen/base/tensor.h"
#include "plan.h"
#include "window.h"

namespace ctxgen::onednn {

/// A region of f32 elements: dims and strides in elements, strides may be 0 or negative.
struct Region {
  Dims dims;
  Dims strides;
};

/// dst[i] = src[i] for all i of `dims`. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_copy_kernel(const Dims& dims,
                                                             const Dims& src_strides,
                                                             const Dims& dst_strides);

enum class PointOp : std::uint8_t {
  kAdd, kSub, kMul, kDiv, kMax, kMin,  // take an operand
  kRelu, kClip, kLinear, kAbs, kSquare, kSqrt, kHardSwish, kHardSigmoid,
};
[[nodiscard]] std::optional<PointOp> point_op(std::string_view word);
[[nodiscard]] constexpr bool takes_operand(PointOp op) { return op <= PointOp::kMin; }

/// One step of an element-wise chain: x = x <op> operand, or x = op(x; alpha, beta).
struct PointStage {
  PointOp op = PointOp::kAdd;
  float alpha = 0;
  float beta = 0;
  Dims strides;  // of the operand over the kernel's dims, 0 where it is broadcast
};

/// dst = chain(src). Args: src, dst, then the operands of the stages in order. dst may be src.
/// src_strides may hold zeros (broadcast).
[[nodiscard]] std::shared_ptr<const Kernel> make_point_kernel(const Dims& dims,
                                                              const Dims& src_strides,
                                                              const Dims& dst_strides,
                                                              std::vector<PointStage> stages);

enum class PoolMode : std::uint8_t { kMax, kAverageInclude, kAverageExclude };

/// Pooling of channels-last tensors, any dilation and ceil_mode. Args: src, dst.
/// `src`, `dst`: [N, C, D1..Dk]; ONNX semantics: an average that includes padding does not count
/// what ceil_mode adds beyond it.
[[nodiscard]] std::shared_ptr<const Kernel> make_pool_kernel(const Dims& src, const Window& window,
                                                             PoolMode mode);

struct LrnParams {
  std::int64_t size;
  float alpha, beta, bias;
};
/// ONNX LRN over channels of a channels-last tensor of `pixels` x `channels`. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_lrn_kernel(std::int64_t pixels,
                                                            std::int64_t channels, LrnParams params);

}  // namespace ctxgen::onednn
