#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/tensor.h"

#include "plan/plan.h"
#include "rules/window.h"

namespace ctxgen::onednn {

/// dst[i] = src[i] for all i of `dims`, elements of 1, 2, 4 or 8 bytes. Strides in elements, those of
/// src may be 0 or negative. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_copy_kernel(const Dims& dims,
                                                             const Dims& src_strides,
                                                             const Dims& dst_strides,
                                                             std::uint64_t element_bytes);

enum class PointOp : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kPRelu,
  kPower,  // take an operand
  kRelu,
  kClip,
  kLinear,
  kAbs,
  kSquare,
  kSqrt,
  kHardSwish,
  kHardSigmoid,
  kFloor,
  kCeil,
  kSign,
  kSin,
  kCos,
  kSoftsign,
  kThreshold,
  kPowerOf,
  kErf,  // from here on: functions of lib/kernels, which need an exponential or a logarithm
  kExp,
  kGeluErf,
  kGeluTanh,
  kLog,
  kSigmoid,
  kSwish,
  kTanh,
};
/// The operation of a word; `with_operand` tells between those that may have one.
[[nodiscard]] std::optional<PointOp> point_op(std::string_view word, bool with_operand);
[[nodiscard]] constexpr bool takes_operand(PointOp op) { return op <= PointOp::kPower; }
[[nodiscard]] constexpr bool needs_exponential(PointOp op) { return op >= PointOp::kErf; }
/// The same of the operation of a word.
[[nodiscard]] bool needs_exponential(std::string_view word, bool with_operand);

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

/// dst = condition is not 0 ? a : b, of one byte and f32. Strides over `dims`, 0 where a tensor is
/// broadcast. Args: condition, a, b, dst. dst may be a or b where their strides are the same.
[[nodiscard]] std::shared_ptr<const Kernel> make_select_kernel(const Dims& dims,
                                                               const Dims& condition_strides,
                                                               const Dims& a_strides,
                                                               const Dims& b_strides,
                                                               const Dims& dst_strides);

/// A number type in memory: an integer element stands for (element - zero) * scale.
struct Stored {
  DataType type = DataType::kFloat;
  float scale = 1;
  float zero = 0;
};

/// As make_point_kernel, over tensors of any stored type; `operands` are those of the stages that
/// take one, in order. Dense dst; it may be src where both are equally wide.
[[nodiscard]] std::shared_ptr<const Kernel> make_typed_kernel(
    const Dims& dims, const Dims& src_strides, const Dims& dst_strides,
    std::vector<PointStage> stages, Stored src, Stored dst, std::vector<Stored> operands);

/// The same for `count` elements, one after another in all tensors, where all are bytes and the stages an addition of one of them
/// and then bounds; null where they are not. dst may be src or the operand.
[[nodiscard]] std::shared_ptr<const Kernel> make_byte_sum_kernel(std::int64_t count,
                                                                 std::span<const PointStage> stages,
                                                                 const Stored& src,
                                                                 const Stored& dst,
                                                                 std::span<const Stored> operands);

/// dst[i] = table[src[i]] for `count` elements: u8 or s8 by their bit pattern to elements of 1 or 4
/// bytes. `table` holds 256 elements. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_table_kernel(std::int64_t count,
                                                              std::uint64_t dst_element_bytes,
                                                              const std::vector<std::byte>& table);

/// `n` elements of `to.type` from f32, rounded half to even and saturated.
void store_row(const Stored& to, std::int64_t n, const float* in, std::byte* out);
/// f32 from `n` elements, `stride` elements apart.
void load_row(const Stored& from, std::int64_t n, const std::byte* in, std::int64_t stride,
              float* out);

enum class PoolMode : std::uint8_t { kMax, kAverageInclude, kAverageExclude };

/// Pooling of channels-last tensors, any dilation and ceil_mode. Args: src, dst. Types: f32; for
/// maxima u8 and s8 too.
/// `src`, `dst`: [N, C, D1..Dk]; ONNX semantics: an average that includes padding does not count
/// what ceil_mode adds beyond it.
[[nodiscard]] std::shared_ptr<const Kernel> make_pool_kernel(const Dims& src, const Window& window,
                                                             PoolMode mode,
                                                             DataType type = DataType::kFloat);

/// Depthwise transposed convolution of channels-last tensors. Args: src [N, C, D1..Dk], weights
/// [taps, C], dst, bias [C] where there is one.
[[nodiscard]] std::shared_ptr<const Kernel> make_deconv_kernel(const Dims& src,
                                                               const Window& window, bool has_bias);

struct LrnWindow {
  std::int64_t size;
  float alpha, beta, bias;
};
/// ONNX LRN over channels of a channels-last tensor of `pixels` x `channels`. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_lrn_kernel(std::int64_t pixels,
                                                            std::int64_t channels,
                                                            LrnWindow params);

}  // namespace ctxgen::onednn
