#include <algorithm>
#include <cmath>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/stop.h"
#include "ops/math/sigmoid.h"
#include "ops/quantized/quantized_tensors.h"

// com.microsoft: DynamicQuantizeLSTM, as ONNX Runtime's quantize_dynamic writes an LSTM. The source is rounded to
// bytes as a whole, the states of all sequences together in each step.

namespace ctxgen::cpu {
namespace {

enum Input : std::size_t {
  kSource,
  kWeights,
  kRecurrent,
  kGateBias,
  kLengths,
  kFirstState,
  kFirstCell,
  kPeepholes,
  kWeightScale,
  kWeightZero,
  kRecurrentScale,
  kRecurrentZero
};

constexpr std::int64_t kGates = 4;  // input, output, forget, candidate

struct LstmParams {
  std::int64_t directions = 1, hidden = 0;
  bool reversed = false;
};

Result<LstmParams> lstm_params(const Node& node) {
  const std::string direction =
      CTXGEN_TRY(one_of(node, "direction", "forward", {"forward", "reverse", "bidirectional"}));
  const LstmParams params{.directions = direction == "bidirectional" ? 2 : 1,
                          .hidden = node.int_or("hidden_size", 0),
                          .reversed = direction == "reverse"};
  static constexpr std::string_view kDefaults[] = {"Sigmoid", "Tanh", "Tanh"};
  const auto names = strings_or_empty(node, "activations");
  if (!names.empty() && std::ssize(names) != 3 * params.directions)
    return fail(ErrorCode::kInvalidGraph, "{}: {} activations", node.describe(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] != kDefaults[i % 3])
      return fail(ErrorCode::kUnsupported, "{}: activation \"{}\"", node.describe(), names[i]);
  if (node.float_or("clip", 0.0F) != 0 || node.int_or("input_forget", 0) != 0)
    return fail(ErrorCode::kUnsupported, "{}: clip or input_forget", node.describe());
  if (node.input(kPeepholes).valid())
    return fail(ErrorCode::kUnsupported, "{}: peepholes", node.describe());
  return params;
}

/// Rows of bytes less their zero point, and the scale.
struct Rounded {
  ScratchVector<std::int32_t> steps;
  float scale = 1;
};

/// As DynamicQuantizeLinear.
void round_to_bytes(std::span<const float> x, Rounded& to) {
  const auto [scale, zero] = byte_range_of(x);
  to.scale = scale;
  to.steps.resize(x.size());
  std::ranges::transform(x, to.steps.begin(), [scale, zero](float value) {
    const float steps = value / scale;
    return requantized<std::uint8_t>(std::isnan(steps) ? 0.0F : steps, zero) - zero;
  });
}

/// The weights [D, K, 4 H] of one direction, less their zero points, and their scales.
struct ByteMatrix {
  std::int64_t depth = 0, columns = 0;
  ScratchVector<std::int32_t> values;  // [K, 4 H]
  ScratchVector<float> scales;         // one, or 4 H
};

/// A tensor of [D] or [D, columns], of which a direction has one number or a row.
Result<std::int64_t> per_direction(const Tensor& tensor, std::string_view what,
                                   std::int64_t directions, std::int64_t columns) {
  const bool one = tensor.rank() == 1 && tensor.dims()[0] == directions;
  if (!one && tensor.dims() != Dims{directions, columns})
    return fail(ErrorCode::kInvalidGraph, "{} is {}, expected {} or {}", what,
                to_string(tensor.dims()), to_string(Dims{directions}),
                to_string(Dims{directions, columns}));
  return one ? 1 : columns;
}

Result<ByteMatrix> matrix_of(const KernelContext& context, std::size_t values, std::size_t scale,
                             std::size_t zero, const LstmParams& params, std::int64_t depth,
                             std::int64_t direction) {
  const Tensor* stored = CTXGEN_TRY(required(context, values));
  const Tensor* scales = CTXGEN_TRY(required(context, scale, DataType::kFloat));
  const Tensor* zeros = CTXGEN_TRY(required(context, zero, stored->type()));
  ByteMatrix matrix{.depth = depth, .columns = kGates * params.hidden, .values = {}, .scales = {}};
  CTXGEN_CHECK(expect_dims(*stored, "weights", {params.directions, depth, matrix.columns}));
  const std::int64_t of_scales =
      CTXGEN_TRY(per_direction(*scales, "a scale", params.directions, matrix.columns));
  const std::int64_t of_zeros =
      CTXGEN_TRY(per_direction(*zeros, "a zero point", params.directions, matrix.columns));
  const float* first = data_of<float>(*scales) + direction * of_scales;
  matrix.scales.assign(first, first + of_scales);
  matrix.values.resize(static_cast<std::size_t>(depth * matrix.columns));
  CTXGEN_CHECK(dispatch(ByteTypes{}, stored->type(), [&]<class T>() -> Status {
    const T* from = data_of<T>(*stored) + direction * depth * matrix.columns;
    const T* less = data_of<T>(*zeros) + direction * of_zeros;
    for (std::int64_t i = 0; i < depth * matrix.columns; ++i)
      matrix.values[static_cast<std::size_t>(i)] =
          std::int32_t{from[i]} - std::int32_t{less[of_zeros == 1 ? 0 : i % matrix.columns]};
    return {};
  }));
  return matrix;
}

/// Each row of `a` from `first` on times the matrix, as real numbers.
void multiply_bytes(const Rounded& a, std::int64_t first, std::int64_t rows, const ByteMatrix& by,
                    std::span<float> out) {
  ScratchVector<std::int64_t> sums(static_cast<std::size_t>(by.columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::ranges::fill(sums, 0);
    for (std::int64_t k = 0; k < by.depth; ++k) {
      const std::int64_t x = a.steps[static_cast<std::size_t>((first + row) * by.depth + k)];
      const std::int32_t* line = by.values.data() + k * by.columns;
      for (std::int64_t j = 0; j < by.columns; ++j)
        sums[static_cast<std::size_t>(j)] += x * line[j];
    }
    for (std::int64_t j = 0; j < by.columns; ++j) {
      const float scale =
          a.scale * by.scales[by.scales.size() == 1 ? 0 : static_cast<std::size_t>(j)];
      out[static_cast<std::size_t>(row * by.columns + j)] =
          static_cast<float>(sums[static_cast<std::size_t>(j)]) * scale;
    }
  }
}

struct Layer {
  const Tensor *x, *bias, *first_state, *first_cell;
  std::int64_t steps = 0, batch = 0, inputs = 0;
};

Result<Layer> layer_of(const KernelContext& context, const LstmParams& params) {
  Layer layer{.x = CTXGEN_TRY(required(context, kSource, DataType::kFloat)),
              .bias = optional_input(context, kGateBias),
              .first_state = optional_input(context, kFirstState),
              .first_cell = optional_input(context, kFirstCell)};
  CTXGEN_CHECK(expect_rank(*layer.x, "X", 3, 3));
  layer.steps = layer.x->dims()[0];
  layer.batch = layer.x->dims()[1];
  layer.inputs = layer.x->dims()[2];
  for (const Tensor* t : {layer.bias, layer.first_state, layer.first_cell})
    if (t != nullptr) CTXGEN_CHECK(same_type(*layer.x, *t));
  if (layer.bias != nullptr)
    CTXGEN_CHECK(expect_dims(*layer.bias, "B", {params.directions, 2 * kGates * params.hidden}));
  for (const Tensor* t : {layer.first_state, layer.first_cell})
    if (t != nullptr)
      CTXGEN_CHECK(
          expect_dims(*t, "an initial state", {params.directions, layer.batch, params.hidden}));
  const Tensor* lengths = optional_input(context, kLengths);
  if (lengths == nullptr) return layer;
  if (lengths->type() != DataType::kInt32)
    return fail(ErrorCode::kInvalidGraph, "sequence_lens is not int32");
  CTXGEN_CHECK(expect_dims(*lengths, "sequence_lens", {layer.batch}));
  for (const std::int32_t length : lengths->elements<std::int32_t>())
    if (length != layer.steps)
      return fail(ErrorCode::kUnsupported, "sequence length {} of {}", length, layer.steps);
  return layer;
}

/// All steps of a direction.
class Direction {
 public:
  Direction(const LstmParams& params, const Layer& layer, std::int64_t d)
      : params_(params), layer_(layer), d_(d) {
    const std::int64_t count = layer.batch * params.hidden;
    const auto state = [&](const Tensor* first) {
      if (first == nullptr) return ScratchVector<float>(static_cast<std::size_t>(count), 0.0F);
      const float* from = data_of<float>(*first) + d * count;
      return ScratchVector<float>(from, from + count);
    };
    hidden = state(layer.first_state);
    cell = state(layer.first_cell);
    bias_.resize(static_cast<std::size_t>(kGates * params.hidden));
    if (layer.bias == nullptr) return;
    const float* from = data_of<float>(*layer.bias) + 2 * d * std::ssize(bias_);
    for (std::size_t i = 0; i < bias_.size(); ++i) bias_[i] = from[i] + from[i + bias_.size()];
  }

  ScratchVector<float> hidden, cell;  // [batch, hidden]

  void run(const Rounded& x, const ByteMatrix& weights, const ByteMatrix& recurrent, float* y) {
    const std::int64_t columns = kGates * params_.hidden;
    ScratchVector<float> sums(static_cast<std::size_t>(layer_.batch * columns)), more(sums.size());
    Rounded state;
    for (std::int64_t i = 0; i < layer_.steps && !run_stopped(); ++i) {
      const std::int64_t t = params_.reversed || d_ == 1 ? layer_.steps - 1 - i : i;
      multiply_bytes(x, t * layer_.batch, layer_.batch, weights, sums);
      round_to_bytes(hidden, state);
      multiply_bytes(state, 0, layer_.batch, recurrent, more);
      for (std::size_t j = 0; j < sums.size(); ++j)
        sums[j] = sums[j] + more[j] + bias_[j % bias_.size()];
      for (std::int64_t n = 0; n < layer_.batch; ++n) step(n, sums.data() + n * columns);
      if (y != nullptr)
        std::ranges::copy(hidden, y + (t * params_.directions + d_) * std::ssize(hidden));
    }
  }

 private:
  void step(std::int64_t n, const float* gates) {
    const std::int64_t units = params_.hidden;
    for (std::int64_t j = 0; j < units; ++j) {
      float& c = cell[static_cast<std::size_t>(n * units + j)];
      const double next = sigmoid(gates[2 * units + j]) * double{c} +
                          sigmoid(gates[j]) * std::tanh(double{gates[3 * units + j]});
      c = static_cast<float>(next);
      hidden[static_cast<std::size_t>(n * units + j)] =
          static_cast<float>(sigmoid(gates[units + j]) * std::tanh(next));
    }
  }

  const LstmParams& params_;
  const Layer& layer_;
  std::int64_t d_;
  ScratchVector<float> bias_;
};

Status run_lstm(KernelContext& context, LstmParams params) {
  const Tensor* recurrent = CTXGEN_TRY(required(context, kRecurrent));
  CTXGEN_CHECK(expect_rank(*recurrent, "R", 3, 3));
  const std::int64_t units = recurrent->dims()[1];
  if (params.hidden != 0 && params.hidden != units)
    return fail(ErrorCode::kInvalidGraph, "hidden_size is {}, but R is {}", params.hidden,
                to_string(recurrent->dims()));
  params.hidden = units;
  const Layer layer = CTXGEN_TRY(layer_of(context, params));
  const Dims state{params.directions, layer.batch, units};
  const Dims outputs[] = {{layer.steps, params.directions, layer.batch, units}, state, state};
  float* to[3] = {};
  for (std::size_t i = 0; i < 3; ++i)
    if (context.output_wanted(i))
      to[i] =
          mutable_data_of<float>(*CTXGEN_TRY(context.make_output(i, DataType::kFloat, outputs[i])));
  Rounded x;
  round_to_bytes(layer.x->elements<float>(), x);
  for (std::int64_t d = 0; d < params.directions; ++d) {
    const ByteMatrix weights = CTXGEN_TRY(
        matrix_of(context, kWeights, kWeightScale, kWeightZero, params, layer.inputs, d));
    const ByteMatrix by_state = CTXGEN_TRY(
        matrix_of(context, kRecurrent, kRecurrentScale, kRecurrentZero, params, units, d));
    Direction one(params, layer, d);
    one.run(x, weights, by_state, to[0]);
    const std::int64_t at = d * layer.batch * units;
    if (to[1] != nullptr) std::ranges::copy(one.hidden, to[1] + at);
    if (to[2] != nullptr) std::ranges::copy(one.cell, to[2] + at);
  }
  return {};
}

KernelResult make_dynamic_lstm(const Node& node) {
  const LstmParams params = CTXGEN_TRY(lstm_params(node));
  return kernel([params](KernelContext& context) { return run_lstm(context, params); });
}

constexpr OpRow kDynamicLstmRows[] = {
    {kMicrosoft, "DynamicQuantizeLSTM", 1, 1, make_dynamic_lstm,
     "float; W and R int8 or uint8; every sequence whole; default activations; no clip, no peepholes"},
};

}  // namespace

constinit const std::span<const OpRow> kDynamicLstmOps = kDynamicLstmRows;

}  // namespace ctxgen::cpu
