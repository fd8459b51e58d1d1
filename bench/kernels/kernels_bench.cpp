// Kernels of lib/kernels next to oneDNN's primitives for the same, on one thread.
//
//     ./dev build release kernels_bench
//     ./dev build/release/bench/kernels_bench [--benchmark_filter=REGEX]
//
// ONEDNN_MAX_CPU_ISA limits both sides to an instruction set. The label of a primitive is oneDNN's
// implementation.

#include "kernels_bench.h"

#include <omp.h>

#include <array>
#include <string>

#include "ctxgen/kernels/activate.h"
#include "ctxgen/kernels/softmax.h"

namespace ctxgen::bench {
namespace {

using kernels::Activation;

struct Function {
  const char* name;
  Activation activation;
  dnnl::algorithm algorithm;  // undef: oneDNN has none
};
constexpr std::array kFunctions{
    Function{"erf", Activation::kErf, dnnl::algorithm::undef},
    Function{"exp", Activation::kExp, dnnl::algorithm::eltwise_exp},
    Function{"gelu_erf", Activation::kGeluErf, dnnl::algorithm::eltwise_gelu_erf},
    Function{"gelu_tanh", Activation::kGeluTanh, dnnl::algorithm::eltwise_gelu_tanh},
    Function{"logistic", Activation::kLogistic, dnnl::algorithm::eltwise_logistic},
    Function{"swish", Activation::kSwish, dnnl::algorithm::eltwise_swish},
    Function{"tanh", Activation::kTanh, dnnl::algorithm::eltwise_tanh},
};

void own_activation(benchmark::State& state, const Function& function) {
  const std::int64_t n = state.range(0);
  const Floats in = numbers(n, 3);
  Floats out(in.size());
  for (auto _ : state) {
    kernels::activate(function.activation, 1, n, in.data(), out.data());
    benchmark::ClobberMemory();
  }
  report(state, n, 8 * n);
}

void onednn_activation(benchmark::State& state, const Function& function) {
  const std::int64_t n = state.range(0);
  Floats in = numbers(n, 3), out(in.size());
  const memory::desc md({n}, memory::data_type::f32, memory::format_tag::a);
  const dnnl::eltwise_forward::primitive_desc pd(Primitive::engine(),
                                                 dnnl::prop_kind::forward_inference,
                                                 function.algorithm, md, md, 1.0F, 0.0F);
  Primitive primitive(state, pd, dnnl::eltwise_forward(pd));
  primitive.bind(DNNL_ARG_SRC, md, in.data());
  primitive.bind(DNNL_ARG_DST, md, out.data());
  for (auto _ : state) primitive.run();
  report(state, n, 8 * n);
}

void own_softmax(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1);
  const Floats in = numbers(rows * width, 3);
  Floats out(in.size());
  for (auto _ : state) {
    for (std::int64_t row = 0; row < rows; ++row)
      kernels::softmax_row(width, in.data() + row * width, out.data() + row * width);
    benchmark::ClobberMemory();
  }
  report(state, rows * width, 8 * rows * width);
}

void onednn_softmax(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1);
  Floats in = numbers(rows * width, 3), out(in.size());
  const memory::desc md({rows, width}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::softmax_forward::primitive_desc pd(Primitive::engine(),
                                                 dnnl::prop_kind::forward_inference,
                                                 dnnl::algorithm::softmax_accurate, md, md, 1);
  Primitive primitive(state, pd, dnnl::softmax_forward(pd));
  primitive.bind(DNNL_ARG_SRC, md, in.data());
  primitive.bind(DNNL_ARG_DST, md, out.data());
  for (auto _ : state) primitive.run();
  report(state, rows * width, 8 * rows * width);
}

}  // namespace

void add_activations() {
  for (const Function& function : kFunctions) {
    const auto add = [&](const char* side, auto run) {
      benchmark::RegisterBenchmark(
          std::string("activate/") + function.name + "/" + side,
          [&function, run](benchmark::State& state) { run(state, function); })
          ->Arg(2048)
          ->Arg(393216);
    };
    add("own", own_activation);
    if (function.algorithm != dnnl::algorithm::undef) add("onednn", onednn_activation);
  }
}

void add_softmax() {
  const auto add = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)->Args({1536, 128})->Args({2364, 197})->Args({64, 4096});
  };
  add("softmax/own", own_softmax);
  add("softmax/onednn", onednn_softmax);
}

void add_attention();
void add_depthwise();
void add_pools();
void add_norms();
void add_recurrent();
void add_states();
void add_winograd();

}  // namespace ctxgen::bench

int main(int argc, char** argv) {
  omp_set_num_threads(1);
  ctxgen::bench::add_activations();
  ctxgen::bench::add_softmax();
  ctxgen::bench::add_attention();
  ctxgen::bench::add_depthwise();
  ctxgen::bench::add_pools();
  ctxgen::bench::add_norms();
  ctxgen::bench::add_recurrent();
  ctxgen::bench::add_states();
  ctxgen::bench::add_winograd();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
