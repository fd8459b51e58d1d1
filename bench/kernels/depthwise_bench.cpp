#include "ctxgen/kernels/depthwise.h"

#include "kernels_bench.h"

// Convolutions with one weight per channel and position, of MobileNetV2 and EfficientNet-B0, with bias and ReLU6.
namespace ctxgen::bench {
namespace {

struct Shape {
  std::int64_t channels, size, kernel, stride;
  explicit Shape(const benchmark::State& state)
      : channels(state.range(0)),
        size(state.range(1)),
        kernel(state.range(2)),
        stride(state.range(3)) {}
  [[nodiscard]] std::int64_t pad() const { return kernel / 2; }
  [[nodiscard]] std::int64_t result() const { return (size + 2 * pad() - kernel) / stride + 1; }
  [[nodiscard]] std::int64_t elements() const { return channels * result() * result(); }
  [[nodiscard]] std::int64_t bytes() const { return 4 * (channels * size * size + elements()); }
};

void report_flops(benchmark::State& state, const Shape& shape) {
  report(state, shape.elements(), shape.bytes());
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(shape.elements() * shape.kernel * shape.kernel),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void own_depthwise(benchmark::State& state) {
  const Shape shape(state);
  const Floats src = numbers(shape.channels * shape.size * shape.size),
               weights = numbers(shape.kernel * shape.kernel * shape.channels),
               bias = numbers(shape.channels);
  Floats result(static_cast<std::size_t>(shape.elements()));
  const kernels::Depthwise conv{.windows = {.size = {shape.size, shape.size},
                                            .result = {shape.result(), shape.result()},
                                            .kernel = {shape.kernel, shape.kernel},
                                            .stride = {shape.stride, shape.stride},
                                            .pad = {shape.pad(), shape.pad()},
                                            .channels = shape.channels,
                                            .pitch = shape.channels},
                                .src = src.data(),
                                .weights = weights.data(),
                                .weight_pitch = shape.channels,
                                .finish = {.bias = bias.data(), .low = 0, .high = 6},
                                .result = result.data(),
                                .result_pitch = shape.channels};
  const kernels::DepthwiseParts parts = kernels::depthwise_parts(conv.windows, 1);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < parts.count(); ++i)
      kernels::convolve_depthwise(conv, parts.part(i));
    benchmark::ClobberMemory();
  }
  report_flops(state, shape);
}

void onednn_depthwise(benchmark::State& state) {
  const Shape shape(state);
  const std::int64_t c = shape.channels, k = shape.kernel, out = shape.result();
  Floats src = numbers(c * shape.size * shape.size), weights = numbers(k * k * c),
         bias = numbers(c), result(static_cast<std::size_t>(shape.elements()));
  const auto f32 = memory::data_type::f32;
  const memory::desc src_md({1, c, shape.size, shape.size}, f32, memory::format_tag::acdb);
  const memory::desc dst_md({1, c, out, out}, f32, memory::format_tag::acdb);
  const memory::desc bias_md({c}, f32, memory::format_tag::a);
  const memory::desc any({c, 1, 1, k, k}, f32, memory::format_tag::any);
  dnnl::post_ops clamp;
  clamp.append_eltwise(dnnl::algorithm::eltwise_clip, 0, 6);
  dnnl::primitive_attr attr;
  attr.set_post_ops(clamp);
  const memory::dims strides{shape.stride, shape.stride}, pads{shape.pad(), shape.pad()};
  const dnnl::convolution_forward::primitive_desc pd(
      Primitive::engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      src_md, any, bias_md, dst_md, strides, pads, pads, attr);
  weights.resize(pd.weights_desc().get_size() / sizeof(float));
  Primitive primitive(state, pd, dnnl::convolution_forward(pd));
  primitive.bind(DNNL_ARG_SRC, src_md, src.data());
  primitive.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), weights.data());
  primitive.bind(DNNL_ARG_BIAS, bias_md, bias.data());
  primitive.bind(DNNL_ARG_DST, dst_md, result.data());
  for (auto _ : state) primitive.run();
  report_flops(state, shape);
}

}  // namespace

void add_depthwise() {
  const auto add = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)
        ->Args({32, 112, 3, 1})
        ->Args({96, 112, 3, 2})
        ->Args({144, 56, 3, 1})
        ->Args({144, 56, 5, 2})
        ->Args({192, 28, 3, 1})
        ->Args({240, 28, 5, 1})
        ->Args({384, 14, 3, 1})
        ->Args({672, 14, 5, 1})
        ->Args({960, 7, 3, 1})
        ->Args({1152, 7, 5, 1})
        ->Args({96, 56, 7, 1});
  };
  add("depthwise/own", own_depthwise);
  add("depthwise/onednn", onednn_depthwise);
}

}  // namespace ctxgen::bench
