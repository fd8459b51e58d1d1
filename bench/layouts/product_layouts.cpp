// Which packing of a constant matrix is the fastest for f32 products: the figures behind the table in
// lib/backend/onednn/exec/layout/product_packing.cpp. The instruction set is the one that
// ONEDNN_MAX_CPU_ISA leaves.
//
//     ./dev build release bench_product_layouts
//     OMP_NUM_THREADS=1 ./dev build/release/bench/bench_product_layouts [--rounds N] [MxKxN...]
//
// Prints a line per product: GFLOP/s with each packing by oneDNN and by the own kernel ("own"), the best of N rounds in
// which all take turns; then what ctxgen takes, and its share of the best. At the end the worst share.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/product.h"

#include "kinds/own/own_product.h"
#include "layout/product_packing.h"

namespace bench {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

namespace kernels = ctxgen::kernels;

struct Packing {
  const char* name;
  Tag tag;
  std::int64_t columns = 0;  // of a panel that the own kernel reads
};
constexpr std::array kPackings{
    Packing{"any", Tag::any},
    Packing{"BA16a16b", Tag::BA16a16b, 16},
    Packing{"BA16a32b", Tag::BA16a32b, 32},
    Packing{"BA16a48b", Tag::BA16a48b, 48},
    Packing{"BA16a64b", Tag::BA16a64b, 64},
    Packing{"ab", Tag::ab},
};

struct Size {
  std::int64_t m, k, n;
};

/// Products of networks: rows of one token, of short and long texts, of images' patches.
std::vector<Size> usual_sizes() {
  constexpr std::array<std::array<std::int64_t, 2>, 14> kWeights{{{96, 384},
                                                                  {192, 768},
                                                                  {384, 384},
                                                                  {384, 1152},
                                                                  {384, 1536},
                                                                  {576, 1536},
                                                                  {768, 768},
                                                                  {768, 3072},
                                                                  {3072, 768},
                                                                  {1024, 1000},
                                                                  {2048, 1000},
                                                                  {1280, 1000},
                                                                  {64, 256},
                                                                  {256, 64}}};
  std::vector<Size> sizes;
  for (const auto& [k, n] : kWeights)
    for (const std::int64_t m : {1, 8, 32, 128, 197, 784}) sizes.push_back({m, k, n});
  return sizes;
}

/// One way to compute a product, ready to run.
class Contestant {
 public:
  Contestant(Packing packing, bool own, Size size)
      : packing_(packing), own_(own), flops_(2.0 * static_cast<double>(size.m * size.k * size.n)) {}
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;
  virtual ~Contestant() = default;

  /// Runs for a few milliseconds; the rate goes up to the best so far.
  void run() {
    using Clock = std::chrono::steady_clock;
    const auto enough = std::chrono::milliseconds(4);
    const auto start = Clock::now();
    do {
      const auto before = Clock::now();
      compute();
      const std::chrono::duration<double> taken = Clock::now() - before;
      best_ = std::max(best_, flops_ / taken.count() * 1e-9);
    } while (Clock::now() - start < enough);
  }

  [[nodiscard]] double gflops_per_second() const { return best_; }
  [[nodiscard]] std::string name() const { return std::string(own_ ? "own " : "") + packing_.name; }
  [[nodiscard]] bool is(Tag tag, bool own) const { return packing_.tag == tag && own_ == own; }

 private:
  virtual void compute() = 0;
  Packing packing_;
  bool own_;
  double flops_, best_ = 0;
};

class LibraryProduct final : public Contestant {
 public:
  LibraryProduct(const dnnl::engine& engine, dnnl::stream& stream, Size size, Packing packing)
      : Contestant(packing, false, size), stream_(stream) {
    using Type = memory::data_type;
    const memory::desc a({size.m, size.k}, Type::f32, Tag::ab);
    const memory::desc b({size.k, size.n}, Type::f32, packing.tag);
    const memory::desc bias({1, size.n}, Type::f32, Tag::ab);
    const memory::desc dst({size.m, size.n}, Type::f32, Tag::ab);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc pd(engine, a, b, bias, dst, attr);
    implementation_ = pd.impl_info_str();
    primitive_ = dnnl::matmul(pd);
    const auto filled = [&](const memory::desc& md) {
      memory made(md, engine);
      auto* values = static_cast<float*>(made.get_data_handle());
      std::fill_n(values, md.get_size() / sizeof(float), 0.01F);
      return made;
    };
    args_ = {{DNNL_ARG_SRC, filled(a)},
             {DNNL_ARG_WEIGHTS, filled(pd.weights_desc())},
             {DNNL_ARG_BIAS, filled(bias)},
             {DNNL_ARG_DST, filled(dst)},
             {DNNL_ARG_SCRATCHPAD, memory(pd.scratchpad_desc(), engine)}};
  }
  [[nodiscard]] const std::string& implementation() const { return implementation_; }

 private:
  void compute() override { primitive_.execute(stream_, args_); }
  dnnl::stream& stream_;
  std::string implementation_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> args_;
};

class OwnProduct final : public Contestant {
 public:
  OwnProduct(const dnnl::engine& engine, Size size, Packing packing)
      : Contestant(packing, true, size) {
    const auto filled = [&](const memory::desc& md) {
      memory made(md, engine);
      auto* values = static_cast<float*>(made.get_data_handle());
      std::fill_n(values, md.get_size() / sizeof(float), 0.01F);
      operands_.push_back(made);
      return values;
    };
    using Type = memory::data_type;
    const memory::desc packed({size.k, size.n}, Type::f32, packing.tag);
    const std::int64_t panels = (size.n + packing.columns - 1) / packing.columns;
    const auto elements = static_cast<std::int64_t>(packed.get_size() / sizeof(float));
    product_.windows = kernels::matrix_rows(size.m, size.k, size.k);
    product_.src = filled({{size.m, size.k}, Type::f32, Tag::ab});
    product_.matrix = {reinterpret_cast<const std::byte*>(filled(packed)),
                       kernels::PanelType::kFloat, size.n, packing.columns, elements / panels};
    product_.finish.bias = filled({{1, size.n}, Type::f32, Tag::ab});
    product_.result = filled({{size.m, size.n}, Type::f32, Tag::ab});
    product_.result_pitch = size.n;
    parts_ = kernels::parts_of_team(product_.windows, product_.matrix, 1);
  }

 private:
  void compute() override {
    for (std::int64_t i = 0; i < parts_.count(); ++i)
      kernels::multiply_panels(product_, parts_.part(i));
  }
  std::vector<memory> operands_;
  kernels::PanelProduct product_;
  kernels::ProductParts parts_;
};

using Contestants = std::vector<std::unique_ptr<Contestant>>;

/// A product that oneDNN computes by a reference kernel has no place here.
Contestants contestants(const dnnl::engine& engine, dnnl::stream& stream, Size size) {
  Contestants all;
  for (const Packing& packing : kPackings) {
    auto library = std::make_unique<LibraryProduct>(engine, stream, size, packing);
    if (!library->implementation().contains("ref")) all.push_back(std::move(library));
    if (packing.columns > 0) all.push_back(std::make_unique<OwnProduct>(engine, size, packing));
  }
  return all;
}

/// What ctxgen's rules take; null where they leave it to oneDNN.
const Contestant* chosen(const Contestants& all, Size size) {
  const auto tag =
      ctxgen::onednn::product_packing(size.k, size.n, {}, ctxgen::usable_instruction_set());
  if (!tag) return nullptr;
  const bool own = ctxgen::onednn::prefers_own_rows(size.m, size.k, size.n);
  const auto found = std::ranges::find_if(all, [&](const auto& one) { return one->is(*tag, own); });
  return found == all.end() ? nullptr : found->get();
}

/// The share of the best that what ctxgen takes has; 1 where it takes nothing.
double measure(const dnnl::engine& engine, dnnl::stream& stream, Size size, int rounds) {
  const Contestants all = contestants(engine, stream, size);
  for (int round = 0; round < rounds; ++round)
    for (const auto& one : all) one->run();
  std::printf("%lldx%lldx%lld", static_cast<long long>(size.m), static_cast<long long>(size.k),
              static_cast<long long>(size.n));
  double best = 0;
  for (const auto& one : all) {
    best = std::max(best, one->gflops_per_second());
    std::printf("  %s %.1f", one->name().c_str(), one->gflops_per_second());
  }
  const Contestant* const taken = chosen(all, size);
  const double share = taken == nullptr ? 1 : taken->gflops_per_second() / best;
  std::printf("  -> %s, %.3f of the best\n", taken == nullptr ? "oneDNN's" : taken->name().c_str(),
              share);
  std::fflush(stdout);
  return share;
}

int measure_all(int argc, char** argv) {
  int rounds = 5;
  std::vector<Size> sizes;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    long long m = 0, k = 0, n = 0;
    if (word == "--rounds" && i + 1 < argc) {
      rounds = std::atoi(argv[++i]);
    } else if (std::sscanf(argv[i], "%lldx%lldx%lld", &m, &k, &n) == 3 && m > 0 && k > 0 && n > 0) {
      sizes.push_back({m, k, n});
    } else {
      std::fprintf(stderr, "usage: %s [--rounds N] [MxKxN...]\n", argv[0]);
      return 2;
    }
  }
  if (sizes.empty()) sizes = usual_sizes();
  if (const char* threads = std::getenv("OMP_NUM_THREADS");
      threads == nullptr || std::string_view(threads) != "1") {
    std::fprintf(stderr, "%s: set OMP_NUM_THREADS=1: packings are compared on one thread\n",
                 argv[0]);
    return 2;
  }
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  double worst = 1;
  for (const Size& size : sizes) worst = std::min(worst, measure(engine, stream, size, rounds));
  std::printf("worst share of the best: %.3f\n", worst);
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::measure_all(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
