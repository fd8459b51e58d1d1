#include <algorithm>
#include <format>
#include <utility>

#include "ctxgen/kernels/low_bit.h"
#include "ctxgen/onednn/op_kinds.h"

#include "../../op_row.h"
#include "../ops.h"

// com.microsoft: products with constant matrices of a few bits, which are packed here into the order in
// which kernels read them.
namespace ctxgen::onednn {

namespace {

struct MatMulNBits {
  kernels::LowBitMatrix matrix;
  kernels::LowBitCompute compute = kernels::LowBitCompute::kFloat;
};

/// Whether constant input `i` has `count` elements of one of `types`.
Refusal require_elements(const NodeView& n, std::size_t i, std::string_view what,
                         std::initializer_list<DataType> types, std::int64_t count) {
  const Tensor* tensor = n.has_input(i) ? n.constant(i) : nullptr;
  if (tensor == nullptr) return std::format("{} is not constant", what);
  if (std::ranges::find(types, tensor->type()) == types.end())
    return std::format("{} has element type {}", what, name_of(tensor->type()));
  if (tensor->element_count() == count) return std::nullopt;
  return std::format("{} has {} elements, expected {}", what, tensor->element_count(), count);
}

Read<kernels::ZeroPoints> read_zero_points(const NodeView& n, const kernels::LowBitMatrix& m) {
  if (!n.has_input(3)) return kernels::ZeroPoints::kMiddle;
  const Tensor* zeros = n.constant(3);
  const bool packed = zeros != nullptr && zeros->type() == DataType::kUint8;
  const std::int64_t column = packed ? (m.blocks() * m.bits + 7) / 8 : m.blocks();
  CTXGEN_REFUSE(require_elements(
      n, 3, "zero_points", {DataType::kUint8, DataType::kFloat, DataType::kFloat16}, m.n * column));
  return packed ? kernels::ZeroPoints::kInteger : kernels::ZeroPoints::kFloat;
}

Read<MatMulNBits> read_nbits(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  if (n.constant(0) != nullptr) return refuse("A is constant");
  const Node& node = n.node();
  MatMulNBits read;
  kernels::LowBitMatrix& m = read.matrix;
  m = {.k = node.int_or("K", 0),
       .n = node.int_or("N", 0),
       .bits = node.int_or("bits", 4),
       .block = node.int_or("block_size", 0)};
  if (!kernels::is_valid(m))
    return refuse("{} x {}, {} bits in blocks of {}", m.k, m.n, m.bits, m.block);
  if (const Dim last = n.input_dims(0).back(); last.is_fixed() && last.value() != m.k)
    return refuse("the last dim of A is {}, K is {}", last.value(), m.k);
  if (n.has_input(4)) return refuse("g_idx is used");
  if (node.int_or("weight_prepacked", 0) != 0) return refuse("B is packed for another library");
  CTXGEN_REFUSE(
      require_elements(n, 1, "B", {DataType::kUint8}, m.n * m.blocks() * (m.block * m.bits / 8)));
  CTXGEN_REFUSE(
      require_elements(n, 2, "scales", {DataType::kFloat, DataType::kFloat16}, m.n * m.blocks()));
  if (n.has_input(5)) {
    CTXGEN_REFUSE(require_elements(n, 5, "bias", {DataType::kFloat, DataType::kFloat16}, m.n));
    if (n.rank(5) != 1) return refuse("bias has rank {}", n.rank(5));
  }
  m.zeros = CTXGEN_TRY(read_zero_points(n, m));
  // A tile is filled up to 32 columns. What the file has is what memory may be taken for.
  constexpr std::uint64_t kSmall = 1U << 20U;
  if (kernels::packed_bytes(m) > 4 * n.constant(1)->bytes().size() + kSmall)
    return refuse("{} columns are too few", m.n);
  // The least accuracy that the model asks for: 0 and 1 f32, 2 f16, 3 bf16, 4 int8.
  const std::int64_t level = node.int_or("accuracy_level", 0);
  if (level < 0 || level > 4) return refuse("accuracy_level is {}", level);
  if (level == 4 && m.zeros != kernels::ZeroPoints::kFloat)
    read.compute = kernels::LowBitCompute::kInt8;
  return read;
}

const std::uint8_t* bytes_of(const Tensor& tensor) {
  return reinterpret_cast<const std::uint8_t*>(tensor.bytes().data());
}

Result<Tensor> packed_matrix(const NodeView& n, const kernels::LowBitMatrix& matrix) {
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(matrix));
  Tensor packed = CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{bytes}));
  const std::vector<float> scales = floats_of(*n.constant(2));
  const bool real = matrix.zeros == kernels::ZeroPoints::kFloat;
  const std::vector<float> zeros = real ? floats_of(*n.constant(3)) : std::vector<float>();
  kernels::LowBitSource source{.values = bytes_of(*n.constant(1)), .scales = scales.data()};
  if (real) source.float_zeros = zeros.data();
  if (matrix.zeros == kernels::ZeroPoints::kInteger) source.zeros = bytes_of(*n.constant(3));
  kernels::pack(matrix, source, packed.mutable_bytes().data());
  return packed;
}

}  // namespace

Refusal check_matmul_nbits(const NodeView& n) { return refusal_of(read_nbits(n)); }

Status lower_matmul_nbits(const NodeView& n, ProgramBuilder& builder) {
  const auto [m, compute] = CTXGEN_TRY(accepted(read_nbits(n), n));
  ProgramOp op = builder.op(kind::kLowBitMatmul, n);
  encode(LowBitMatmulParams{.k = m.k,
                            .n = m.n,
                            .bits = m.bits,
                            .block = m.block,
                            .zeros = m.zeros == kernels::ZeroPoints::kMiddle    ? "middle"
                                     : m.zeros == kernels::ZeroPoints::kInteger ? "integer"
                                                                                : "float",
                            .compute = compute == kernels::LowBitCompute::kInt8 ? "int8" : "float"},
         op);
  const Operand matrix = builder.weight(n.input_value(1).name, CTXGEN_TRY(packed_matrix(n, m)));
  Operand bias;
  if (n.has_input(5)) bias = builder.operand(n.input(5));
  builder.add(std::move(op), {builder.operand(n.input(0)), matrix, bias},
              builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
