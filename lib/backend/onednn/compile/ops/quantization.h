#pragma once

#include <cstdint>

#include "../node_view.h"
#include "../program_builder.h"
#include "../quantized_constant.h"

namespace ctxgen::onednn {

/// Scale and zero point of a whole tensor.
struct Quantization {
  float scale = 1.0F;
  std::int32_t zero = 0;
  DataType type = DataType::kUndefined;  // of the zero point; undefined if it is absent
};

/// Constant inputs `scale` and `zero` of one element each; the zero point may be absent.
[[nodiscard]] Read<Quantization> read_quantization(const NodeView& n, std::size_t scale,
                                                   std::size_t zero);

/// The real numbers of a u8, s8 or s32 value.
[[nodiscard]] Operand add_dequantize(const NodeView& n, std::size_t input, const Quantization& from,
                                     ProgramBuilder& builder);
/// A float32 value of the dims of the node's first output that add_quantize() stores in it.
[[nodiscard]] std::uint32_t real_result(const NodeView& n, ProgramBuilder& builder);
void add_quantize(const NodeView& n, std::uint32_t real, const Quantization& to,
                  ProgramBuilder& builder);

/// A constant 8-bit input as a float32 weight that remembers what it was.
[[nodiscard]] Result<Operand> add_quantized_weight(const NodeView& n, std::size_t input,
                                                   const QuantizedWeight& weight,
                                                   ProgramBuilder& builder);

}  // namespace ctxgen::onednn
