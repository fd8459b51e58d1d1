#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "plan/plan.h"

namespace ctxgen::onednn {

enum class RnnCell : std::uint8_t { kLstm, kGru, kLinearGru, kTanh, kRelu };
/// By its word in kind::kRnn.
[[nodiscard]] std::optional<RnnCell> rnn_cell(std::string_view word);

/// One layer; oneDNN's order of gates.
struct RnnShape {
  RnnCell cell;
  std::int64_t steps, batch, inputs, units;
  std::int64_t directions;
  bool reversed;  // of one direction: from the last step to the first
  bool has_state, has_cell;

  [[nodiscard]] std::int64_t gates() const;
  /// Rows of the bias: a GRU that is linear before the reset has one more.
  [[nodiscard]] std::int64_t bias_rows() const;
  /// Whether two directions run at once, each in one thread. Else all workers take one after the other, where a step is enough
  /// for those.
  [[nodiscard]] bool runs_apart() const;
  /// What make_rnn_kernel()'s last argument has to hold.
  [[nodiscard]] std::uint64_t scratch_bytes() const;
};

/// All steps of a layer: their products with the inputs some at a time, then per step the product with
/// the state and the cell. Args: x [steps, batch, inputs], weights [directions, inputs, gates, units],
/// recurrent weights [directions, units, gates, units], bias [directions, bias_rows, units],
/// y [steps, batch, directions * units], state [directions, batch, units], the cell's state of the
/// same dims (LSTM), the initial ones of both where they are given, scratch.
///
/// Requires  no dim is 0; scratch_bytes() does not overflow.
[[nodiscard]] std::shared_ptr<const Kernel> make_rnn_kernel(const RnnShape& shape);

}  // namespace ctxgen::onednn
