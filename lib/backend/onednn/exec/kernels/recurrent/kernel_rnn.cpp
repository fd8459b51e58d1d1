#include <algorithm>
#include <cstring>

#include "ctxgen/kernels/activate.h"
#include "ctxgen/kernels/recurrent.h"

#include "kernels/kernel_loops.h"
#include "kernels/recurrent/kernels_rnn.h"

namespace ctxgen::onednn {
namespace {

// Sizes that decide how work is cut. They follow from the shape alone, so that threads do not change it.
constexpr std::int64_t kRowsAtOnce = 96;     // of the product with the inputs
constexpr std::int64_t kFewRows = 2;         // their products read weights in the order of memory
constexpr std::int64_t kColumnsOfJob = 128;  // of a product with more rows
constexpr std::int64_t kStepsForPacking = 8;
constexpr std::int64_t kWeightsForPacking = 1
                                            << 19;   // from here on a step is worth several threads
constexpr std::int64_t kStepWorthThreads = 1 << 20;  // products of one step

/// What parallel_for() takes as elements: 8 products of a sum take as long as one element-wise step.
std::int64_t work_of_product(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  return work_of(work_of(rows, depth) / 8 + 1, columns);
}

/// A matrix [depth, gates, units] as products read it.
struct Weights {
  const float* plain;
  std::int64_t depth;
  float* panels = nullptr;  // [gates, panels of a gate, depth, panel_columns()], where it is packed
};

class RnnKernel final : public Kernel {
 public:
  explicit RnnKernel(const RnnShape& shape) : shape_(shape) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const std::int64_t matrix = shape_.gates() * shape_.units;
    const std::int64_t states = shape_.batch * shape_.units;
    const auto run_one = [&](std::int64_t d, Workers& by) {
      Direction one;
      auto next = [&, i = std::size_t{0}](std::int64_t per_direction) mutable {
        return reinterpret_cast<float*>(args[i++]) + d * per_direction;
      };
      one.x = next(0);
      const float* weights = next(shape_.inputs * matrix);
      const float* recurrent = next(shape_.units * matrix);
      one.bias = next(shape_.bias_rows() * shape_.units);
      one.y = next(shape_.units);
      one.state = next(states);
      if (shape_.cell == RnnCell::kLstm) one.cell = next(states);
      if (shape_.has_state) one.first_state = next(states);
      if (shape_.has_cell) one.first_cell = next(states);
      float* scratch = next(scratch_floats(shape_));
      one.sums = scratch;
      one.kept = one.sums + sum_floats(shape_);
      one.weights = {weights, shape_.inputs};
      one.recurrent = {recurrent, shape_.units};
      if (packs(shape_)) one.recurrent.panels = one.kept + kept_floats(shape_);
      one.backward = d == 1 || shape_.reversed;
      run_direction(one, by);
    };
    if (shape_.runs_apart()) {
      const std::int64_t work =
          work_of_product(shape_.steps * shape_.batch, shape_.inputs + shape_.units, 2 * matrix);
      parallel_for(workers, shape_.directions, work, [&](std::int64_t d) {
        OneThread alone;
        run_one(d, alone);
      });
      return {};
    }
    for (std::int64_t d = 0; d < shape_.directions; ++d) run_one(d, workers);
    return {};
  }

  static std::int64_t scratch_floats(const RnnShape& shape) {
    return sum_floats(shape) + kept_floats(shape) + (packs(shape) ? panel_floats(shape) : 0);
  }

 private:
  struct Direction {
    const float *x, *bias;
    Weights weights, recurrent;
    float *y, *state, *cell = nullptr;
    const float *first_state = nullptr, *first_cell = nullptr;
    float *sums, *kept;  // [steps at once, batch, gates, units], kept_floats()
    bool backward;
  };

  // Scratch of one direction, in floats; its parts begin at multiples of 64 bytes.

  static std::int64_t aligned(std::int64_t count) { return (count + 15) / 16 * 16; }
  static std::int64_t steps_at_once(const RnnShape& shape) {
    return std::clamp<std::int64_t>(kRowsAtOnce / shape.batch, 1, shape.steps);
  }
  static std::int64_t sum_floats(const RnnShape& shape) {
    return aligned(steps_at_once(shape) * shape.batch * shape.gates() * shape.units);
  }
  static std::int64_t kept_floats(const RnnShape& shape) {
    if (shape.cell == RnnCell::kGru) return aligned(shape.batch * shape.units);
    return shape.cell == RnnCell::kLinearGru ? aligned(shape.batch * 3 * shape.units) : 0;
  }
  static std::int64_t panels_of_gate(const RnnShape& shape) {
    return (shape.units + kernels::panel_columns() - 1) / kernels::panel_columns();
  }
  static std::int64_t panel_floats(const RnnShape& shape) {
    return shape.units * shape.gates() * panels_of_gate(shape) * kernels::panel_columns();
  }
  /// Whether the recurrent weights are packed, once for all steps. Panels that are mostly empty gain
  /// nothing, nor does packing for one row that one thread multiplies.
  static bool packs(const RnnShape& shape) {
    return shape.steps >= kStepsForPacking && shape.units * 2 >= kernels::panel_columns() &&
           (shape.batch > 1 ||
            work_of(shape.gates() * shape.units, shape.units) >= kWeightsForPacking);
  }

  void pack(const Weights& weights, Workers& workers) const {
    if (weights.panels == nullptr) return;
    const std::int64_t width = kernels::panel_columns(), per_gate = panels_of_gate(shape_);
    const std::int64_t row = shape_.gates() * shape_.units;
    const std::int64_t panels = shape_.gates() * per_gate;
    parallel_for(workers, panels, work_of(weights.depth, row), [&](std::int64_t i) {
      const std::int64_t unit = i % per_gate * width;
      kernels::pack_panel(weights.depth, std::min(width, shape_.units - unit),
                          weights.plain + i / per_gate * shape_.units + unit, row,
                          weights.panels + i * weights.depth * width);
    });
  }

  /// Rows of `gates` gates from `gate` on: c = start + a times their part of the weights.
  void multiply(const Weights& weights, kernels::Product p, std::int64_t gate, std::int64_t gates,
                Workers& workers) const {
    const std::int64_t columns = gates * shape_.units;
    const std::int64_t work = work_of_product(p.rows, weights.depth, columns);
    p.depth = weights.depth;
    if (weights.panels == nullptr) {  // the gates' columns follow each other, in long runs
      p.b_stride = shape_.gates() * shape_.units;
      p.b = weights.plain + gate * shape_.units;
      const std::int64_t width = p.rows <= kFewRows ? columns : kColumnsOfJob;
      parallel_for(workers, (columns + width - 1) / width, work, [&](std::int64_t job) {
        const std::int64_t first = job * width;
        multiply_part(p, p.b + first, first, std::min(width, columns - first));
      });
      return;
    }
    const std::int64_t width = kernels::panel_columns(), per_gate = panels_of_gate(shape_);
    p.b_stride = width;
    p.b = weights.panels + gate * per_gate * p.depth * width;
    parallel_for(workers, gates * per_gate, work, [&](std::int64_t panel) {
      const std::int64_t unit = panel % per_gate * width;
      multiply_part(p, p.b + panel * p.depth * width, panel / per_gate * shape_.units + unit,
                    std::min(width, shape_.units - unit));
    });
  }

  /// `columns` columns from `first` on, whose part of the weights is b.
  static void multiply_part(kernels::Product p, const float* b, std::int64_t first,
                            std::int64_t columns) {
    p.b = b;
    p.columns = columns;
    p.start += first;
    p.c += first;
    kernels::multiply(p);
  }

  void run_direction(const Direction& one, Workers& workers) const {
    const std::int64_t states = shape_.batch * shape_.units;
    pack(one.recurrent, workers);
    start(one.first_state, one.state, states);
    if (one.cell != nullptr) start(one.first_cell, one.cell, states);
    const std::int64_t at_once = steps_at_once(shape_);
    const float* state = one.state;
    std::int64_t state_stride = shape_.units;
    for (std::int64_t first = 0; first < shape_.steps; first += at_once) {
      const std::int64_t steps = std::min(at_once, shape_.steps - first);
      // In memory the steps of a part run forward, whatever their order.
      const std::int64_t begin = one.backward ? shape_.steps - first - steps : first;
      multiply_inputs(one, begin, steps, workers);
      for (std::int64_t i = 0; i < steps; ++i) {
        const std::int64_t step = one.backward ? steps - 1 - i : i;
        float* sums = one.sums + step * states * shape_.gates();
        float* y = one.y + (begin + step) * states * shape_.directions;
        run_step(one, sums, state, state_stride, y, workers);
        state = y;
        state_stride = shape_.directions * shape_.units;
      }
    }
    for (std::int64_t n = 0; n < shape_.batch; ++n)
      std::memcpy(one.state + n * shape_.units, state + n * state_stride,
                  static_cast<std::size_t>(shape_.units) * sizeof(float));
  }

  static void start(const float* given, float* state, std::int64_t count) {
    if (given != nullptr)
      std::memcpy(state, given, static_cast<std::size_t>(count) * sizeof(float));
    else
      std::fill_n(state, count, 0.0F);
  }

  void multiply_inputs(const Direction& one, std::int64_t begin, std::int64_t steps,
                       Workers& workers) const {
    const std::int64_t row = shape_.gates() * shape_.units;
    multiply(one.weights,
             {.rows = steps * shape_.batch,
              .a = one.x + begin * shape_.batch * shape_.inputs,
              .a_stride = shape_.inputs,
              .start = one.bias,
              .start_stride = 0,
              .c = one.sums,
              .c_stride = row},
             0, shape_.gates(), workers);
  }

  /// Adds the product of a state with the weights of `gates` gates from `gate` on to their sums.
  void multiply_state(const Direction& one, const float* state, std::int64_t stride, float* sums,
                      std::int64_t gate, std::int64_t gates, Workers& workers) const {
    const std::int64_t row = shape_.gates() * shape_.units;
    multiply(one.recurrent,
             {.rows = shape_.batch,
              .a = state,
              .a_stride = stride,
              .start = sums + gate * shape_.units,
              .start_stride = row,
              .c = sums + gate * shape_.units,
              .c_stride = row},
             gate, gates, workers);
  }

  /// `sums` [batch, gates, units]: products with the inputs, and the bias; y: rows of all directions.
  void run_step(const Direction& one, float* sums, const float* state, std::int64_t stride,
                float* y, Workers& workers) const {
    const std::int64_t units = shape_.units;
    float* gates = sums;
    if (shape_.cell == RnnCell::kGru) {
      multiply_state(one, state, stride, sums, 0, 2, workers);
      for_each_row(workers, [&](std::int64_t n) {
        float* row = sums + n * 3 * units;
        kernels::gru_gates(units, row + units, state + n * stride, row, one.kept + n * units);
      });
      multiply_state(one, one.kept, units, sums, 2, 1, workers);
    } else {
      if (shape_.cell == RnnCell::kLinearGru) gates = start_apart(one, sums);
      multiply_state(one, state, stride, gates, 0, shape_.gates(), workers);
    }
    for_each_row(workers, [&](std::int64_t n) {
      run_cell(one, n, sums + n * shape_.gates() * units, gates + n * shape_.gates() * units,
               state + n * stride, y + n * shape_.directions * units);
    });
  }

  /// Where the products with the state are summed of a GRU that is linear before the reset: the
  /// candidate's stay apart from those with the inputs, and have a bias of their own.
  float* start_apart(const Direction& one, const float* sums) const {
    const std::int64_t units = shape_.units;
    for (std::int64_t n = 0; n < shape_.batch; ++n) {
      float* row = one.kept + n * 3 * units;
      std::copy_n(sums + n * 3 * units, 2 * units, row);
      std::copy_n(one.bias + 3 * units, units, row + 2 * units);
    }
    return one.kept;
  }

  template <class Body>
  void for_each_row(Workers& workers, const Body& body) const {
    constexpr std::int64_t kWorkOfUnit = 4;  // a cell's functions, in element-wise steps
    parallel_for(workers, shape_.batch, shape_.batch * shape_.units * kWorkOfUnit, body);
  }

  /// `sums`: what start_apart() left where it was; `gates`: everything else.
  void run_cell(const Direction& one, std::int64_t n, const float* sums, const float* gates,
                const float* state, float* y) const {
    const std::int64_t units = shape_.units;
    switch (shape_.cell) {
      case RnnCell::kLstm: {
        float* cell = one.cell + n * units;
        return kernels::lstm_cell(
            units, {gates, gates + units, gates + 2 * units, gates + 3 * units}, cell, cell, y);
      }
      case RnnCell::kGru: return kernels::gru_cell(units, gates, gates + 2 * units, state, y);
      case RnnCell::kLinearGru:
        return kernels::linear_gru_cell(
            units, {gates, gates + units, sums + 2 * units, gates + 2 * units}, state, y);
      case RnnCell::kTanh: return kernels::activate(kernels::Activation::kTanh, 0, units, gates, y);
      case RnnCell::kRelu:
        for (std::int64_t i = 0; i < units; ++i) y[i] = gates[i] < 0.0F ? 0.0F : gates[i];
    }
  }

  RnnShape shape_;
};

}  // namespace

std::optional<RnnCell> rnn_cell(std::string_view word) {
  static constexpr std::pair<std::string_view, RnnCell> kWords[] = {
      {"lstm", RnnCell::kLstm},
      {"gru", RnnCell::kGru},
      {"lbr_gru", RnnCell::kLinearGru},
      {"tanh", RnnCell::kTanh},
      {"relu", RnnCell::kRelu}};
  for (const auto& [name, cell] : kWords)
    if (name == word) return cell;
  return std::nullopt;
}

std::int64_t RnnShape::gates() const {
  if (cell == RnnCell::kLstm) return 4;
  return cell == RnnCell::kGru || cell == RnnCell::kLinearGru ? 3 : 1;
}

std::int64_t RnnShape::bias_rows() const { return gates() + (cell == RnnCell::kLinearGru ? 1 : 0); }

bool RnnShape::runs_apart() const {
  return directions > 1 && work_of(work_of(batch, units) * gates(), units) < kStepWorthThreads;
}

std::uint64_t RnnShape::scratch_bytes() const {
  return static_cast<std::uint64_t>(directions * RnnKernel::scratch_floats(*this)) * sizeof(float);
}

std::shared_ptr<const Kernel> make_rnn_kernel(const RnnShape& shape) {
  return std::make_shared<RnnKernel>(shape);
}

}  // namespace ctxgen::onednn
