#pragma once

#include <span>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen::onednn {

/// Whether `dims` fit input `input` of the program. `symbols`: what the inputs before it say of the
/// program's symbols, -1 where they say nothing; takes no memory.
/// Errors  INVALID_ARGUMENT; RESOURCE_LIMIT.
[[nodiscard]] Status check_input(const Program& program, std::size_t input, const Dims& dims,
                                 std::span<std::int64_t> symbols);

/// NumPy broadcasting of two shapes. Errors  INVALID_GRAPH naming `op` and both shapes.
[[nodiscard]] Result<Dims> broadcast_dims(const ProgramOp& op, const Dims& a, const Dims& b);

/// A slice with everything explicit: per axis of src first index and step (may be negative).
struct SliceRange {
  std::vector<std::int64_t> start, step;
  Dims dims;
};
[[nodiscard]] Result<SliceRange> resolve_slice(const ProgramOp& op, const Dims& src);

/// Sizes of the parts of a split along `axis`.
[[nodiscard]] Result<std::vector<std::int64_t>> resolve_split(const ProgramOp& op,
                                                              std::int64_t length);

/// Dims of a matmul operand after its trans flag.
[[nodiscard]] Dims matmul_operand_dims(Dims stored, bool transposed);

}  // namespace ctxgen::onednn
