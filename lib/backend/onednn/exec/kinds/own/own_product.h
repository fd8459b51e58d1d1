#pragma once

#include <cstdint>
#include <optional>

#include "ctxgen/kernels/product.h"

#include "plan/builder.h"

namespace ctxgen::onednn {

/// Columns of a panel, where `md` is f32, bf16 or f16 in one of the packings that
/// kernels::multiply_panels() reads: BA16a{16,32,48,64}b of a matrix, Acdb{16,32,48,64}a of a 2-D
/// convolution's weights, aBdec{16,32,48,64}b of one in groups.
[[nodiscard]] std::optional<std::int64_t> panel_columns(const dnnl::memory::desc& md);

/// Whether kernels::multiply_panels() is for the node: its instruction set, a constant weight of a type
/// that panels have, all else in f32.
[[nodiscard]] bool takes_own_product(const NodeBuilder& builder);

/// Whether the node's weight is bf16 or f16 under an f32 source. kernels::multiply_panels() alone runs such
/// nodes: with weights in packings, oneDNN 3.12 gives wrong sums once it splits a row (more than 512
/// elements with AVX-512, 1,024 with AVX2; docs/onednn.md).
[[nodiscard]] bool widens_weight(const NodeBuilder& builder);

/// Whether it comes first for the windows of a convolution, where oneDNN may take the panels, too: it is
/// at least as fast, and takes no time to create. `columns`: of a group's result.
[[nodiscard]] bool prefers_own_windows(const NodeBuilder& builder, const kernels::Windows& windows,
                                       std::int64_t groups, std::int64_t columns);

/// The same for a convolution whose windows are single pixels, and what decides for few larger windows with AVX-512: the
/// panels of few pixels come from memory, which oneDNN's kernels do not ask for ahead.
[[nodiscard]] bool prefers_own_pixels(const NodeBuilder& builder, std::int64_t pixels,
                                      std::int64_t depth, std::int64_t columns);

/// The same for a matrix. Few rows take as long as reading the panels, which oneDNN's kernels do not read
/// in one stream; small products take as long as calling oneDNN, and creating its kernel a hundred times as long.
[[nodiscard]] bool prefers_own_rows(std::int64_t rows, std::int64_t depth, std::int64_t columns);

/// Whether the latter is so.
[[nodiscard]] bool is_small_product(std::int64_t rows, std::int64_t depth, std::int64_t columns);

/// A product of the node's weight.
struct OwnProduct {
  kernels::Windows windows;
  PackedUse weight;  // wanted: what panel_columns() knows
  std::int64_t groups = 1;
  std::int64_t columns = 0;     // of a group's result
  std::size_t column_axis = 0;  // the dim of the node's dst that they are; its stride is 1
};

/// The product with the node's bias (input 2) and post-ops. Requires takes_own_product().
/// Errors  UNSUPPORTED if a sum in place is not the first post-op.
[[nodiscard]] Status add_own_product(NodeBuilder& builder, const OwnProduct& product);

}  // namespace ctxgen::onednn
