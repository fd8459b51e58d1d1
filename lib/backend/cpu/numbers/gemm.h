#pragma once

#include <cstdint>

#include "ctxgen/base/function_ref.h"
// One blocked matrix product for MatMul, Gemm, convolutions and their integer forms. Products of
// floats are exact in the double accumulators, so results do not depend on the instruction set.

namespace ctxgen::cpu {

/// Columns that the inner kernel works on together.
inline constexpr std::int64_t kPanelColumns = 16;

/// An M x K matrix anywhere in memory.
template <class E>
struct MatrixView {
  const E* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 0;
};

/// Fills panel[k * kPanelColumns + j] = B(k, first + j) for all k < K and all kPanelColumns columns
/// (zeros past the last one).
template <class E>
using PackPanel = FunctionRef<void(std::int64_t first_column, E* panel)>;

/// c(m, n) = finish(m, n, sum over k of a(m, k) * b(k, n)), without a row's finish() where empty.
struct ProductSize {
  std::int64_t m = 0, n = 0, k = 0;
};

/// Receives rows of sums: `count` sums of row m from column n on.
template <class A>
using StoreSums =
    FunctionRef<void(std::int64_t m, std::int64_t n, const A* sums, std::int64_t count)>;

/// E: float (sums in double), double (double), int32 (uint32, wrapping), int64 (uint64, wrapping).
template <class E>
struct SumOf;
template <>
struct SumOf<float> {
  using Type = double;
};
template <>
struct SumOf<double> {
  using Type = double;
};
template <>
struct SumOf<std::int32_t> {
  using Type = std::uint32_t;
};
template <>
struct SumOf<std::int64_t> {
  using Type = std::uint64_t;
};

/// Instantiated for the four element types above.
template <class E>
void multiply(const ProductSize& size, const MatrixView<E>& a, PackPanel<E> pack_b,
              StoreSums<typename SumOf<E>::Type> store_sums);

/// A PackPanel of a matrix in memory with `columns` columns and `rows` rows.
template <class E>
struct MatrixPacker {
  MatrixView<E> b;
  std::int64_t rows = 0, columns = 0;
  void operator()(std::int64_t first, E* panel) const;
};

}  // namespace ctxgen::cpu
