#pragma once

#include <optional>

#include "../node_view.h"

namespace ctxgen::onednn {

/// How [batch, rows, heads * size], as a projection gives and takes it, becomes heads [batch, heads, rows, size], or the
/// opposite: a Reshape next to [batch, rows, heads, size], and mostly a Transpose. Nothing else reads what is in between.
struct HeadRows {
  ValueId flat, split;
  NodeId reshape, transpose;  // transpose: invalid where heads stay behind rows
};

/// Of heads that one node reads.
[[nodiscard]] std::optional<HeadRows> split_into_heads(const GraphView& view, ValueId heads);
/// Of [batch, rows, heads, size] that one node reads.
[[nodiscard]] std::optional<HeadRows> split_rows(const GraphView& view, ValueId split);
/// Of heads that are made rows again.
[[nodiscard]] std::optional<HeadRows> merge_heads(const GraphView& view, ValueId heads);

}  // namespace ctxgen::onednn
