#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ctxgen/kernels/byte_product.h"

#include "plan/plan.h"

namespace ctxgen::onednn {

/// One LSTM layer of byte products.
struct ByteLstmShape {
  std::int64_t steps = 0, batch = 0, inputs = 0, units = 0, directions = 1;
  bool reversed = false;                   // of one direction: from the last step to the first
  kernels::ByteMatrix weights, recurrent;  // of one direction: [inputs, 4 units], [units, 4 units]
  bool weight_scale_per_column = false, recurrent_scale_per_column = false;
  bool has_state = false, has_cell = false;

  /// What make_byte_lstm_kernel()'s last argument has to hold. Nothing if that passes 2^63 - 1.
  [[nodiscard]] std::optional<std::uint64_t> scratch_bytes() const;
};

/// All steps of a layer as ONNX Runtime's DynamicQuantizeLSTM: the source is rounded to bytes as a whole, the
/// state of all sequences in each step; gates are (products of the source + products of the state) + bias.
/// Args: x [steps, batch, inputs], weights and recurrent weights (packed, a direction after the other), their
/// scales [directions] or [directions, 4 units], bias [directions, 4 units], y [steps, batch,
/// directions * units], state and the cell's state [directions, batch, units], the initial ones of
/// both where they are given, scratch. ONNX's order of gates: input, output, forget, candidate.
///
/// Requires  no dim is 0; scratch_bytes() is a number.
[[nodiscard]] std::shared_ptr<const Kernel> make_byte_lstm_kernel(const ByteLstmShape& shape);

}  // namespace ctxgen::onednn
