#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ctxgen/kernels/byte_product.h"

#include "kinds/kind_rows.h"
#include "layout/placement.h"
#include "plan/builder_fused.h"

// What products and convolutions of bytes share: inputs a, matrix, zero?, scale?, scales?, bias?.
namespace ctxgen::onednn {

enum ByteInput : std::uint8_t {
  kBytesA,
  kBytesMatrix,
  kBytesZero,
  kBytesScale,
  kBytesScales,
  kBytesBias,
  kByteInputs
};

/// Errors  UNSUPPORTED.
[[nodiscard]] Status check_byte_types(const Program& program, const ProgramOp& op);

/// The matrix that the parameters describe, whose other operands fit it. Errors  INVALID_GRAPH.
[[nodiscard]] Result<kernels::ByteMatrix> byte_matrix(const ProgramOp& op,
                                                      const ByteMatmulParams& params);
[[nodiscard]] Status check_byte_operands(const ProgramOp& op, const kernels::ByteMatrix& matrix,
                                         std::uint64_t matrix_bytes, ShapeInputs in);

/// Sums are exact. They are rounded to f32, by the two scales and by the bias.
[[nodiscard]] std::int64_t byte_terms(const Program& program, const ProgramOp& op);

/// Finds the operands, `a` in the layout, and makes the result in it.
[[nodiscard]] Status place_byte_op(Placement& pass, std::uint32_t op, Layout layout);

/// What a kernel keeps of its op. Args: the inputs that are there, in order, then dst.
struct ByteForm {
  /// Appends the args of the node that `builder` builds.
  ByteForm(NodeBuilder& builder, const kernels::ByteMatrix& matrix, std::vector<Arg>& args);
  /// Without rows and scratch; `args` moves on to what follows dst.
  [[nodiscard]] kernels::ByteProduct product(std::byte* const*& args) const;
  /// Moves where the result of `product` is written to to its row `row`.
  void move_result(std::int64_t row, kernels::ByteProduct& product) const;
  /// What parallel_for() takes as `elements` of so many rows.
  [[nodiscard]] std::int64_t work(std::int64_t rows) const;

  kernels::ByteMatrix matrix;
  bool is_signed = false, sums = false, scale_per_column = false;
  std::optional<kernels::ByteSteps> steps;  // of a result of bytes, which the post-ops are part of
  std::array<bool, kByteInputs> has{};
};

}  // namespace ctxgen::onednn
