// Which packing of a constant matrix is the fastest for f32 products: the figures behind the table in
// lib/backend/onednn/exec/layout/product_packing.cpp. The instruction set is the one that
// ONEDNN_MAX_CPU_ISA leaves.
//
//     ./dev build release bench_product_layouts
//     OMP_NUM_THREADS=1 ./dev build/release/bench/bench_product_layouts [--rounds N] [MxKxN...]
//
// Prints a line per product: GFLOP/s with each packing, the best of N rounds in which all take turns.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

namespace bench {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

struct Packing {
  const char* name;
  Tag tag;
};
constexpr std::array kPackings{
    Packing{"any", Tag::any},           Packing{"BA16a16b", Tag::BA16a16b},
    Packing{"BA16a32b", Tag::BA16a32b}, Packing{"BA16a48b", Tag::BA16a48b},
    Packing{"BA16a64b", Tag::BA16a64b}, Packing{"ab", Tag::ab},
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

/// One product, ready to run.
class Product {
 public:
  Product(const dnnl::engine& engine, Size size, Tag tag)
      : flops_(2.0 * static_cast<double>(size.m * size.k * size.n)) {
    using Type = memory::data_type;
    const memory::desc a({size.m, size.k}, Type::f32, Tag::ab);
    const memory::desc b({size.k, size.n}, Type::f32, tag);
    const memory::desc bias({1, size.n}, Type::f32, Tag::ab);
    const memory::desc dst({size.m, size.n}, Type::f32, Tag::ab);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc pd(engine, a, b, bias, dst, attr);
    name_ = pd.impl_info_str();
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

  [[nodiscard]] const std::string& name() const { return name_; }

  /// Runs for a few milliseconds; the rate goes up to the best so far.
  void run(dnnl::stream& stream) {
    using Clock = std::chrono::steady_clock;
    const auto enough = std::chrono::milliseconds(4);
    const auto start = Clock::now();
    do {
      const auto before = Clock::now();
      primitive_.execute(stream, args_);
      const std::chrono::duration<double> taken = Clock::now() - before;
      best_ = std::max(best_, flops_ / taken.count() * 1e-9);
    } while (Clock::now() - start < enough);
  }

  [[nodiscard]] double gflops_per_second() const { return best_; }

 private:
  double flops_, best_ = 0;
  std::string name_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> args_;
};

/// A product that oneDNN computes by a reference kernel has no place here.
bool is_reference(const Product& product) { return product.name().contains("ref"); }

void measure(const dnnl::engine& engine, dnnl::stream& stream, Size size, int rounds) {
  std::vector<std::pair<const char*, Product>> products;
  for (const Packing& packing : kPackings)
    if (Product product(engine, size, packing.tag); !is_reference(product))
      products.emplace_back(packing.name, std::move(product));
  for (int round = 0; round < rounds; ++round)
    for (auto& [name, product] : products) product.run(stream);
  std::printf("%lldx%lldx%lld", static_cast<long long>(size.m), static_cast<long long>(size.k),
              static_cast<long long>(size.n));
  for (const auto& [name, product] : products)
    std::printf("  %s %.1f", name, product.gflops_per_second());
  std::printf("  (%s)\n", products.empty() ? "none" : products.front().second.name().c_str());
  std::fflush(stdout);
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
  for (const Size& size : sizes) measure(engine, stream, size, rounds);
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
