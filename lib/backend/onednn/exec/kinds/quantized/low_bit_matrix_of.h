#pragma once

#include <string>
#include <utility>

#include "ctxgen/kernels/low_bit.h"

#include "plan/params.h"
#include "rules/shape_rules.h"

// What ops with packed low-bit matrices share.
namespace ctxgen::onednn {

/// The matrix that the parameters describe. Errors  UNSUPPORTED, INVALID_GRAPH naming the op.
template <class Params>
[[nodiscard]] Result<kernels::LowBitMatrix> low_bit_matrix(const ProgramOp& op,
                                                           const Params& params) {
  kernels::LowBitMatrix matrix{
      .k = params.k, .n = params.n, .bits = params.bits, .block = params.block};
  if (params.zeros == "integer")
    matrix.zeros = kernels::ZeroPoints::kInteger;
  else if (params.zeros == "float")
    matrix.zeros = kernels::ZeroPoints::kFloat;
  else if (params.zeros != "middle")
    return fail(ErrorCode::kUnsupported, "{}: zeros \"{}\"", label(op), params.zeros);
  if (!kernels::is_valid(matrix))
    return fail(ErrorCode::kInvalidGraph, "{}: {} x {}, {} bits in blocks of {}", label(op),
                params.k, params.n, params.bits, params.block);
  return matrix;
}

/// Whether a weight of `dims` is its packed form. Errors  INVALID_GRAPH naming the op.
[[nodiscard]] inline Status expect_packed(const ProgramOp& op, const kernels::LowBitMatrix& matrix,
                                          const Dims& dims) {
  const std::uint64_t bytes = kernels::packed_bytes(matrix);
  if (dims.size() == 1 && std::cmp_equal(dims[0], bytes)) return {};
  return fail(ErrorCode::kInvalidGraph, "{}: packed matrix {}, expected {} bytes", label(op),
              to_string(dims), bytes);
}

}  // namespace ctxgen::onednn
