#include <algorithm>
#include <tuple>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/product.h"
#include "ctxgen/kernels/winograd.h"

#include "kernels_bench.h"
#include "kinds/own/own_product.h"
#include "layout/conv_packing.h"

// Convolutions of 3 x 3 positions with bias and ReLU, of ResNet-50, VGG, Inception and U-Nets: by Winograd's sums, by
// one chain per element, by oneDNN.
namespace ctxgen::bench {
namespace {

struct Shape {
  std::int64_t channels, columns, size;
  explicit Shape(const benchmark::State& state)
      : channels(state.range(0)), columns(state.range(1)), size(state.range(2)) {}
  [[nodiscard]] std::int64_t elements() const { return columns * size * size; }
  [[nodiscard]] memory::dims weights() const { return {columns, channels, 3, 3}; }
};

void report_flops(benchmark::State& state, const Shape& shape) {
  report(state, shape.elements(),
         4 * (shape.channels * shape.size * shape.size + shape.elements()));
  state.counters["GFLOP/s"] =
      benchmark::Counter(18e-9 * static_cast<double>(shape.elements() * shape.channels),
                         benchmark::Counter::kIsIterationInvariantRate);
}

/// A convolution by panels as ctxgen stores them.
struct Panels {
  Floats src, weights, bias, result;
  kernels::PanelProduct product;

  explicit Panels(const Shape& shape)
      : src(numbers(shape.channels * shape.size * shape.size)),
        bias(numbers(shape.columns)),
        result(static_cast<std::size_t>(shape.elements())) {
    const auto tag = onednn::conv_packing({.dims = {shape.columns, shape.channels, 3, 3}},
                                          usable_instruction_set());
    const memory::desc form(shape.weights(), memory::data_type::f32, tag.value());
    weights = numbers(static_cast<std::int64_t>(form.get_size() / sizeof(float)));
    const std::int64_t block = onednn::panel_columns(form).value();
    product = {.windows = {.size = {shape.size, shape.size},
                           .result = {shape.size, shape.size},
                           .kernel = {3, 3},
                           .pad = {1, 1},
                           .channels = shape.channels,
                           .pitch = shape.channels},
               .src = src.data(),
               .matrix = {bytes_of(weights), kernels::PanelType::kFloat, shape.columns, block,
                          9 * shape.channels * block},
               .finish = {.bias = bias.data(), .low = 0},
               .result = result.data(),
               .result_pitch = shape.columns};
  }
};

void winograd(benchmark::State& state) {
  const Shape shape(state);
  Panels conv(shape);
  const auto& [windows, matrix] = std::tie(conv.product.windows, conv.product.matrix);
  const kernels::WinogradParts parts = kernels::winograd_parts(windows, matrix, 1);
  Floats scratch(kernels::winograd_scratch_bytes(parts, matrix).value() / sizeof(float));
  for (auto _ : state) {
    for (std::int64_t i = 0; i < parts.count(); ++i)
      kernels::multiply_winograd(conv.product, parts, i, scratch.data());
    benchmark::ClobberMemory();
  }
  report_flops(state, shape);
}

void chains(benchmark::State& state) {
  const Shape shape(state);
  Panels conv(shape);
  const kernels::ProductParts parts =
      kernels::parts_of_team(conv.product.windows, conv.product.matrix, 1);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < parts.count(); ++i)
      kernels::multiply_panels(conv.product, parts.part(i));
    benchmark::ClobberMemory();
  }
  report_flops(state, shape);
}

void onednn_conv(benchmark::State& state) {
  const Shape shape(state);
  const std::int64_t m = shape.columns, size = shape.size;
  Floats src = numbers(shape.channels * size * size), bias = numbers(m),
         result(static_cast<std::size_t>(shape.elements()));
  const auto f32 = memory::data_type::f32;
  const memory::desc src_md({1, shape.channels, size, size}, f32, memory::format_tag::acdb);
  const memory::desc dst_md({1, m, size, size}, f32, memory::format_tag::acdb);
  const memory::desc bias_md({m}, f32, memory::format_tag::a);
  const memory::desc any(shape.weights(), f32, memory::format_tag::any);
  dnnl::post_ops relu;
  relu.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
  dnnl::primitive_attr attr;
  attr.set_post_ops(relu);
  const memory::dims ones{1, 1};
  const dnnl::convolution_forward::primitive_desc pd(
      Primitive::engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      src_md, any, bias_md, dst_md, ones, ones, ones, attr);
  Floats weights = numbers(static_cast<std::int64_t>(pd.weights_desc().get_size() / sizeof(float)));
  Primitive primitive(state, pd, dnnl::convolution_forward(pd));
  primitive.bind(DNNL_ARG_SRC, src_md, src.data());
  primitive.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), weights.data());
  primitive.bind(DNNL_ARG_BIAS, bias_md, bias.data());
  primitive.bind(DNNL_ARG_DST, dst_md, result.data());
  for (auto _ : state) primitive.run();
  report_flops(state, shape);
}

}  // namespace

void add_winograd() {
  const auto add = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)
        ->Args({64, 64, 56})
        ->Args({128, 128, 28})
        ->Args({256, 256, 14})
        ->Args({512, 512, 7})
        ->Args({512, 512, 28})
        ->Args({128, 32, 28})
        ->Args({128, 32, 7})
        ->Args({64, 96, 35})
        ->Args({96, 96, 35})
        ->Args({32, 64, 147})
        ->Args({16, 16, 160})
        ->Args({32, 32, 80})
        ->Args({64, 64, 20})
        ->Args({320, 320, 32})
        ->Args({1280, 1280, 8});
  };
  add("winograd/own", winograd);
  add("winograd/direct", chains);
  add("winograd/onednn", onednn_conv);
}

}  // namespace ctxgen::bench
