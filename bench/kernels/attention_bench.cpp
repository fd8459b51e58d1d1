#include <cmath>
#include <vector>

#include "ctxgen/kernels/attention.h"

#include "kernels_bench.h"

// Attention whose heads are side by side in rows, as projections give them: `attention` as encoders have it, `attention_whole` with
// logits as a result. An element is a product of a query with a key; bytes are queries, keys, values and results. The program
// bench_attention compares the first with oneDNN.
namespace ctxgen::bench {
namespace {

using kernels::AttentionSizes;

AttentionSizes sizes_of(const benchmark::State& state, bool whole) {
  const std::int64_t heads = state.range(0), size = state.range(3);
  return {.images = 1,
          .heads = heads,
          .kv_heads = heads,
          .queries = state.range(1),
          .keys = state.range(2),
          .size = size,
          .value_size = size,
          .whole = whole,
          .spread = heads * size};
}

void run(benchmark::State& state, bool whole) {
  const AttentionSizes s = sizes_of(state, whole);
  const kernels::HeadStrides strides{.image = 0, .head = s.size, .row = s.heads * s.size};
  const std::int64_t row = strides.row;
  Floats q = numbers(s.queries * row), k = numbers(s.keys * row), v = numbers(s.keys * row),
         out = q;
  Floats logits(static_cast<std::size_t>(whole ? s.heads * s.queries * s.keys : 0));
  Floats scratch(kernels::attention_scratch_bytes(s).value() / sizeof(float) + 1);
  const kernels::Attention a{
      .sizes = s,
      .q = q.data(),
      .k = k.data(),
      .v = v.data(),
      .q_strides = strides,
      .k_strides = strides,
      .v_strides = strides,
      .out = out.data(),
      .out_strides = strides,
      .scale = 1 / std::sqrt(static_cast<float>(s.size)),
      .bias = {},
      .logits = {.out = whole ? logits.data() : nullptr, .stage = kernels::LogitStage::kWeight},
      .scratch = bytes_of(scratch)};
  OneThread workers;
  for (auto _ : state) {
    kernels::attend(a, workers);
    benchmark::ClobberMemory();
  }
  report(state, s.heads * s.queries * s.keys, 4 * (2 * s.queries + 2 * s.keys) * row);
}

void own(benchmark::State& state) { run(state, false); }
void own_whole(benchmark::State& state) { run(state, true); }

}  // namespace

void add_attention() {
  const std::vector<std::vector<std::int64_t>> sizes{
      {12, 50, 50, 64}, {12, 128, 128, 64}, {12, 197, 197, 64}, {6, 1500, 1500, 64}};
  auto* attention = benchmark::RegisterBenchmark("attention/own", own);
  for (const auto& each : sizes) attention->Args(each);
  auto* whole = benchmark::RegisterBenchmark("attention_whole/own", own_whole);
  for (const auto& each : sizes) whole->Args(each);
}

}  // namespace ctxgen::bench
