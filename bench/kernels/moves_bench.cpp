#include <cstring>

#include "ctxgen/kernels/move.h"

#include "kernels_bench.h"

// Moves next to oneDNN's reorders of the same and to memcpy. Arguments: rows and columns of the result.
namespace ctxgen::bench {
namespace {

void transposes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({49, 32})
      ->Args({3136, 96})
      ->Args({96, 3136})
      ->Args({1024, 1024})  // pitches that map to one set of a cache
      ->Args({3, 50176})
      ->Args({50176, 3})
      ->Args({2, 4096});
}

void copy_all(benchmark::State& state) {
  const std::int64_t n = state.range(0) * state.range(1);
  Floats src = numbers(n), dst = numbers(n);
  for (auto _ : state) {
    std::memcpy(dst.data(), src.data(), src.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  report(state, n, 8 * n);
}
BENCHMARK(copy_all)->Apply(transposes);

void transpose_own(benchmark::State& state) {
  const std::int64_t rows = state.range(0), columns = state.range(1), n = rows * columns;
  Floats src = numbers(n), dst = numbers(n);
  for (auto _ : state) {
    kernels::transpose({rows, columns, rows, columns}, 4, bytes_of(src), bytes_of(dst));
    benchmark::ClobberMemory();
  }
  report(state, n, 8 * n);
}
BENCHMARK(transpose_own)->Apply(transposes);

void transpose_onednn(benchmark::State& state) {
  const std::int64_t rows = state.range(0), columns = state.range(1), n = rows * columns;
  Floats src = numbers(n), dst = numbers(n);
  const memory::desc from({rows, columns}, memory::data_type::f32, memory::format_tag::ba);
  const memory::desc to({rows, columns}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::reorder::primitive_desc pd(Primitive::engine(), from, Primitive::engine(), to);
  Primitive primitive(state, pd, dnnl::reorder(pd));
  primitive.bind(DNNL_ARG_FROM, from, src.data());
  primitive.bind(DNNL_ARG_TO, to, dst.data());
  for (auto _ : state) primitive.run();
  report(state, n, 8 * n);
}
BENCHMARK(transpose_onednn)->Apply(transposes);

/// Rows of `range(1)` elements from a source of rows twice as long.
void copy_rows_own(benchmark::State& state) {
  const std::int64_t rows = state.range(0), length = state.range(1), n = rows * length;
  Floats src = numbers(2 * n), dst = numbers(n);
  for (auto _ : state) {
    kernels::copy_rows({rows, 4 * length, 8 * length, 4 * length}, bytes_of(src), bytes_of(dst));
    benchmark::ClobberMemory();
  }
  report(state, n, 8 * n);
}
BENCHMARK(copy_rows_own)->Args({49 * 64, 32})->Args({3136, 96})->Args({56, 672})->Args({9408, 3});

void take_every_second(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  Floats src = numbers(2 * n), dst = numbers(n);
  for (auto _ : state) {
    kernels::take_every(n, 2, 4, bytes_of(src), bytes_of(dst));
    benchmark::ClobberMemory();
  }
  report(state, n, 8 * n);
}
BENCHMARK(take_every_second)->Arg(48)->Arg(4096);

}  // namespace
}  // namespace ctxgen::bench
