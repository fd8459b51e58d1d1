#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/workers.h"

#include "kernels/kernels_reduce.h"
#include "random_floats.h"

namespace ctxgen::onednn {
namespace {

using Floats = std::vector<float>;

Floats mean_of(const MeanShape& shape, Floats src, Workers& workers) {
  Floats out(static_cast<std::size_t>(shape.images * shape.channels) + 1, -77);
  Floats scratch(shape.scratch_bytes() / sizeof(float) + 1, -55);
  const auto bytes = [](Floats& list) { return reinterpret_cast<std::byte*>(list.data()); };
  std::byte* const args[] = {bytes(src), bytes(out), bytes(scratch)};
  EXPECT_TRUE(make_mean_kernel(shape)->run(args, workers));
  EXPECT_EQ(out.back(), -77) << "wrote beyond the result";
  EXPECT_EQ(scratch.back(), -55) << "wrote beyond the scratch";
  out.pop_back();
  return out;
}

TEST(MeanKernel, IsCloseToDoublePrecisionForAnyTeam) {
  OneThread one;
  StartedThreads three(3);
  for (const std::int64_t images : {1, 3})
    for (const std::int64_t pixels : {1, 2, 3, 5, 17, 49, 196, 12544})
      for (const std::int64_t channels : {1, 7, 16, 96, 1280}) {
        if (pixels * channels > 2'000'000) continue;
        const MeanShape shape{images, pixels, channels};
        const Floats src = ctxgen::test::random_floats(images * pixels * channels, 0.5F, 1, 1);
        const Floats got = mean_of(shape, src, one);
        EXPECT_EQ(mean_of(shape, src, three), got) << pixels << " x " << channels;
        for (std::int64_t i = 0; i < images * channels; ++i) {
          const float* first = src.data() + i / channels * pixels * channels + i % channels;
          double sum = 0, terms = 0;
          for (std::int64_t p = 0; p < pixels; ++p) {
            sum += double{first[p * channels]};
            terms += std::fabs(double{first[p * channels]});
          }
          const auto count = static_cast<double>(pixels);
          ASSERT_NEAR(double{got[static_cast<std::size_t>(i)]}, sum / count,
                      0x1p-24 * (1 + std::sqrt(count)) * terms / count)
              << pixels << " x " << channels << " at " << i;
        }
      }
}

TEST(MeanKernel, KeepsNanAndInfinityInTheirChannel) {
  OneThread one;
  constexpr std::int64_t kChannels = 40, kPixels = 300;
  Floats src(kPixels * kChannels, 1);
  src[150 * kChannels + 3] = std::numeric_limits<float>::quiet_NaN();
  src[299 * kChannels + 39] = -std::numeric_limits<float>::infinity();
  const Floats got = mean_of({1, kPixels, kChannels}, src, one);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i == 3)
      EXPECT_TRUE(std::isnan(got[i]));
    else
      EXPECT_EQ(got[i], i == 39 ? -std::numeric_limits<float>::infinity() : 1.0F) << i;
  }
}

}  // namespace
}  // namespace ctxgen::onednn
