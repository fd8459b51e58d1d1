#include "numbers/gemm.h"

#include <algorithm>
#include <array>

#include "ctxgen/base/simd.h"
#include "ctxgen/cpu/scratch.h"

#include "kernel/stop.h"

namespace ctxgen::cpu {
namespace {

constexpr std::int64_t kBlockRows = 4;

// Sums of kBlockRows rows and one panel. `a` is packed [k][kBlockRows]. The compiler turns the fixed
// inner loops into vector code of whatever the machine has.
template <class E, class A>
[[gnu::always_inline]] inline void block_sums(const E* a, const E* panel, std::int64_t depth,
                                              A* sums) {
  A local[kBlockRows][kPanelColumns] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    A b[kPanelColumns];
    for (std::int64_t j = 0; j < kPanelColumns; ++j)
      b[j] = static_cast<A>(panel[k * kPanelColumns + j]);
    for (std::int64_t i = 0; i < kBlockRows; ++i) {
      const A factor = static_cast<A>(a[k * kBlockRows + i]);
      for (std::int64_t j = 0; j < kPanelColumns; ++j) local[i][j] += factor * b[j];
    }
  }
  for (std::int64_t i = 0; i < kBlockRows; ++i)
    for (std::int64_t j = 0; j < kPanelColumns; ++j) sums[i * kPanelColumns + j] = local[i][j];
}

constexpr auto sums_of =
    simd_loop([] CTXGEN_SIMD_LOOP(const auto* a, const auto* panel, std::int64_t depth,
                                  auto* sums) { block_sums(a, panel, depth, sums); });

// A as blocks of kBlockRows rows, each [k][row], zeros below the last row.
template <class E>
ScratchVector<E> pack_rows(const MatrixView<E>& a, std::int64_t rows, std::int64_t depth) {
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  ScratchVector<E> packed(static_cast<std::size_t>(blocks * kBlockRows * depth));
  for (std::int64_t m = 0; m < rows; ++m) {
    const E* from = a.data + m * a.row_stride;
    E* to = packed.data() + m / kBlockRows * kBlockRows * depth + m % kBlockRows;
    for (std::int64_t k = 0; k < depth; ++k) to[k * kBlockRows] = from[k * a.column_stride];
  }
  return packed;
}

}  // namespace

template <class E>
void multiply(const ProductSize& size, const MatrixView<E>& a, PackPanel<E> pack_b,
              StoreSums<typename SumOf<E>::Type> store_sums) {
  using A = typename SumOf<E>::Type;
  if (size.m == 0 || size.n == 0) return;
  const ScratchVector<E> rows = pack_rows(a, size.m, size.k);
  ScratchVector<E> panel(static_cast<std::size_t>(size.k * kPanelColumns));
  std::array<A, kBlockRows * kPanelColumns> sums;
  for (std::int64_t n = 0; n < size.n; n += kPanelColumns) {
    pack_b(n, panel.data());
    const std::int64_t columns = std::min(kPanelColumns, size.n - n);
    for (std::int64_t m = 0; m < size.m; m += kBlockRows) {
      if (m % (64 * kBlockRows) == 0 && run_stopped()) return;
      sums_of(rows.data() + m * size.k, panel.data(), size.k, sums.data());
      for (std::int64_t i = 0; i < std::min(kBlockRows, size.m - m); ++i)
        store_sums(m + i, n, sums.data() + i * kPanelColumns, columns);
    }
  }
}

template <class E>
void MatrixPacker<E>::operator()(std::int64_t first, E* panel) const {
  const std::int64_t count = std::min(kPanelColumns, columns - first);
  for (std::int64_t k = 0; k < rows; ++k) {
    const E* from = b.data + k * b.row_stride + first * b.column_stride;
    E* to = panel + k * kPanelColumns;
    for (std::int64_t j = 0; j < count; ++j) to[j] = from[j * b.column_stride];
    std::fill(to + count, to + kPanelColumns, E(0));
  }
}

#define CTXGEN_GEMM_OF(E)                                                           \
  template void multiply<E>(const ProductSize&, const MatrixView<E>&, PackPanel<E>, \
                            StoreSums<typename SumOf<E>::Type>);                    \
  template struct MatrixPacker<E>;
CTXGEN_GEMM_OF(float)
CTXGEN_GEMM_OF(double)
CTXGEN_GEMM_OF(std::int32_t)
CTXGEN_GEMM_OF(std::int64_t)
#undef CTXGEN_GEMM_OF

}  // namespace ctxgen::cpu
