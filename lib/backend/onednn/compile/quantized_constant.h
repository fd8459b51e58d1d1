#pragma once

#include <optional>

#include "ctxgen/partition/provider.h"

#include "lowered.h"

namespace ctxgen::onednn {

/// Whether the operators of a node's domain that ONNX and com.microsoft both have (QuantizeLinear, DequantizeLinear)
/// mean what ONNX says.
[[nodiscard]] bool is_onnx_or_microsoft(const Node& node);

/// What a constant was before DequantizeLinear made it real: nothing if it has another origin, is not
/// 8-bit one, or is scaled in blocks.
[[nodiscard]] std::optional<QuantizedWeight> quantized_constant(const GraphView& view, ValueId id);

/// A constant u8 or s8 tensor with constant scale and zero point, of one element each or as many as
/// dims[axis]. `zero` may be null. Nothing if they do not fit.
[[nodiscard]] std::optional<QuantizedWeight> quantized_weight(const Tensor& stored,
                                                              const Tensor& scale,
                                                              const Tensor* zero,
                                                              std::int64_t axis);

/// The stored integers minus their zero points, where s8 holds them all: oneDNN's fast kernels take
/// symmetric s8 weights only. Nothing where it does not. Errors  RESOURCE_LIMIT.
[[nodiscard]] Result<std::optional<Tensor>> symmetric_s8(const QuantizedWeight& weight);

/// The real numbers that it stands for. Errors  RESOURCE_LIMIT.
[[nodiscard]] Result<Tensor> dequantized(const QuantizedWeight& weight);

/// Elements of a u8, s8 or s32 tensor.
[[nodiscard]] std::vector<std::int32_t> integers_of(const Tensor& tensor);

}  // namespace ctxgen::onednn
