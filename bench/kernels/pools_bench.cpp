#include "ctxgen/kernels/pool.h"

#include "kernels_bench.h"

// Pools of Inception v3 and ResNet-50.
namespace ctxgen::bench {
namespace {

struct Shape {
  std::int64_t channels, size, stride, pad;
  bool average;
  explicit Shape(const benchmark::State& state)
      : channels(state.range(0)),
        size(state.range(1)),
        stride(state.range(2)),
        pad(state.range(3)),
        average(state.range(4) != 0) {}
  static constexpr std::int64_t kKernel = 3;
  [[nodiscard]] std::int64_t result() const { return (size + 2 * pad - kKernel) / stride + 1; }
  [[nodiscard]] std::int64_t elements() const { return channels * result() * result(); }
  [[nodiscard]] std::int64_t bytes() const { return 4 * (channels * size * size + elements()); }
};

void own_pool(benchmark::State& state) {
  const Shape shape(state);
  const Floats src = numbers(shape.channels * shape.size * shape.size);
  Floats result(static_cast<std::size_t>(shape.elements()));
  const std::int64_t end = shape.size + shape.pad;
  const kernels::Pool pool{
      .windows = {.size = {shape.size, shape.size},
                  .result = {shape.result(), shape.result()},
                  .kernel = {Shape::kKernel, Shape::kKernel},
                  .stride = {shape.stride, shape.stride},
                  .pad = {shape.pad, shape.pad},
                  .channels = shape.channels,
                  .pitch = shape.channels},
      .mode = shape.average ? kernels::Pool::Mode::kAverage : kernels::Pool::Mode::kMaximum,
      .counted = {end, end},
      .counts_padding = true,
      .src = src.data(),
      .result = result.data()};
  for (auto _ : state) {
    kernels::pool_lines(pool, 0, shape.result());
    benchmark::ClobberMemory();
  }
  report(state, shape.elements(), shape.bytes());
}

void onednn_pool(benchmark::State& state) {
  const Shape shape(state);
  Floats src = numbers(shape.channels * shape.size * shape.size),
         result(static_cast<std::size_t>(shape.elements()));
  const auto f32 = memory::data_type::f32;
  const memory::desc src_md({1, shape.channels, shape.size, shape.size}, f32,
                            memory::format_tag::acdb);
  const memory::desc dst_md({1, shape.channels, shape.result(), shape.result()}, f32,
                            memory::format_tag::acdb);
  const memory::dims strides{shape.stride, shape.stride}, pads{shape.pad, shape.pad};
  const dnnl::pooling_forward::primitive_desc pd(
      Primitive::engine(), dnnl::prop_kind::forward_inference,
      shape.average ? dnnl::algorithm::pooling_avg_include_padding : dnnl::algorithm::pooling_max,
      src_md, dst_md, strides, {Shape::kKernel, Shape::kKernel}, {0, 0}, pads, pads);
  Primitive primitive(state, pd, dnnl::pooling_forward(pd));
  primitive.bind(DNNL_ARG_SRC, src_md, src.data());
  primitive.bind(DNNL_ARG_DST, dst_md, result.data());
  for (auto _ : state) primitive.run();
  report(state, shape.elements(), shape.bytes());
}

}  // namespace

void add_pools() {
  const auto add = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)
        ->Args({64, 147, 2, 0, 0})
        ->Args({192, 71, 2, 0, 0})
        ->Args({64, 112, 2, 1, 0})
        ->Args({768, 17, 2, 0, 0})
        ->Args({288, 35, 1, 1, 1})
        ->Args({768, 17, 1, 1, 1})
        ->Args({2048, 8, 1, 1, 1});
  };
  add("pool/own", own_pool);
  add("pool/onednn", onednn_pool);
}

}  // namespace ctxgen::bench
