// How fast rows are rounded to bytes and multiplied by packed matrices of bytes: the figures of docs/onednn.md,
// "Products of bytes". The instruction set is the one that ONEDNN_MAX_CPU_ISA leaves.
//
//     ./dev build release bench_bytes
//     OMP_NUM_THREADS=1 ./dev build/release/bench/bench_bytes [--rounds N] [--spread S] [MxKxN...] [conv:SIZE,CHANNELS,KERNEL,N...]
//
// Prints a line per product, the best of N rounds with the matrix in a cache: GOP/s and GB/s of the packed
// bytes, GOP/s where the result is bytes, and nanoseconds per rounded element. Of convolutions of square images, with zero points and as many
// results as pixels: microseconds to gather their windows, 240 at a time, and to multiply them. --spread S: the
// matrices' elements have a normal distribution of so much, held within s8, as those of trained networks; without
// it they have all values.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/kernels/byte_windows.h"
#include "ctxgen/kernels/dynamic_quantize.h"

#include "standalone.h"

namespace bench {
namespace {

using namespace ctxgen::kernels;  // NOLINT(google-build-using-namespace): a program of one file

struct Free {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{4096}); }
};
using Memory = std::unique_ptr<std::byte[], Free>;

Memory memory_of(std::uint64_t bytes) {
  return Memory(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{4096})));
}

struct Size {
  std::int64_t m, k, n;
};

/// An element of a matrix.
std::uint8_t element(std::mt19937& random, double spread) {
  if (spread <= 0) return static_cast<std::uint8_t>(random());
  const double value = std::normal_distribution<double>(0, spread)(random);
  return static_cast<std::uint8_t>(std::lround(std::clamp(value, -127.0, 127.0)));
}

void measure(Size size, int rounds, double spread) {
  OmpWorkers workers;
  std::mt19937 random(1);
  const ByteMatrix matrix{.k = size.k, .n = size.n, .limits = true};
  std::vector<std::uint8_t> b(static_cast<std::size_t>(size.k * size.n));
  std::ranges::generate(b, [&] { return element(random, spread); });
  const std::uint64_t bytes = packed_bytes(matrix);
  const Memory packed = memory_of(bytes);
  pack(matrix, {.is_signed = true, .values = b.data()}, packed.get());
  const Memory scratch = memory_of(scratch_bytes(matrix, size.m).value());
  std::vector<float> x(static_cast<std::size_t>(size.m * size.k)), scales(b.size(), 0.01F);
  std::ranges::generate(x, [&] { return static_cast<float>(random() % 10000) / 5000 - 1; });
  std::vector<std::uint8_t> a(x.size());
  std::vector<float> out(static_cast<std::size_t>(size.m * size.n));
  std::vector<std::uint8_t> bytes_out(out.size());
  float scale = 0;
  std::uint8_t zero = 0;
  double rounding = 1e9, product = 1e9, to_bytes = 1e9;
  for (int round = 0; round < rounds; ++round) {
    rounding = std::min(rounding, seconds_of([&] {
                          dynamic_quantize({.count = size.m * size.k,
                                            .x = x.data(),
                                            .y = a.data(),
                                            .scale = &scale,
                                            .zero = &zero},
                                           workers);
                        }));
    ByteProduct multiply{.matrix = matrix,
                         .rows = size.m,
                         .a = a.data(),
                         .a_zero = &zero,
                         .packed = packed.get(),
                         .out = out.data(),
                         .a_scale = &scale,
                         .b_scales = scales.data(),
                         .scale_per_column = true,
                         .bias = scales.data(),
                         .scratch = scratch.get()};
    product = std::min(product, seconds_of([&] { byte_product(multiply, workers); }));
    multiply.bytes = bytes_out.data();
    multiply.steps = {.scale = 0.05F, .zero = 3, .least = -3, .most = 252};
    to_bytes = std::min(to_bytes, seconds_of([&] { byte_product(multiply, workers); }));
  }
  const double operations =
      2e-9 * static_cast<double>(size.m * size.k) * static_cast<double>(size.n);
  std::printf(
      "%4ld x %5ld x %5ld  product %8.3f ms %7.1f GOP/s %6.1f GB/s   in bytes %7.1f GOP/s   rounding %6.3f ns\n",
      static_cast<long>(size.m), static_cast<long>(size.k), static_cast<long>(size.n),
      product * 1e3, operations / product, static_cast<double>(bytes) / 1e9 / product,
      operations / to_bytes, rounding * 1e9 / static_cast<double>(size.m * size.k));
}

/// A convolution of a square image that keeps its size.
struct ConvSize {
  std::int64_t size, channels, kernel, n;
};

void measure_conv(const ConvSize& conv, int rounds) {
  constexpr std::int64_t kPart = 240;
  OmpWorkers workers;
  std::mt19937 random(1);
  const Windows windows{.size = {conv.size, conv.size},
                        .result = {conv.size, conv.size},
                        .kernel = {conv.kernel, conv.kernel},
                        .pad = {conv.kernel / 2, conv.kernel / 2},
                        .channels = conv.channels,
                        .pitch = conv.channels};
  const ByteMatrix matrix{.k = windows.depth(), .n = conv.n, .zeros = true, .limits = true};
  const std::int64_t stride = (matrix.k + 3) / 4 * 4;
  std::vector<std::uint8_t> image(static_cast<std::size_t>(conv.size * conv.size * conv.channels));
  std::vector<std::uint8_t> b(static_cast<std::size_t>(matrix.k * matrix.n));
  for (std::vector<std::uint8_t>* bytes : {&image, &b})
    std::ranges::generate(*bytes, [&] { return static_cast<std::uint8_t>(random()); });
  const std::uint8_t zero = 117;
  const Memory packed = memory_of(packed_bytes(matrix));
  pack(matrix, {.values = b.data(), .zeros = &zero}, packed.get());
  const Memory scratch = memory_of(scratch_bytes(matrix, kPart).value());
  const Memory rows = memory_of(static_cast<std::uint64_t>(kPart * stride));
  auto* gathered = reinterpret_cast<std::uint8_t*>(rows.get());
  std::vector<float> out(static_cast<std::size_t>(windows.rows() * conv.n));
  double gather = 1e9, product = 1e9;
  for (int round = 0; round < rounds; ++round) {
    double gathering = 0, multiplying = 0;
    for (std::int64_t row = 0; row < windows.rows(); row += kPart) {
      const std::int64_t count = std::min(kPart, windows.rows() - row);
      gathering += seconds_of(
          [&] { gather_windows(windows, image.data(), zero, row, count, stride, gathered); });
      multiplying += seconds_of([&] {
        byte_product({.matrix = matrix,
                      .rows = count,
                      .a = gathered,
                      .a_stride = stride,
                      .a_zero = &zero,
                      .packed = packed.get(),
                      .out = out.data() + row * conv.n,
                      .scratch = scratch.get()},
                     workers);
      });
    }
    gather = std::min(gather, gathering);
    product = std::min(product, multiplying);
  }
  std::printf("%ld x %ld x %ld by %ld x %ld to %ld  gather %8.1f us  multiply %8.1f us\n",
              static_cast<long>(conv.size), static_cast<long>(conv.size),
              static_cast<long>(conv.channels), static_cast<long>(conv.kernel),
              static_cast<long>(conv.kernel), static_cast<long>(conv.n), gather * 1e6,
              product * 1e6);
}

int run(const std::vector<std::string>& arguments) {
  int rounds = 200;
  double spread = 0;
  std::vector<Size> sizes;
  std::vector<ConvSize> convs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Size size{};
    ConvSize conv{};
    if (arguments[i] == "--rounds")
      rounds = std::stoi(arguments.at(++i));
    else if (arguments[i] == "--spread")
      spread = std::stod(arguments.at(++i));
    else if (std::sscanf(arguments[i].c_str(), "%ldx%ldx%ld", &size.m, &size.k, &size.n) == 3)
      sizes.push_back(size);
    else if (std::sscanf(arguments[i].c_str(), "conv:%ld,%ld,%ld,%ld", &conv.size, &conv.channels,
                         &conv.kernel, &conv.n) == 4)
      convs.push_back(conv);
  }
  if (sizes.empty() && convs.empty()) {
    sizes = {{128, 768, 768}, {128, 768, 3072}, {128, 3072, 768}, {64, 384, 384},
             {64, 384, 1536}, {64, 1536, 384},  {1, 768, 3072}};
    convs = {{28, 1, 5, 8}, {14, 8, 5, 16}, {56, 3, 3, 32}, {56, 64, 3, 64}, {7, 512, 3, 512}};
  }
  for (const Size& size : sizes) measure(size, rounds, spread);
  for (const ConvSize& conv : convs) measure_conv(conv, rounds);
  return 0;
}

}  // namespace
}  // namespace bench

int main(int count, char** words) { return bench::run_program("bytes", count, words, bench::run); }
