#pragma once

#include "kernel/function_kernel.h"

// Moving elements between row-major tensors, by element size and not by type.

namespace ctxgen::cpu {

/// A box of elements: extents, and for source and target a start and a stride per axis, in
/// elements. Strides may be 0 (repeat) or negative (reverse).
struct StridedCopy {
  Dims extents{};
  Dims from_strides{}, to_strides{};
  std::int64_t from_start = 0, to_start = 0;
};

/// Requires that every address is inside its tensor, and equal types.
/// Errors  UNSUPPORTED for elements below one byte.
[[nodiscard]] Status copy_strided(const Tensor& from, Tensor& to, const StridedCopy& copy);

/// Output axis i is input axis perm[i]. Requires a permutation.
[[nodiscard]] Status transpose_into(const Tensor& from, std::span<const std::size_t> perm,
                                    Tensor& to);
[[nodiscard]] Dims permuted(const Dims& dims, std::span<const std::size_t> perm);
/// Sets every element to the one element of `value` (of the same type).
[[nodiscard]] Status fill(Tensor& to, const Tensor& value);

}  // namespace ctxgen::cpu
