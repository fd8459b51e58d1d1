// How fast products with packed 4-bit matrices are: the figures of docs/onednn.md, "Low-bit weights". The
// instruction set is the one that ONEDNN_MAX_CPU_ISA leaves.
//
//     ./dev build release bench_low_bit
//     OMP_NUM_THREADS=1 ./dev build/release/bench/bench_low_bit [--rounds N] [--bits N] [--block N] [MxKxN...]
//
// Prints a line per product, for f32 and for int8 rows: GB/s of the packed bytes and GFLOP/s, the best of
// N rounds in which all take turns, next to a plain read of the same bytes. Copies of the matrix, 256 MB
// in all, take turns, so that it comes from memory.

#include "ctxgen/kernels/low_bit.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "standalone.h"

namespace bench {
namespace {

using namespace ctxgen::kernels;  // NOLINT(google-build-using-namespace): a program of one file

struct Size {
  std::int64_t m, k, n;
};

std::byte* memory_of(std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096;
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

/// Sums of the words of `bytes` bytes, of which every thread reads a part.
std::uint64_t plain_read(const std::byte* data, std::uint64_t bytes) {
  std::uint64_t total = 0;
  const auto count = static_cast<std::int64_t>(bytes / 256);
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (std::int64_t i = 0; i < count; ++i) {
    using Line = std::uint64_t __attribute__((vector_size(64), aligned(64), may_alias));
    const auto* lines = reinterpret_cast<const Line*>(data + i * 256);
    const Line sum = lines[0] ^ lines[1] ^ lines[2] ^ lines[3];
    total += sum[0] ^ sum[7];
  }
  return total;
}

class Product {
 public:
  Product(Size size, std::int64_t bits, std::int64_t block)
      : size_(size), matrix_{size.k, size.n, bits, block, ZeroPoints::kMiddle} {
    std::mt19937 random(1);
    const std::int64_t blocks = matrix_.blocks();
    std::vector<std::uint8_t> values(static_cast<std::size_t>(size.n * blocks * block * bits / 8));
    for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random());
    const std::vector<float> scales(static_cast<std::size_t>(size.n * blocks), 0.01F);
    bytes_ = packed_bytes(matrix_);
    constexpr std::uint64_t kAll = 256U << 20U;
    copies_.resize(std::max<std::size_t>(1, kAll / bytes_));
    for (std::byte*& copy : copies_) {
      copy = memory_of(bytes_);
      if (&copy == copies_.data())
        pack(matrix_, {values.data(), scales.data(), nullptr, nullptr}, copy);
      else
        std::memcpy(copy, copies_[0], bytes_);
    }
    a_.resize(static_cast<std::size_t>(size.m * size.k));
    for (float& x : a_) x = static_cast<float>(random() % 1000) / 500 - 1;
    out_.resize(static_cast<std::size_t>(size.m * size.n));
    for (const auto compute : {LowBitCompute::kFloat, LowBitCompute::kInt8})
      scratch_[static_cast<std::size_t>(compute)] =
          memory_of(run_scratch_bytes(matrix_, compute, size.m).value() + 64);
  }
  ~Product() {
    for (std::byte* copy : copies_) std::free(copy);
    for (std::byte* scratch : scratch_) std::free(scratch);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void run(LowBitCompute compute) {
    low_bit_product({.matrix = matrix_,
                     .compute = compute,
                     .rows = size_.m,
                     .a = a_.data(),
                     .packed = next(),
                     .bias = nullptr,
                     .out = out_.data(),
                     .scratch = scratch_[static_cast<std::size_t>(compute)],
                     .run_scratch = true},
                    workers_);
  }
  void read() { seen_ += plain_read(next(), bytes_); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(size_.m * size_.k) * static_cast<double>(size_.n);
  }

 private:
  const std::byte* next() { return copies_[turn_++ % copies_.size()]; }
  Size size_;
  LowBitMatrix matrix_;
  std::uint64_t bytes_ = 0, seen_ = 0;
  std::size_t turn_ = 0;
  std::vector<std::byte*> copies_;
  std::vector<float> a_, out_;
  std::array<std::byte*, 2> scratch_{};
  OmpWorkers workers_;
};

void measure(Size size, std::int64_t bits, std::int64_t block, int rounds) {
  Product product(size, bits, block);
  std::array<double, 3> best{1e9, 1e9, 1e9};
  for (int round = 0; round < rounds; ++round) {
    best[0] = std::min(best[0], seconds_of([&] { product.read(); }));
    best[1] = std::min(best[1], seconds_of([&] { product.run(LowBitCompute::kFloat); }));
    best[2] = std::min(best[2], seconds_of([&] { product.run(LowBitCompute::kInt8); }));
  }
  const double bytes = static_cast<double>(product.bytes()) / 1e9, flops = product.flops() / 1e9;
  std::printf(
      "%4ld x %5ld x %5ld  read %6.1f GB/s   f32 %6.1f GB/s %7.1f GFLOP/s %8.3f ms   int8 "
      "%6.1f GB/s %7.1f GFLOP/s %8.3f ms\n",
      static_cast<long>(size.m), static_cast<long>(size.k), static_cast<long>(size.n),
      bytes / best[0], bytes / best[1], flops / best[1], best[1] * 1e3, bytes / best[2],
      flops / best[2], best[2] * 1e3);
}

int run(const std::vector<std::string>& arguments) {
  std::int64_t bits = 4, block = 32;
  int rounds = 40;
  std::vector<Size> sizes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto number = [&] { return std::stol(arguments.at(++i)); };
    Size size{};
    if (arguments[i] == "--rounds")
      rounds = static_cast<int>(number());
    else if (arguments[i] == "--bits")
      bits = number();
    else if (arguments[i] == "--block")
      block = number();
    else if (std::sscanf(arguments[i].c_str(), "%ldx%ldx%ld", &size.m, &size.k, &size.n) == 3)
      sizes.push_back(size);
  }
  if (sizes.empty())
    for (const auto& [k, n] : {std::pair{4096, 4096}, {576, 1536}, {2048, 8192}})
      for (const std::int64_t m : {1, 64, 512}) sizes.push_back({m, k, n});
  for (const Size& size : sizes) measure(size, bits, block, rounds);
  return 0;
}

}  // namespace
}  // namespace bench

int main(int count, char** words) {
  return bench::run_program("low_bit", count, words, bench::run);
}
