// How fast attention is: the figures of docs/onednn.md, "Attention". The instruction set is the one that
// ONEDNN_MAX_CPU_ISA leaves.
//
//     ./dev build release bench_attention
//     OMP_NUM_THREADS=1 ./dev build/release/bench/bench_attention [--rounds N] [--rows] [HEADS/KV_HEADSxQUERIESxKEYSxSIZE...]
//
// Prints a line per size, the best of N rounds in which all take turns: own attention; oneDNN's product,
// softmax and product over the same heads where each has keys of its own; and a plain read of keys and values.
// With --rows heads are side by side in rows for the own one, as projections give them.

#include "ctxgen/kernels/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "standalone.h"

namespace bench {
namespace {

using ctxgen::kernels::Attention;
using ctxgen::kernels::AttentionSizes;
using dnnl::memory;

float* floats_of(std::int64_t count) {
  constexpr std::uint64_t kPage = 4096;
  const auto bytes = static_cast<std::uint64_t>(count) * sizeof(float);
  auto* list = static_cast<float*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
  if (list == nullptr) throw std::bad_alloc();
  std::mt19937 random(1);
  for (std::int64_t i = 0; i < count; ++i) list[i] = static_cast<float>(random() % 2000) / 1000 - 1;
  return list;
}

double plain_read(const float* data, std::int64_t count) {
  double total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (std::int64_t i = 0; i < count / 64; ++i) {
    using Line = std::uint64_t __attribute__((vector_size(64), aligned(64), may_alias));
    const auto* lines = reinterpret_cast<const Line*>(data + i * 64);
    const Line sum = lines[0] ^ lines[1] ^ lines[2] ^ lines[3];
    total += static_cast<double>(sum[0] ^ sum[7]);
  }
  return total;
}

/// Buffers of one size: q, keys, values and result as [heads, rows, size].
class Heads {
 public:
  Heads(const AttentionSizes& s, bool by_rows)
      : s_(s),
        by_rows_(by_rows),
        q_(floats_of(s.heads * s.queries * s.size)),
        k_(floats_of(s.kv_heads * s.keys * s.size)),
        v_(floats_of(s.kv_heads * s.keys * s.size)),
        out_(floats_of(s.heads * s.queries * s.size)),
        logits_(floats_of(s.heads * s.queries * s.keys)),
        scratch_(floats_of(
            static_cast<std::int64_t>(attention_scratch_bytes(s).value() / sizeof(float) + 16))) {}
  ~Heads() {
    for (float* list : {q_, k_, v_, out_, logits_, scratch_}) std::free(list);
  }
  Heads(const Heads&) = delete;
  Heads& operator=(const Heads&) = delete;

  void own() {
    const auto strides = [&](std::int64_t rows, std::int64_t heads) {
      return by_rows_ ? ctxgen::kernels::HeadStrides{0, s_.size, heads * s_.size}
                      : ctxgen::kernels::HeadStrides{0, rows * s_.size, s_.size};
    };
    ctxgen::kernels::attend({.sizes = s_,
                             .q = q_,
                             .k = k_,
                             .v = v_,
                             .q_strides = strides(s_.queries, s_.heads),
                             .k_strides = strides(s_.keys, s_.kv_heads),
                             .v_strides = strides(s_.keys, s_.kv_heads),
                             .out = out_,
                             .out_strides = strides(s_.queries, s_.heads),
                             .scale = 1 / std::sqrt(static_cast<float>(s_.size)),
                             .bias = {},
                             .scratch = reinterpret_cast<std::byte*>(scratch_)},
                            workers_);
  }

  void library() {
    if (s_.heads != s_.kv_heads) return;
    if (steps_.empty()) make_steps();
    for (auto& [primitive, args] : steps_) primitive.execute(stream_, args);
    stream_.wait();
  }

  void read() {
    seen_ += plain_read(k_, s_.kv_heads * s_.keys * s_.size);
    seen_ += plain_read(v_, s_.kv_heads * s_.keys * s_.size);
  }

 private:
  void make_steps() {
    using tag = memory::format_tag;
    const auto md = [](const memory::dims& dims, tag form) {
      return memory::desc(dims, memory::data_type::f32, form);
    };
    const auto bind = [&](const memory::desc& desc, float* data) {
      return memory(desc, engine_, data);
    };
    const memory::desc q = md({s_.heads, s_.queries, s_.size}, tag::abc),
                       k = md({s_.heads, s_.size, s_.keys}, tag::acb),
                       v = md({s_.heads, s_.keys, s_.size}, tag::abc),
                       logits = md({s_.heads, s_.queries, s_.keys}, tag::abc);
    const dnnl::matmul::primitive_desc first(engine_, q, k, logits), second(engine_, logits, v, q);
    const dnnl::softmax_forward::primitive_desc softmax(engine_, dnnl::prop_kind::forward_inference,
                                                        dnnl::algorithm::softmax_accurate, logits,
                                                        logits, 2);
    steps_.push_back({dnnl::matmul(first),
                      {{DNNL_ARG_SRC, bind(q, q_)},
                       {DNNL_ARG_WEIGHTS, bind(k, k_)},
                       {DNNL_ARG_DST, bind(logits, logits_)}}});
    steps_.push_back(
        {dnnl::softmax_forward(softmax),
         {{DNNL_ARG_SRC, bind(logits, logits_)}, {DNNL_ARG_DST, bind(logits, logits_)}}});
    steps_.push_back({dnnl::matmul(second),
                      {{DNNL_ARG_SRC, bind(logits, logits_)},
                       {DNNL_ARG_WEIGHTS, bind(v, v_)},
                       {DNNL_ARG_DST, bind(q, out_)}}});
  }

  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, memory> args;
  };

  AttentionSizes s_;
  bool by_rows_;
  float *q_, *k_, *v_, *out_, *logits_, *scratch_;
  double seen_ = 0;
  OmpWorkers workers_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Step> steps_;
};

void measure(const AttentionSizes& s, bool by_rows, int rounds) {
  Heads heads(s, by_rows);
  std::array<double, 3> best{1e9, 1e9, 1e9};
  for (int round = 0; round < rounds; ++round) {
    best[0] = std::min(best[0], seconds_of([&] { heads.own(); }));
    best[1] = std::min(best[1], seconds_of([&] { heads.library(); }));
    best[2] = std::min(best[2], seconds_of([&] { heads.read(); }));
  }
  const double flops =
      4e-9 * static_cast<double>(s.heads * s.queries) * static_cast<double>(s.keys * s.size);
  const double bytes = 8e-9 * static_cast<double>(s.kv_heads * s.keys * s.size);
  std::printf("%2ld/%-2ld %4ld x %4ld of %3ld  own %8.3f ms %6.1f GFLOP/s %6.1f GB/s",
              long(s.heads), long(s.kv_heads), long(s.queries), long(s.keys), long(s.size),
              best[0] * 1e3, flops / best[0], bytes / best[0]);
  if (s.heads == s.kv_heads)
    std::printf("   onednn %8.3f ms %6.1f GFLOP/s", best[1] * 1e3, flops / best[1]);
  std::printf("   read %8.3f ms %6.1f GB/s\n", best[2] * 1e3, bytes / best[2]);
}

int run(const std::vector<std::string>& arguments) {
  int rounds = 40;
  bool by_rows = false;
  std::vector<AttentionSizes> sizes;
  const auto add = [&](long heads, long kv_heads, long queries, long keys, long size) {
    sizes.push_back({1, heads, kv_heads, queries, keys, size, size});
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::array<long, 5> n{};
    if (arguments[i] == "--rounds")
      rounds = std::stoi(arguments.at(++i));
    else if (arguments[i] == "--rows")
      by_rows = true;
    else if (std::sscanf(arguments[i].c_str(), "%ld/%ldx%ldx%ldx%ld", &n[0], &n[1], &n[2], &n[3],
                         &n[4]) == 5)
      add(n[0], n[1], n[2], n[3], n[4]);
  }
  if (sizes.empty()) {
    for (const long rows : {49, 128, 197, 512, 1024}) add(12, 12, rows, rows, 64);
    for (const long past : {129, 1025, 4097}) {
      add(12, 12, 1, past, 64);
      add(9, 3, 1, past, 64);
      add(32, 4, 1, past, 64);
    }
    add(9, 3, 64, 192, 64);
    add(9, 3, 512, 640, 64);
  }
  for (AttentionSizes& s : sizes) {
    s.spread = by_rows ? s.kv_heads * s.size : 0;
    measure(s, by_rows, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace bench

int main(int count, char** words) {
  return bench::run_program("attention", count, words, bench::run);
}
