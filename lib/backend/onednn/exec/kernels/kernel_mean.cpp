#include <algorithm>

#include "ctxgen/base/simd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels_reduce.h"

namespace ctxgen::onednn {
namespace {

constexpr std::int64_t kRowsAtOnce = 4;

/// sums[i] = the sum of in[row * n + i] over the rows.
constexpr auto add_rows =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t rows, std::int64_t n, const float* in, float* sums) {
      for (std::int64_t i = 0; i < n; ++i) sums[i] = in[i];
      std::int64_t row = 1;
      for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) {
        const float* a = in + row * n;
        const float *b = a + n, *c = b + n, *d = c + n;
        for (std::int64_t i = 0; i < n; ++i) sums[i] += (a[i] + b[i]) + (c[i] + d[i]);
      }
      for (; row < rows; ++row)
        for (std::int64_t i = 0; i < n; ++i) sums[i] += in[row * n + i];
    });

/// out[i] = the sum of sums[part * n + i] over the parts, divided by `count`.
constexpr auto join_parts =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t parts, std::int64_t n, double count,
                                  const float* sums, float* out) {
      for (std::int64_t i = 0; i < n; ++i) {
        double sum = sums[i];
        for (std::int64_t part = 1; part < parts; ++part) sum += double{sums[part * n + i]};
        out[i] = static_cast<float>(sum / count);
      }
    });

class MeanKernel final : public Kernel {
 public:
  explicit MeanKernel(const MeanShape& shape) : shape_(shape) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    auto* dst = reinterpret_cast<float*>(args[1]);
    auto* sums = reinterpret_cast<float*>(args[2]);
    const std::int64_t parts = shape_.parts(), rows = shape_.part_rows();
    const std::int64_t image = shape_.pixels * shape_.channels;
    parallel_for(workers, shape_.images * parts, shape_.images * image, [&](std::int64_t job) {
      const std::int64_t first = job % parts * rows;
      add_rows(std::min(rows, shape_.pixels - first), shape_.channels,
               src + job / parts * image + first * shape_.channels, sums + job * shape_.channels);
    });
    for (std::int64_t i = 0; i < shape_.images; ++i)
      join_parts(parts, shape_.channels, static_cast<double>(shape_.pixels),
                 sums + i * parts * shape_.channels, dst + i * shape_.channels);
    return {};
  }

 private:
  MeanShape shape_;
};

}  // namespace

std::int64_t MeanShape::part_rows() const {
  constexpr std::int64_t kPartElements = 8 * 1024, kMostParts = 16;
  const std::int64_t wanted =
      std::clamp<std::int64_t>(pixels * channels / kPartElements, 1, kMostParts);
  return std::max<std::int64_t>((pixels + wanted - 1) / wanted, 1);
}

std::int64_t MeanShape::parts() const { return (pixels + part_rows() - 1) / part_rows(); }

std::shared_ptr<const Kernel> make_mean_kernel(const MeanShape& shape) {
  return std::make_shared<MeanKernel>(shape);
}

}  // namespace ctxgen::onednn
