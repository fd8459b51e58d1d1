#pragma once

#include <cstdint>

namespace ctxgen::kernels {

/// c = start + a b for row-major a [rows, depth], b [depth, columns] and c [rows, columns], each with
/// its own distance between rows, in elements. `start` has the form of c and may be c; a distance of 0
/// repeats its row. No other overlap.
struct Product {
  std::int64_t rows = 0, depth = 0, columns = 0;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const float* b = nullptr;
  std::int64_t b_stride = 0;
  const float* start = nullptr;
  std::int64_t start_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
};

/// Each element is the sum over depth in order, every product and sum rounded once where the processor
/// has FMA: how a product is cut does not change a result. One or two rows read b once, in the order of
/// memory; for more rows, parts of b are copied to the stack, unless b is one panel.
///
/// Requires  depth > 0.
/// Threads   any; the calling one does all the work.
void multiply(const Product& product);

/// Whether this machine's cores multiply one row after another with AVX-512 faster here than in oneDNN, as was measured
/// (docs/onednn.md, "Recurrent networks"): Intel's do, AMD's do not.
[[nodiscard]] bool streams_one_row();

/// Columns of a panel: [depth, panel_columns()] of b. For a b that many products use.
[[nodiscard]] std::int64_t panel_columns();

/// panel[k][j] = b[k][j] for j < columns <= panel_columns(), 0 beyond.
void pack_panel(std::int64_t depth, std::int64_t columns, const float* b, std::int64_t b_stride,
                float* panel);

// Cells of recurrent networks, for n units: sums of products in, states out. Errors are those of the
// functions in activate.h. `state`: the last step's; results may be any of the inputs.

/// cell = logistic(forget) * last_cell + logistic(input) * tanh(candidate);
/// out = logistic(output) * tanh(cell).
struct LstmGates {
  const float *input, *forget, *candidate, *output;
};
void lstm_cell(std::int64_t n, const LstmGates& gates, const float* last_cell, float* cell,
               float* out);

/// update = logistic(update); kept = logistic(reset) * state.
void gru_gates(std::int64_t n, const float* reset, const float* state, float* update, float* kept);

/// out = (1 - update) * tanh(candidate) + update * state.
void gru_cell(std::int64_t n, const float* update, const float* candidate, const float* state,
              float* out);

/// A GRU that is linear before the reset: as gru_cell() of logistic(update) and
/// candidate + logistic(reset) * recurrent.
struct LinearGruGates {
  const float *update, *reset, *candidate, *recurrent;
};
void linear_gru_cell(std::int64_t n, const LinearGruGates& gates, const float* state, float* out);

}  // namespace ctxgen::kernels
