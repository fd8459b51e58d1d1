#include <algorithm>
#include <vector>

#include "ctxgen/kernels/causal_conv.h"
#include "ctxgen/kernels/linear_attention.h"

#include "kernels_bench.h"

// Operators that keep a state. An element of linear attention is one of a state in one step; its bytes are the states
// before and after. oneDNN has neither: "parts" is what it would do, a product of each head's key and query
// with its state for each step, without what a step adds.
namespace ctxgen::bench {
namespace {

struct Heads {
  std::int64_t steps, heads, size;
  explicit Heads(const benchmark::State& sizes)
      : steps(sizes.range(0)), heads(sizes.range(1)), size(sizes.range(2)) {}

  Floats q = numbers(steps * heads * size), k = numbers(steps * heads * size, 0.05F),
         v = numbers(steps * heads * size);
  Floats decay = Floats(static_cast<std::size_t>(steps * heads), 0.9F);
  Floats rate = Floats(static_cast<std::size_t>(steps * heads), 0.5F);
  Floats past = numbers(heads * size * size), present = past, out = q;

  void report_to(benchmark::State& state) const {
    report(state, steps * heads * size * size, 8 * heads * size * size);
  }
};

void own_linear(benchmark::State& state) {
  Heads h(state);
  const kernels::LinearAttention a{.images = 1,
                                   .steps = h.steps,
                                   .q_heads = h.heads,
                                   .k_heads = h.heads,
                                   .states = h.heads,
                                   .size = h.size,
                                   .width = h.size,
                                   .q = h.q.data(),
                                   .k = h.k.data(),
                                   .v = h.v.data(),
                                   .past = h.past.data(),
                                   .decay = h.decay.data(),
                                   .decays = 1,
                                   .rate = h.rate.data(),
                                   .rates = h.heads,
                                   .scale = 0.1F,
                                   .out = h.out.data(),
                                   .present = h.present.data()};
  const std::int64_t columns = kernels::linear_attention_columns();
  for (auto _ : state) {
    for (std::int64_t head = 0; head < h.heads; ++head)
      for (std::int64_t first = 0; first < h.size; first += columns)
        kernels::attend_linearly(a, 0, head, first, std::min(columns, h.size - first));
    benchmark::ClobberMemory();
  }
  h.report_to(state);
}

void onednn_parts(benchmark::State& state) {
  Heads h(state);
  using tag = memory::format_tag;
  const auto md = [](const memory::dims& dims) {
    return memory::desc(dims, memory::data_type::f32, tag::abc);
  };
  const memory::desc rows = md({h.heads, 2, h.size}), matrix = md({h.heads, h.size, h.size});
  const dnnl::matmul::primitive_desc pd(Primitive::engine(), rows, matrix, rows);
  Primitive primitive(state, pd, dnnl::matmul(pd));
  Floats in = numbers(h.heads * 2 * h.size), result = in;
  primitive.bind(DNNL_ARG_SRC, rows, in.data());
  primitive.bind(DNNL_ARG_WEIGHTS, matrix, h.past.data());
  primitive.bind(DNNL_ARG_DST, rows, result.data());
  for (auto _ : state) {
    for (std::int64_t t = 0; t < h.steps; ++t) primitive.run();
    benchmark::ClobberMemory();
  }
  h.report_to(state);
}

struct Rows {
  std::int64_t channels, length;
  explicit Rows(const benchmark::State& sizes) : channels(sizes.range(0)), length(sizes.range(1)) {}
  static constexpr std::int64_t kTaps = 4;

  Floats x = numbers(channels * length), weights = numbers(channels * kTaps),
         bias = numbers(channels), out = x;
  Floats past = numbers(channels * (kTaps - 1)), present = past;

  void report_to(benchmark::State& state) const {
    report(state, channels * length, 4 * (2 * channels * length + 2 * channels * (kTaps - 1)));
  }
};

void own_conv(benchmark::State& state) {
  Rows r(state);
  const kernels::CausalConv conv{.channels = r.channels,
                                 .length = r.length,
                                 .taps = Rows::kTaps,
                                 .x = r.x.data(),
                                 .weights = r.weights.data(),
                                 .bias = r.bias.data(),
                                 .past = r.past.data(),
                                 .swish = true,
                                 .out = r.out.data(),
                                 .present = r.present.data()};
  Floats scratch(static_cast<std::size_t>(kernels::causal_conv_scratch(conv)));
  for (auto _ : state) {
    kernels::run_causal_conv(conv, 0, 0, r.channels, scratch.data());
    benchmark::ClobberMemory();
  }
  r.report_to(state);
}

/// A depthwise convolution alone, over rows that hold what came before; its swish is a post-op.
void onednn_conv(benchmark::State& state) {
  Rows r(state);
  const std::int64_t padded = r.length + Rows::kTaps - 1;
  const auto any = [](const memory::dims& dims) {
    return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
  };
  const memory::desc bias({r.channels}, memory::data_type::f32, memory::format_tag::a);
  dnnl::post_ops post;
  post.append_eltwise(dnnl::algorithm::eltwise_swish, 1, 0);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(post);
  const dnnl::convolution_forward::primitive_desc pd(
      Primitive::engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      any({1, r.channels, padded}), any({r.channels, 1, 1, Rows::kTaps}), bias,
      any({1, r.channels, r.length}), {1}, {0}, {0}, attributes);
  Primitive primitive(state, pd, dnnl::convolution_forward(pd));
  Floats x(pd.src_desc().get_size() / 4), weights(pd.weights_desc().get_size() / 4),
      out(pd.dst_desc().get_size() / 4);
  primitive.bind(DNNL_ARG_SRC, pd.src_desc(), x.data());
  primitive.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), weights.data());
  primitive.bind(DNNL_ARG_BIAS, bias, r.bias.data());
  primitive.bind(DNNL_ARG_DST, pd.dst_desc(), out.data());
  for (auto _ : state) {
    primitive.run();
    benchmark::ClobberMemory();
  }
  r.report_to(state);
}

}  // namespace

void add_states() {
  const auto add = [](const char* name, auto run, std::vector<std::vector<std::int64_t>> sizes) {
    auto* added = benchmark::RegisterBenchmark(name, run);
    for (const auto& each : sizes) added->Args(each);
  };
  const std::vector<std::vector<std::int64_t>> heads{
      {1, 16, 64}, {1, 16, 128}, {64, 16, 64}, {64, 16, 128}};
  add("linear_attention/own", own_linear, heads);
  add("linear_attention/parts", onednn_parts, heads);
  const std::vector<std::vector<std::int64_t>> rows{{6144, 1}, {6144, 64}, {6144, 512}};
  add("causal_conv/own", own_conv, rows);
  add("causal_conv/onednn", onednn_conv, rows);
}

}  // namespace ctxgen::bench
