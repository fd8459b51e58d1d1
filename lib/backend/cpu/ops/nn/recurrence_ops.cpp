#include <algorithm>
#include <cmath>
#include <string>

#include "contrib_families.h"
#include "kernel/attributes.h"
#include "kernel/stop.h"
#include "kernel/widen.h"

// Operators that keep a state of fixed size from call to call: LinearAttention and CausalConvWithState
// of ONNX, and those of com.microsoft that they come from, which take more.

namespace ctxgen::cpu {
namespace {

bool is_onnx(const Node& node) { return node.domain.empty(); }

/// A float tensor that stands for output `index` of `type` until finish(), or for one that is not wanted.
class WideOutput {
 public:
  static Result<WideOutput> make(KernelContext& context, std::size_t index, DataType type,
                                 const Dims& dims) {
    WideOutput output;
    const bool wanted = index < context.output_count() && context.output_wanted(index);
    if (wanted) output.target_ = CTXGEN_TRY(context.make_output(index, type, dims));
    if (!wanted || type != DataType::kFloat)
      output.wide_ = CTXGEN_TRY(context.make_tensor(DataType::kFloat, dims));
    return output;
  }
  [[nodiscard]] float* data() { return mutable_data_of<float>(wide_.defined() ? wide_ : *target_); }
  void finish() {
    if (wide_.defined() && target_ != nullptr) narrow_into(wide_, *target_);
  }

 private:
  Tensor* target_ = nullptr;
  Tensor wide_;
};

/// Undefined where the input is absent.
Result<Tensor> wide_input(KernelContext& context, std::size_t index) {
  const Tensor* tensor = optional_input(context, index);
  return tensor == nullptr ? Tensor() : widened(context, *tensor);
}
const float* floats_or_null(const Tensor& tensor) {
  return tensor.defined() ? data_of<float>(tensor) : nullptr;
}

// ---- LinearAttention ----

struct LinearParams {
  std::int64_t q_heads = 0, states = 0;  // states: heads of values
  double scale = 0;                      // 0: the usual one
  bool decays = false, corrects = false;
  bool onnx = false;
};

/// Sizes of a call. Heads of queries, keys and states divide the largest of their numbers.
struct LinearSizes {
  std::int64_t batch, steps, q_heads, k_heads, states, k, v, outputs;
  std::int64_t decays_of_head = 0, betas = 0;
};

Status check_gate(const Tensor& gate, std::string_view what, const LinearSizes& s, std::int64_t one,
                  std::int64_t other) {
  CTXGEN_CHECK(expect_rank(gate, what, 3, 3));
  if (gate.dims()[2] != one && gate.dims()[2] != other)
    return fail(ErrorCode::kInvalidGraph, "{} has {} in the last dim, expected {} or {}", what,
                gate.dims()[2], one, other);
  return expect_dims(gate, what, {s.batch, s.steps, gate.dims()[2]});
}

Result<LinearSizes> linear_sizes(const LinearParams& p, const Tensor& query, const Tensor& key,
                                 const Tensor& value, const Tensor& decay, const Tensor& beta) {
  CTXGEN_CHECK(expect_rank(query, "query", 3, 3));
  CTXGEN_CHECK(expect_rank(key, "key", 3, 3));
  CTXGEN_CHECK(expect_rank(value, "value", 3, 3));
  LinearSizes s{.batch = query.dims()[0],
                .steps = query.dims()[1],
                .q_heads = p.q_heads,
                .k_heads = p.states,
                .states = p.states,
                .k = query.dims()[2] / p.q_heads,
                .v = value.dims()[2] / p.states,
                .outputs = std::max(p.q_heads, p.states)};
  if (!p.onnx && s.k > 0) s.k_heads = key.dims()[2] / s.k;
  CTXGEN_CHECK(expect_dims(query, "query", {s.batch, s.steps, s.q_heads * s.k}));
  CTXGEN_CHECK(expect_dims(key, "key", {s.batch, s.steps, s.k_heads * s.k}));
  CTXGEN_CHECK(expect_dims(value, "value", {s.batch, s.steps, s.states * s.v}));
  if (s.k_heads < 1 || s.states % s.k_heads != 0)
    return fail(ErrorCode::kInvalidGraph, "{} heads of keys do not divide {} of values", s.k_heads,
                s.states);
  if (decay.defined()) {
    CTXGEN_CHECK(check_gate(decay, "decay", s, s.states, s.states * s.k));
    s.decays_of_head = decay.dims()[2] / s.states;
  }
  if (beta.defined()) {
    CTXGEN_CHECK(check_gate(beta, "beta", s, s.states, 1));
    s.betas = beta.dims()[2];
  }
  return s;
}

struct LinearData {
  const float *query, *key, *value, *decay, *beta;
  float* output;
};

/// One state [k, v] of the batch's element over all steps; `read` is room for a row of it.
void run_state(const LinearSizes& s, const LinearData& data, double scale, std::int64_t batch,
               std::int64_t head, std::span<double> state, std::span<double> read) {
  const auto row = [&](std::int64_t i) { return state.data() + i * s.v; };
  const std::int64_t readers = s.outputs / s.states;  // outputs that look at this state
  for (std::int64_t t = 0; t < s.steps && !run_stopped(); ++t) {
    const std::int64_t step = batch * s.steps + t;
    const float* key = data.key + (step * s.k_heads + head / (s.states / s.k_heads)) * s.k;
    const float* value = data.value + (step * s.states + head) * s.v;
    if (data.decay != nullptr) {
      const float* decay = data.decay + (step * s.states + head) * s.decays_of_head;
      for (std::int64_t i = 0; i < s.k; ++i) {
        const double factor = std::exp(static_cast<double>(decay[s.decays_of_head == 1 ? 0 : i]));
        for (std::int64_t j = 0; j < s.v; ++j) row(i)[j] *= factor;
      }
    }
    std::copy_n(value, s.v, read.begin());
    if (data.beta != nullptr) {
      const double beta = data.beta[step * s.betas + (s.betas == 1 ? 0 : head)];
      for (std::int64_t i = 0; i < s.k; ++i)
        for (std::int64_t j = 0; j < s.v; ++j)
          read[static_cast<std::size_t>(j)] -= row(i)[j] * static_cast<double>(key[i]);
      for (double& each : read) each *= beta;
    }
    for (std::int64_t i = 0; i < s.k; ++i)
      for (std::int64_t j = 0; j < s.v; ++j)
        row(i)[j] += static_cast<double>(key[i]) * read[static_cast<std::size_t>(j)];
    for (std::int64_t o = head * readers; o < (head + 1) * readers; ++o) {
      const float* query = data.query + (step * s.q_heads + o / (s.outputs / s.q_heads)) * s.k;
      std::ranges::fill(read, 0.0);
      for (std::int64_t i = 0; i < s.k; ++i)
        for (std::int64_t j = 0; j < s.v; ++j)
          read[static_cast<std::size_t>(j)] += row(i)[j] * static_cast<double>(query[i]);
      float* output = data.output + (step * s.outputs + o) * s.v;
      for (std::int64_t j = 0; j < s.v; ++j)
        output[j] = static_cast<float>(scale * read[static_cast<std::size_t>(j)]);
    }
  }
}

Status run_linear_attention(KernelContext& context, const LinearParams& p) {
  const Tensor* first = CTXGEN_TRY(required(context, 0));
  (void)CTXGEN_TRY(required(context, 1, first->type()));
  (void)CTXGEN_TRY(required(context, 2, first->type()));
  const Tensor query = CTXGEN_TRY(wide_input(context, 0));
  const Tensor key = CTXGEN_TRY(wide_input(context, 1));
  const Tensor value = CTXGEN_TRY(wide_input(context, 2));
  const Tensor past = CTXGEN_TRY(wide_input(context, 3));
  Tensor decay = CTXGEN_TRY(wide_input(context, 4));
  Tensor beta = CTXGEN_TRY(wide_input(context, 5));
  if ((p.decays && !decay.defined()) || (p.corrects && !beta.defined()))
    return fail(ErrorCode::kInvalidGraph, "the update rule needs {}",
                p.decays && !decay.defined() ? "decay" : "beta");
  if (p.onnx && ((!p.decays && decay.defined()) || (!p.corrects && beta.defined())))
    return fail(ErrorCode::kInvalidGraph, "the update rule has no {}",
                !p.decays && decay.defined() ? "decay" : "beta");
  if (!p.decays) decay = {};
  if (!p.corrects) beta = {};
  const LinearSizes s = CTXGEN_TRY(linear_sizes(p, query, key, value, decay, beta));
  const Dims state_dims{s.batch, s.states, s.k, s.v};
  if (past.defined()) CTXGEN_CHECK(expect_dims(past, "past_state", state_dims));
  auto output =
      CTXGEN_TRY(WideOutput::make(context, 0, first->type(), {s.batch, s.steps, s.outputs * s.v}));
  auto present = CTXGEN_TRY(WideOutput::make(
      context, 1, past.defined() ? context.input(3)->type() : first->type(), state_dims));
  const LinearData data{.query = data_of<float>(query),
                        .key = data_of<float>(key),
                        .value = data_of<float>(value),
                        .decay = floats_or_null(decay),
                        .beta = floats_or_null(beta),
                        .output = output.data()};
  const double scale = p.scale != 0 ? p.scale : 1 / std::sqrt(static_cast<double>(s.k));
  const std::int64_t size = s.k * s.v;
  ScratchVector<double> state(static_cast<std::size_t>(size));
  ScratchVector<double> read(static_cast<std::size_t>(s.v));
  for (std::int64_t i = 0; i < s.batch * s.states && !run_stopped(); ++i) {
    if (past.defined())
      std::copy_n(data_of<float>(past) + i * size, size, state.begin());
    else
      std::ranges::fill(state, 0.0);
    run_state(s, data, scale, i / s.states, i % s.states, state, read);
    std::ranges::transform(state, present.data() + i * size,
                           [](double x) { return static_cast<float>(x); });
  }
  output.finish();
  present.finish();
  return {};
}

KernelResult make_linear_attention(const Node& node) {
  const std::string rule = CTXGEN_TRY(
      one_of(node, "update_rule", "gated_delta", {"linear", "gated", "delta", "gated_delta"}));
  const LinearParams params{.q_heads = node.int_or("q_num_heads", 0),
                            .states = node.int_or("kv_num_heads", 0),
                            .scale = node.float_or("scale", 0.0F),
                            .decays = rule.starts_with("gated"),
                            .corrects = rule.ends_with("delta"),
                            .onnx = is_onnx(node)};
  constexpr std::int64_t kMostHeads = 1 << 20;
  const std::int64_t least = std::min(params.q_heads, params.states);
  const std::int64_t most = std::max(params.q_heads, params.states);
  if (least < 1 || most > kMostHeads || most % least != 0 ||
      (params.onnx && params.q_heads < params.states))
    return fail(ErrorCode::kInvalidGraph, "{}: {} heads of queries, {} of keys and values",
                node.describe(), params.q_heads, params.states);
  if (node.int_or("state_window", 0) != 0)
    return fail(ErrorCode::kUnsupported, "{}: attribute state_window", node.describe());
  return kernel([params](KernelContext& context) { return run_linear_attention(context, params); });
}

// ---- CausalConvWithState ----

struct CausalParams {
  bool silu = false;
  bool channels_last = false;
  std::int64_t dilation = 1;
};

/// Where element (batch, position, channel) of a dense tensor is.
struct CausalLayout {
  std::int64_t batch, position, channel;  // strides
  static CausalLayout of(bool channels_last, std::int64_t channels, std::int64_t length) {
    return channels_last ? CausalLayout{channels * length, channels, 1}
                         : CausalLayout{channels * length, 1, length};
  }
  [[nodiscard]] std::int64_t at(std::int64_t n, std::int64_t p, std::int64_t c) const {
    return n * batch + p * position + c * channel;
  }
};

struct CausalSizes {
  std::int64_t batch, channels, length, taps, before;
};

Result<CausalSizes> causal_sizes(const CausalParams& p, const Tensor& input,
                                 const Tensor& weights) {
  CTXGEN_CHECK(expect_rank(input, "input", 3, p.channels_last ? kMaxRank : 3));
  CTXGEN_CHECK(expect_rank(weights, "weight", 3, 3));
  CausalSizes s{.batch = input.dims()[0],
                .channels = input.dims()[1],
                .length = input.dims()[2],
                .taps = weights.dims()[2],
                .before = 0};
  if (p.channels_last) {
    s.length = input.dims()[1];
    s.channels = product(input.dims(), 2, input.rank());
  }
  CTXGEN_CHECK(expect_dims(weights, "weight", {s.channels, 1, s.taps}));
  constexpr std::int64_t kMostBefore = std::int64_t{1} << 40;
  if (s.taps < 1 || (s.taps > 1 && p.dilation > kMostBefore / s.taps))
    return fail(ErrorCode::kInvalidGraph, "{} taps, dilation {}", s.taps, p.dilation);
  s.before = (s.taps - 1) * p.dilation;
  return s;
}

Status run_causal_conv(KernelContext& context, const CausalParams& p) {
  const Tensor* first = CTXGEN_TRY(required(context, 0));
  (void)CTXGEN_TRY(required(context, 1, first->type()));
  const Tensor input = CTXGEN_TRY(wide_input(context, 0));
  const Tensor weights = CTXGEN_TRY(wide_input(context, 1));
  const Tensor bias = CTXGEN_TRY(wide_input(context, 2));
  const Tensor past = CTXGEN_TRY(wide_input(context, 3));
  const CausalSizes s = CTXGEN_TRY(causal_sizes(p, input, weights));
  Dims state_dims = input.dims();
  state_dims[p.channels_last ? 1 : 2] = s.before;
  if (bias.defined()) CTXGEN_CHECK(expect_dims(bias, "bias", {s.channels}));
  if (past.defined()) CTXGEN_CHECK(expect_dims(past, "past_state", state_dims));
  auto output = CTXGEN_TRY(WideOutput::make(context, 0, first->type(), input.dims()));
  auto present = CTXGEN_TRY(WideOutput::make(context, 1, first->type(), state_dims));
  const auto of_input = CausalLayout::of(p.channels_last, s.channels, s.length);
  const auto of_state = CausalLayout::of(p.channels_last, s.channels, s.before);
  for (std::int64_t row = 0; row < s.batch * s.channels && !run_stopped(); ++row) {
    const std::int64_t n = row / s.channels, c = row % s.channels;
    const auto at = [&](std::int64_t position) -> float {  // negative: before this call
      if (position >= 0) return data_of<float>(input)[of_input.at(n, position, c)];
      return past.defined() ? data_of<float>(past)[of_state.at(n, s.before + position, c)] : 0.0F;
    };
    for (std::int64_t i = 0; i < s.length; ++i) {
      double sum = bias.defined() ? static_cast<double>(data_of<float>(bias)[c]) : 0.0;
      for (std::int64_t k = 0; k < s.taps; ++k)
        sum += static_cast<double>(data_of<float>(weights)[c * s.taps + k]) *
               static_cast<double>(at(i - s.before + k * p.dilation));
      if (p.silu) sum /= 1 + std::exp(-sum);
      output.data()[of_input.at(n, i, c)] = static_cast<float>(sum);
    }
    for (std::int64_t i = 0; i < s.before; ++i)
      present.data()[of_state.at(n, i, c)] = at(s.length - s.before + i);
  }
  output.finish();
  present.finish();
  return {};
}

KernelResult make_causal_conv(const Node& node) {
  const std::string activation =
      CTXGEN_TRY(one_of(node, "activation", "none", {"none", "silu", "swish"}));
  CausalParams params{.silu = activation != "none"};
  if (!is_onnx(node)) {
    params.channels_last = node.int_or("channels_last", 0) != 0;
    params.dilation = node.int_or("dilation", 1);
    if (params.dilation < 1)
      return fail(ErrorCode::kInvalidGraph, "{}: dilation {}", node.describe(), params.dilation);
    if (node.int_or("ndim", 1) != 1 || node.int_or("state_window", 0) != 0)
      return fail(ErrorCode::kUnsupported, "{}: attribute {}", node.describe(),
                  node.int_or("ndim", 1) != 1 ? "ndim" : "state_window");
  }
  return kernel([params](KernelContext& context) { return run_causal_conv(context, params); });
}

constexpr std::string_view kShort = "float, float16, bfloat16";

constexpr OpRow kRecurrenceRows[] = {
    {kOnnx, "CausalConvWithState", 27, 27, make_causal_conv, kShort},
    {kOnnx, "LinearAttention", 27, 27, make_linear_attention, kShort},
    {kMicrosoft, "CausalConvWithState", 1, 1, make_causal_conv,
     "float, float16, bfloat16; ndim 1; no state_window"},
    {kMicrosoft, "LinearAttention", 1, 1, make_linear_attention,
     "float, float16, bfloat16; no state_window"},
};

}  // namespace

constinit const std::span<const OpRow> kRecurrenceOps = kRecurrenceRows;

}  // namespace ctxgen::cpu
