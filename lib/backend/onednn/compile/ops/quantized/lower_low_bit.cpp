#include <algorithm>
#include <format>
#include <memory>
#include <utility>
#include <vector>

#include "ctxgen/onednn/op_kinds.h"

#include "../../op_row.h"
#include "../ops.h"
#include "low_bit_matrix.h"

// com.microsoft: products with constant matrices of a few bits and lookups of their columns, which are packed
// here into the order in which kernels read them.
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
  CTXGEN_REFUSE(require_columns(m, n.constant(1)->bytes().size()));
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

/// The bytes of `tensor` as elements of `bits` bits, [rows, columns].
Tensor as_bits(const Tensor& tensor, std::int64_t bits, const Dims& dims) {
  const DataType type = bits == 2 ? DataType::kUint2 : bits == 4 ? DataType::kUint4 : tensor.type();
  return Tensor::borrow(type, dims, tensor.owner(), tensor.bytes());
}

/// Zero points [rows, blocks] of rows that are filled up to whole bytes.
Tensor zeros_of_rows(const Tensor& packed, std::int64_t bits, std::int64_t blocks) {
  const std::int64_t rows = packed.dims()[0], row_bytes = packed.dims()[1];
  if (row_bytes * 8 == blocks * bits) return as_bits(packed, bits, {rows, blocks});
  const auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<std::size_t>((rows * blocks * bits + 7) / 8));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t from = block * bits, to = (row * blocks + block) * bits;
      const auto byte = static_cast<std::uint32_t>(bytes_of(packed)[row * row_bytes + from / 8]);
      const std::uint32_t zero = (byte >> (from % 8)) & ((1U << bits) - 1);
      (*bytes)[static_cast<std::size_t>(to / 8)] |= static_cast<std::byte>(zero << (to % 8));
    }
  const DataType type = bits == 2 ? DataType::kUint2 : DataType::kUint4;
  return Tensor::borrow(type, {rows, blocks}, bytes, *bytes);
}

/// The table as a matrix whose columns are looked up.
Read<StoredLowBits> read_gather_blocks(const NodeView& n) {
  const Tensor *data = n.constant(0), *scales = n.has_input(2) ? n.constant(2) : nullptr;
  const Tensor* zeros = n.has_input(3) ? n.constant(3) : nullptr;
  if (data == nullptr || scales == nullptr || (n.has_input(3) && zeros == nullptr))
    return refuse("data, scales or zero_points are not constant");
  CTXGEN_REFUSE(require_value(n, 1, {DataType::kInt32, DataType::kInt64}));
  const Node& node = n.node();
  const std::int64_t bits = node.int_or("bits", 4), block = node.int_or("block_size", 128);
  const std::int64_t axis = node.int_or("quantize_axis", 1);
  if (data->rank() != 2 || scales->rank() != 2) return refuse("data of rank {}", data->rank());
  if (node.int_or("gather_axis", 0) != 0 || (axis != 1 && axis != -1))
    return refuse("axes other than those of a table of rows");
  if (block < 16 || (block & (block - 1)) != 0) return refuse("blocks of {}", block);
  const bool bytes = data->type() == DataType::kUint8;
  const bool nibbles = data->type() == DataType::kUint4 || data->type() == DataType::kInt4;
  if ((!bytes && !nibbles) || (bits != 4 && (!bytes || (bits != 2 && bits != 8))))
    return refuse("data of type {}, {} bits", name_of(data->type()), bits);
  const Dims dims{data->dims()[0], data->dims()[1] * (bytes ? 8 / bits : 1)};
  const std::int64_t blocks = (dims[1] + block - 1) / block;
  if (scales->dims() != Dims{dims[0], blocks})
    return refuse("scales {}", to_string(scales->dims()));
  StoredLowBits stored{.matrix = {.k = dims[1], .n = dims[0]},
                       .values = bytes ? as_bits(*data, bits, dims) : *data,
                       .scales = *scales,
                       .swapped = true,
                       .per_column = true,
                       .middle = bytes,
                       .scale_rows = block};
  if (zeros != nullptr) {
    const std::int64_t row = bytes ? (blocks * bits + 7) / 8 : blocks;
    if (zeros->type() != data->type() || zeros->dims() != Dims{dims[0], row})
      return refuse("zero_points {} {}", name_of(zeros->type()), to_string(zeros->dims()));
    stored.zeros = bytes ? zeros_of_rows(*zeros, bits, blocks) : *zeros;
  }
  CTXGEN_REFUSE(choose_blocks(stored));
  return stored;
}

}  // namespace

Refusal check_gather_blocks(const NodeView& n) { return refusal_of(read_gather_blocks(n)); }

Status lower_gather_blocks(const NodeView& n, ProgramBuilder& builder) {
  const StoredLowBits stored = CTXGEN_TRY(accepted(read_gather_blocks(n), n));
  const kernels::LowBitMatrix& m = stored.matrix;
  ProgramOp op = builder.op(kind::kLowBitLookup, n);
  encode(LowBitLookupParams{.k = m.k,
                            .n = m.n,
                            .bits = m.bits,
                            .block = m.block,
                            .zeros = std::string(zeros_word(m.zeros))},
         op);
  const Operand matrix = builder.weight(n.input_value(0).name, CTXGEN_TRY(packed_low_bits(stored)));
  builder.add(std::move(op), {matrix, builder.operand(n.input(1))}, builder.value(n.output(0)));
  return {};
}

Refusal check_matmul_nbits(const NodeView& n) { return refusal_of(read_nbits(n)); }

Status lower_matmul_nbits(const NodeView& n, ProgramBuilder& builder) {
  const auto [m, compute] = CTXGEN_TRY(accepted(read_nbits(n), n));
  ProgramOp op = builder.op(kind::kLowBitMatmul, n);
  encode(LowBitMatmulParams{.k = m.k,
                            .n = m.n,
                            .bits = m.bits,
                            .block = m.block,
                            .zeros = std::string(zeros_word(m.zeros)),
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
