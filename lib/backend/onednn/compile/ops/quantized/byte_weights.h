#pragma once

#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/onednn/kind_params.h"

#include "../../node_view.h"
#include "../../program_builder.h"

// What the operators over products of bytes share: their constant matrix, and the op that they become.
namespace ctxgen::onednn {

/// A constant matrix [K, N] of u8 or s8 with its zero points. Borrows the constants.
struct ByteWeights {
  kernels::ByteMatrix matrix;
  kernels::ByteSource source;
};

/// Whether a constant matrix is stored with its rows or its columns one after the other.
enum class Stored : std::uint8_t { kRows, kColumns };

/// Constant inputs `values` and `zeros` (of one element or N; may be absent). Refuses what is not such a
/// matrix, and one of so few columns that its packed form would be many times its size. One that is stored
/// by columns has no values until byte_rows() gives them.
[[nodiscard]] Read<ByteWeights> read_byte_weights(const NodeView& n, std::size_t values,
                                                  std::size_t zeros, Stored stored = Stored::kRows);

/// Bytes [N, K] as [K, N]. Errors  RESOURCE_LIMIT.
[[nodiscard]] Result<Tensor> byte_rows(const Tensor& columns);

/// Weights [M, C, kernel] as rows [kernel, C] of M columns. Errors  RESOURCE_LIMIT.
[[nodiscard]] Result<Tensor> window_rows(const Tensor& weights);

/// The packed form, u8 [bytes]. Errors  RESOURCE_LIMIT.
[[nodiscard]] Result<Tensor> packed_byte_matrix(const ByteWeights& weights);

/// What an op's parameters say of its matrix.
[[nodiscard]] ByteMatmulParams matrix_params(const kernels::ByteMatrix& matrix);

/// The elements of a tensor of 8-bit integers, as long as it lives.
[[nodiscard]] const std::uint8_t* bytes_in(const Tensor& tensor);

/// Whether so many columns are too few for a matrix of `stored_bytes`: tiles are filled up to 32 columns, and
/// what the file has is what memory may be taken for.
[[nodiscard]] bool has_few_columns(const kernels::ByteMatrix& matrix, std::uint64_t stored_bytes);

/// A MatMulInteger as a product of our own: constant weights, and one zero point of the source, which may
/// be a value.
[[nodiscard]] Read<ByteWeights> read_byte_matmul(const NodeView& n);

/// Constant weights [M, C, K1..Kk] of a ConvInteger in one group, as a matrix whose elements stay where the
/// file has them until the op is added.
struct ByteConvWeights {
  ByteWeights matrix;  // [C K1..Kk, M]; source.values is null
  ConvParams conv;
};
/// A ConvInteger as products of windows: one or two spatial dims, one group, one zero point of the source,
/// which may be a value.
[[nodiscard]] Read<ByteConvWeights> read_byte_conv(const NodeView& n);

/// Whether input `i` is a value of bytes whose last dim may be `k`.
[[nodiscard]] Refusal require_byte_rows(const NodeView& n, std::size_t i, std::int64_t k);

/// Whether input `i`, where it is there, has the type and is surely one element: a value or a constant.
[[nodiscard]] Refusal require_one(const NodeView& n, std::size_t i, DataType type,
                                  std::string_view what);

/// Whether input `i`, where it is there, is constant f32 of one element, or `count` if that is given.
[[nodiscard]] Refusal require_vector(const NodeView& n, std::size_t i, std::int64_t count,
                                     std::string_view what);

/// A value, or a constant as it is stored; none where `id` is absent.
[[nodiscard]] Operand byte_operand(const GraphView& view, ValueId id, ProgramBuilder& builder);

/// The operands of a product beyond its matrix; absent ones are none.
struct ByteOperands {
  Operand a = {}, zero = {}, scale = {}, scales = {}, bias = {};
};
/// Adds op "byte_matmul" to the program; `values` is the input that `weights` was read from, whose name the
/// packed matrix gets.
[[nodiscard]] Status add_byte_matmul(const NodeView& n, std::size_t values,
                                     const ByteWeights& weights, const ByteOperands& operands,
                                     ProgramOp op, std::uint32_t result, ProgramBuilder& builder);

/// The same for op "byte_conv".
[[nodiscard]] Status add_byte_conv(const NodeView& n, const ByteConvWeights& weights,
                                   const ByteOperands& operands, ProgramOp op, std::uint32_t result,
                                   ProgramBuilder& builder);

}  // namespace ctxgen::onednn
