#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/stop.h"
#include "kernel/widen.h"
#include "ops/math/sigmoid.h"

namespace ctxgen::cpu {
namespace {

enum class Cell { kRnn, kGru, kLstm };

using Activation = std::function<double(double)>;

struct RnnParams {
  Cell cell = Cell::kRnn;
  std::size_t directions = 1;
  bool first_is_reverse = false;
  std::int64_t hidden = 0;
  double clip = 0;                      // 0: none
  bool batch_first = false;             // layout=1
  bool linear_before_reset = false;     // GRU
  bool input_forget = false;            // LSTM
  std::vector<Activation> activations;  // f, g, h per direction
  [[nodiscard]] std::int64_t gates() const {
    return cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 3 : 4;
  }
};

Result<Activation> activation(std::string name, double alpha, double beta, bool given) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == "relu") return Activation([](double x) { return std::max(x, 0.0); });
  if (name == "tanh") return Activation([](double x) { return std::tanh(x); });
  if (name == "sigmoid") return Activation(sigmoid);
  if (name == "softsign") return Activation([](double x) { return x / (1 + std::abs(x)); });
  if (name == "softplus") return Activation([](double x) { return std::log1p(std::exp(x)); });
  if (name == "affine") return Activation([=](double x) { return alpha * x + beta; });
  if (name == "scaledtanh")
    return Activation([=](double x) { return alpha * std::tanh(beta * x); });
  const auto or_default = [given](double value, double otherwise) {
    return given ? value : otherwise;
  };
  if (name == "leakyrelu") {
    const double slope = or_default(alpha, 0.01);
    return Activation([slope](double x) { return x < 0 ? slope * x : x; });
  }
  if (name == "thresholdedrelu") {
    const double threshold = or_default(alpha, 1);
    return Activation([threshold](double x) { return x > threshold ? x : 0.0; });
  }
  if (name == "elu") {
    const double scale = or_default(alpha, 1);
    return Activation([scale](double x) { return x < 0 ? scale * std::expm1(x) : x; });
  }
  if (name == "hardsigmoid") {
    const double a = or_default(alpha, 0.2);
    const double b = or_default(beta, 0.5);
    return Activation([a, b](double x) { return std::clamp(a * x + b, 0.0, 1.0); });
  }
  return fail(ErrorCode::kUnsupported, "activation \"{}\"", name);
}

Result<std::vector<Activation>> activations_of(const Node& node, Cell cell,
                                               std::size_t directions) {
  std::vector<std::string> names = strings_or_empty(node, "activations");
  const std::size_t per = cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 2 : 3;
  if (names.empty())
    for (std::size_t d = 0; d < directions; ++d) {
      if (cell != Cell::kRnn) names.push_back("Sigmoid");
      names.push_back("Tanh");
      if (cell == Cell::kLstm) names.push_back("Tanh");
    }
  if (names.size() != per * directions)
    return fail(ErrorCode::kInvalidGraph, "{}: {} activations, expected {}", node.describe(),
                names.size(), per * directions);
  const auto alphas = floats_or_empty(node, "activation_alpha");
  const auto betas = floats_or_empty(node, "activation_beta");
  std::vector<Activation> result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool given = i < alphas.size();
    result.push_back(CTXGEN_TRY(activation(
        names[i], given ? alphas[i] : 1, i < betas.size() ? betas[i] : (given ? 0.5 : 0), given)));
  }
  return result;
}

Result<RnnParams> rnn_params(const Node& node, Cell cell) {
  RnnParams params;
  params.cell = cell;
  const std::string direction =
      CTXGEN_TRY(one_of(node, "direction", "forward", {"forward", "reverse", "bidirectional"}));
  params.directions = direction == "bidirectional" ? 2 : 1;
  params.first_is_reverse = direction == "reverse";
  params.hidden = node.int_or("hidden_size", 0);
  params.clip = node.float_or("clip", 0.0f);
  params.batch_first = node.int_or("layout", 0) != 0;
  params.linear_before_reset = node.int_or("linear_before_reset", 0) != 0;
  params.input_forget = node.int_or("input_forget", 0) != 0;
  params.activations = CTXGEN_TRY(activations_of(node, cell, params.directions));
  return params;
}

struct Sizes {
  std::int64_t times = 0, batch = 0, input = 0, hidden = 0, gates = 0;
};

// One direction's weights as doubles, columns of gates together: [k][gate * hidden + h].
struct Weights {
  ScratchVector<double> input, recurrent, input_bias, recurrent_bias, peephole;
};

template <class T>
ScratchVector<double> transposed(const T* from, std::int64_t rows, std::int64_t columns) {
  ScratchVector<double> result(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      result[static_cast<std::size_t>(c * rows + r)] = from[r * columns + c];
  return result;
}

template <class T>
ScratchVector<double> doubles_at(const Tensor* tensor, std::int64_t start, std::int64_t count) {
  if (tensor == nullptr) return ScratchVector<double>(static_cast<std::size_t>(count), 0.0);
  const T* from = data_of<T>(*tensor) + start;
  return {from, from + count};
}

// sums += x * weights, for one row x.
void add_product(std::span<double> sums, const double* x, std::span<const double> weights) {
  const std::size_t columns = sums.size();
  const std::size_t rows = columns == 0 ? 0 : weights.size() / columns;
  for (std::size_t k = 0; k < rows; ++k)
    for (std::size_t j = 0; j < columns; ++j) sums[j] += x[k] * weights[k * columns + j];
}

/// One direction of one batch entry.
class CellState {
 public:
  CellState(const RnnParams& params, const Weights& weights, const Sizes& sizes,
            std::size_t direction)
      : params_(params),
        weights_(weights),
        h_(static_cast<std::size_t>(sizes.hidden)),
        sums_(static_cast<std::size_t>(sizes.gates * sizes.hidden)),
        other_(sums_.size()) {
    const std::size_t per = params.activations.size() / params.directions;
    activations_ = std::span(params.activations).subspan(direction * per, per);
  }

  ScratchVector<double> hidden, cell;

  void step(const double* x) {
    std::ranges::copy(weights_.input_bias, sums_.begin());
    std::ranges::copy(weights_.recurrent_bias, other_.begin());
    add_product(sums_, x, weights_.input);
    add_product(other_, hidden.data(), weights_.recurrent);
    switch (params_.cell) {
      case Cell::kRnn: step_rnn(); break;
      case Cell::kGru: step_gru(); break;
      case Cell::kLstm: step_lstm(); break;
    }
  }

 private:
  [[nodiscard]] double clipped(double x) const {
    return params_.clip > 0 ? std::clamp(x, -params_.clip, params_.clip) : x;
  }
  [[nodiscard]] double sum(std::size_t gate, std::size_t j) const {
    return sums_[gate * h_ + j] + other_[gate * h_ + j];
  }
  [[nodiscard]] double peephole(std::size_t gate, std::size_t j) const {
    return weights_.peephole.empty() ? 0 : weights_.peephole[gate * h_ + j];
  }

  void step_rnn() {
    for (std::size_t j = 0; j < h_; ++j) hidden[j] = activations_[0](clipped(sum(0, j)));
  }

  // Gates z, r, h. Without linear_before_reset the reset gate works on the state before R.
  void step_gru() {
    ScratchVector<double> update(h_), candidate(h_), reset_hidden(h_);
    for (std::size_t j = 0; j < h_; ++j) {
      update[j] = activations_[0](clipped(sum(0, j)));
      const double reset = activations_[0](clipped(sum(1, j)));
      reset_hidden[j] = reset * hidden[j];
      candidate[j] = sums_[2 * h_ + j] + reset * other_[2 * h_ + j];
    }
    if (!params_.linear_before_reset) {
      std::ranges::copy(weights_.recurrent_bias, other_.begin());
      add_product(other_, reset_hidden.data(), weights_.recurrent);
      for (std::size_t j = 0; j < h_; ++j) candidate[j] = sum(2, j);
    }
    for (std::size_t j = 0; j < h_; ++j)
      hidden[j] = (1 - update[j]) * activations_[1](clipped(candidate[j])) + update[j] * hidden[j];
  }

  // Gates i, o, f, c; peepholes i, o, f.
  void step_lstm() {
    for (std::size_t j = 0; j < h_; ++j) {
      const double in = activations_[0](clipped(sum(0, j) + peephole(0, j) * cell[j]));
      const double forget = params_.input_forget
                                ? 1 - in
                                : activations_[0](clipped(sum(2, j) + peephole(2, j) * cell[j]));
      cell[j] = forget * cell[j] + in * activations_[1](clipped(sum(3, j)));
      const double out = activations_[0](clipped(sum(1, j) + peephole(1, j) * cell[j]));
      hidden[j] = out * activations_[2](cell[j]);
    }
  }

  const RnnParams& params_;
  const Weights& weights_;
  std::size_t h_;
  std::span<const Activation> activations_;
  ScratchVector<double> sums_, other_;
};

struct Inputs {
  const Tensor *x, *w, *r, *bias, *lengths, *initial_h, *initial_c, *peephole;
};

Result<Inputs> rnn_inputs(const KernelContext& context, const RnnParams& params) {
  const bool lstm = params.cell == Cell::kLstm;
  Inputs in{};
  in.x = CTXGEN_TRY(required(context, 0));
  in.w = CTXGEN_TRY(required(context, 1, in.x->type()));
  in.r = CTXGEN_TRY(required(context, 2, in.x->type()));
  in.bias = optional_input(context, 3);
  in.lengths = optional_input(context, 4);
  in.initial_h = optional_input(context, 5);
  in.initial_c = lstm ? optional_input(context, 6) : nullptr;
  in.peephole = lstm ? optional_input(context, 7) : nullptr;
  for (const Tensor* t : {in.bias, in.initial_h, in.initial_c, in.peephole})
    if (t != nullptr) CTXGEN_CHECK(same_type(*in.x, *t));
  return in;
}

Result<Sizes> check_sizes(const RnnParams& params, const Inputs& in) {
  CTXGEN_CHECK(expect_rank(*in.x, "X", 3, 3));
  CTXGEN_CHECK(expect_rank(*in.r, "R", 3, 3));
  const Dims& x = in.x->dims();
  Sizes sizes{.times = x[params.batch_first ? 1 : 0],
              .batch = x[params.batch_first ? 0 : 1],
              .input = x[2],
              .hidden = in.r->dims()[2],
              .gates = params.gates()};
  const auto d = static_cast<std::int64_t>(params.directions);
  const std::int64_t columns = sizes.gates * sizes.hidden;
  if (params.hidden != 0 && params.hidden != sizes.hidden)
    return fail(ErrorCode::kInvalidGraph, "hidden_size is {}, but R is {}", params.hidden,
                to_string(in.r->dims()));
  CTXGEN_CHECK(expect_dims(*in.w, "W", {d, columns, sizes.input}));
  CTXGEN_CHECK(expect_dims(*in.r, "R", {d, columns, sizes.hidden}));
  if (in.bias != nullptr) CTXGEN_CHECK(expect_dims(*in.bias, "B", {d, 2 * columns}));
  if (in.lengths != nullptr) {
    if (in.lengths->type() != DataType::kInt32)
      return fail(ErrorCode::kInvalidGraph, "sequence_lens is not int32");
    CTXGEN_CHECK(expect_dims(*in.lengths, "sequence_lens", {sizes.batch}));
  }
  const Dims state =
      params.batch_first ? Dims{sizes.batch, d, sizes.hidden} : Dims{d, sizes.batch, sizes.hidden};
  for (const Tensor* t : {in.initial_h, in.initial_c})
    if (t != nullptr) CTXGEN_CHECK(expect_dims(*t, "an initial state", state));
  if (in.peephole != nullptr) CTXGEN_CHECK(expect_dims(*in.peephole, "P", {d, 3 * sizes.hidden}));
  return sizes;
}

template <class T>
Weights weights_of(const Inputs& in, const Sizes& sizes, std::int64_t direction) {
  const std::int64_t columns = sizes.gates * sizes.hidden;
  Weights weights;
  weights.input =
      transposed(data_of<T>(*in.w) + direction * columns * sizes.input, columns, sizes.input);
  weights.recurrent =
      transposed(data_of<T>(*in.r) + direction * columns * sizes.hidden, columns, sizes.hidden);
  weights.input_bias = doubles_at<T>(in.bias, direction * 2 * columns, columns);
  weights.recurrent_bias = doubles_at<T>(in.bias, direction * 2 * columns + columns, columns);
  if (in.peephole != nullptr)
    weights.peephole = doubles_at<T>(in.peephole, direction * 3 * sizes.hidden, 3 * sizes.hidden);
  return weights;
}

template <class T>
struct Outputs {
  T *y = nullptr, *y_h = nullptr, *y_c = nullptr;
};

// Runs one direction of one batch entry and writes its part of the outputs.
template <class T>
void run_sequence(const RnnParams& params, const Inputs& in, const Sizes& sizes,
                  const Weights& weights, std::int64_t d, std::int64_t b, Outputs<T> out) {
  const auto directions = static_cast<std::int64_t>(params.directions);
  const std::int64_t state_at =
      (params.batch_first ? b * directions + d : d * sizes.batch + b) * sizes.hidden;
  CellState state(params, weights, sizes, static_cast<std::size_t>(d));
  state.hidden = doubles_at<T>(in.initial_h, in.initial_h == nullptr ? 0 : state_at, sizes.hidden);
  state.cell = doubles_at<T>(in.initial_c, in.initial_c == nullptr ? 0 : state_at, sizes.hidden);
  const std::int64_t length =
      in.lengths == nullptr ? sizes.times : data_of<std::int32_t>(*in.lengths)[b];
  const bool reverse = params.first_is_reverse || d == 1;
  for (std::int64_t step = 0; step < length && !run_stopped(); ++step) {
    const std::int64_t t = reverse ? length - 1 - step : step;
    const std::int64_t row = params.batch_first ? b * sizes.times + t : t * sizes.batch + b;
    const auto x = doubles_at<T>(in.x, row * sizes.input, sizes.input);
    state.step(x.data());
    if (out.y == nullptr) continue;
    const std::int64_t y_row = params.batch_first ? (b * sizes.times + t) * directions + d
                                                  : (t * directions + d) * sizes.batch + b;
    for (std::int64_t j = 0; j < sizes.hidden; ++j)
      out.y[y_row * sizes.hidden + j] = static_cast<T>(state.hidden[static_cast<std::size_t>(j)]);
  }
  for (std::int64_t j = 0; j < sizes.hidden; ++j) {
    const auto at = static_cast<std::size_t>(j);
    if (out.y_h != nullptr) out.y_h[state_at + j] = static_cast<T>(state.hidden[at]);
    if (out.y_c != nullptr) out.y_c[state_at + j] = static_cast<T>(state.cell[at]);
  }
}

template <class T>
Result<T*> wanted(KernelContext& context, std::size_t index, DataType type, const Dims& dims) {
  if (!context.output_wanted(index)) return nullptr;
  Tensor* tensor = CTXGEN_TRY(context.make_output(index, type, dims));
  std::ranges::fill(tensor->mutable_elements<T>(), T(0));  // past the end of short sequences
  return mutable_data_of<T>(*tensor);
}

template <class T>
Status run_typed(KernelContext& context, const RnnParams& params, const Inputs& in,
                 const Sizes& sizes) {
  const auto d = static_cast<std::int64_t>(params.directions);
  const Dims y = params.batch_first ? Dims{sizes.batch, sizes.times, d, sizes.hidden}
                                    : Dims{sizes.times, d, sizes.batch, sizes.hidden};
  const Dims state =
      params.batch_first ? Dims{sizes.batch, d, sizes.hidden} : Dims{d, sizes.batch, sizes.hidden};
  Outputs<T> out;
  out.y = CTXGEN_TRY(wanted<T>(context, 0, in.x->type(), y));
  out.y_h = CTXGEN_TRY(wanted<T>(context, 1, in.x->type(), state));
  if (params.cell == Cell::kLstm) out.y_c = CTXGEN_TRY(wanted<T>(context, 2, in.x->type(), state));
  for (std::int64_t i = 0; i < d; ++i) {
    const Weights weights = weights_of<T>(in, sizes, i);
    for (std::int64_t b = 0; b < sizes.batch; ++b)
      run_sequence<T>(params, in, sizes, weights, i, b, out);
  }
  return {};
}

Status run_rnn(KernelContext& context, const RnnParams& params) {
  const Inputs in = CTXGEN_TRY(rnn_inputs(context, params));
  const Sizes sizes = CTXGEN_TRY(check_sizes(params, in));
  if (in.lengths != nullptr)
    for (std::int32_t length : in.lengths->elements<std::int32_t>())
      if (length < 0 || length > sizes.times)
        return fail(ErrorCode::kInvalidGraph, "sequence length {} of {}", length, sizes.times);
  return dispatch(FloatTypes{}, in.x->type(),
                  [&]<class T>() { return run_typed<T>(context, params, in, sizes); });
}

template <Cell kCell>
KernelResult make(const Node& node) {
  const RnnParams params = CTXGEN_TRY(rnn_params(node, kCell));
  return widened_kernel([params](KernelContext& context) { return run_rnn(context, params); });
}

constexpr std::string_view kFloats = "float, double, float16, bfloat16";

constexpr OpRow kRnnRows[] = {
    {kOnnx, "GRU", 3, 22, make<Cell::kGru>, kFloats},
    {kOnnx, "LSTM", 1, 22, make<Cell::kLstm>, kFloats},
    {kOnnx, "RNN", 1, 22, make<Cell::kRnn>, kFloats},
};

}  // namespace

constinit const std::span<const OpRow> kRnnOps = kRnnRows;

}  // namespace ctxgen::cpu
