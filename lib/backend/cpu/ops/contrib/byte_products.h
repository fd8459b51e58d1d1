#pragma once

#include "ctxgen/base/function_ref.h"

#include "ops/quantized/quantized_tensors.h"

// Exact products with matrices of 8-bit integers, a column of which is in memory as numbers at a time.

namespace ctxgen::cpu {

/// Elements less their zero points, which a float holds exactly. Errors  UNSUPPORTED of other types.
[[nodiscard]] Result<ScratchVector<float>> centred_floats(const Tensor& tensor, std::int32_t zero);

/// A matrix [depth, columns] of int8 or uint8, or its transpose, with zero points of one or `columns`.
struct ByteColumns {
  const Tensor* matrix;  // of rank 2
  const Quantization* quantization;
  bool transposed = false;
  [[nodiscard]] std::int64_t depth() const { return matrix->dims()[transposed ? 1 : 0]; }
  [[nodiscard]] std::int64_t columns() const { return matrix->dims()[transposed ? 0 : 1]; }
};

/// Calls emit(row, column, sum) for all sums of `a` [rows, depth] times the matrix less its zero points;
/// sums of whole numbers are exact below 2^53. Errors  UNSUPPORTED of matrices of other types.
[[nodiscard]] Status multiply_columns(
    std::span<const float> a, std::int64_t rows, const ByteColumns& b,
    FunctionRef<void(std::int64_t row, std::int64_t column, double sum)> emit);

}  // namespace ctxgen::cpu
