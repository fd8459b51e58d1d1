#pragma once

#include <cstddef>
#include <vector>

#include "kinds/kind_rows.h"
#include "plan/builder.h"

namespace ctxgen::onednn {

[[nodiscard]] ShapeOutputs one_shape(const Dims& dims);
/// What shape rules see of a node that is built: its first `count` inputs, those that it has not too.
[[nodiscard]] std::vector<ShapeInput> shape_inputs(const NodeBuilder& builder, std::size_t count);
/// Errors  UNSUPPORTED unless `src` has one to three spatial dims.
[[nodiscard]] Status require_spatial(const ProgramOp& op, const Dims& src);
/// Scales of a quantised product: one, or one per output channel. Errors  INVALID_GRAPH.
[[nodiscard]] Status check_scales(const ProgramOp& op, ShapeInputs in, std::int64_t channels);
/// The dims of the first input.
ShapeRule same_shape;

}  // namespace ctxgen::onednn
