#pragma once

#include <span>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen::onednn {

/// What a shape function sees: dims of the inputs (rank 0 and `present` false for absent ones).
struct ShapeInput {
  Dims dims;
  bool present = false;
};
using ShapeInputs = std::span<const ShapeInput>;
using ShapeOutputs = std::vector<Dims>;
/// Dims of the outputs of an op. Errors  INVALID_GRAPH, UNSUPPORTED, RESOURCE_LIMIT naming it.
using ShapeFunction = Result<ShapeOutputs>(const ProgramOp&, ShapeInputs);

[[nodiscard]] ShapeOutputs one_shape(const Dims& dims);
[[nodiscard]] Status require_spatial(const ProgramOp& op, const Dims& src);

// shapes_move.cpp
ShapeFunction pad_shape, gather_shape, tile_shape, expand_shape, resize_shape, blocks_shape;
// shapes_compute.cpp
ShapeFunction deconv_shape, reduce_shape, group_norm_shape, rnn_shape;

}  // namespace ctxgen::onednn
