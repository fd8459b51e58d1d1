#include <algorithm>
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
using ctxgen::test::random_floats;

std::byte* bytes_of(const Floats& list) {
  return reinterpret_cast<std::byte*>(const_cast<float*>(list.data()));
}

struct GroupNormCase {
  GroupNormShape shape;
  std::vector<PointStage> then = {};

  [[nodiscard]] std::int64_t elements() const {
    return shape.images * shape.channels * shape.pixels;
  }
  [[nodiscard]] Floats run(const Floats& src, const Floats& scale, const Floats& shift,
                           Workers& workers) const {
    Floats dst(src.size(), -77);
    std::vector<double> scratch((shape.scratch_bytes() + 7) / 8);  // aligned
    std::vector<std::byte*> args{bytes_of(src), bytes_of(dst)};
    if (shape.has_scale) args.push_back(bytes_of(scale));
    if (shape.has_shift) args.push_back(bytes_of(shift));
    args.push_back(reinterpret_cast<std::byte*>(scratch.data()));
    EXPECT_TRUE(make_group_norm_kernel(shape, then)->run(args.data(), workers));
    return dst;
  }
  [[nodiscard]] std::size_t place(std::int64_t image, std::int64_t channel,
                                  std::int64_t pixel) const {
    const std::int64_t first = image * shape.channels * shape.pixels;
    return static_cast<std::size_t>(shape.channels_last ? first + pixel * shape.channels + channel
                                                        : first + channel * shape.pixels + pixel);
  }
  void check(const Floats& src, const Floats& scale, const Floats& shift, const Floats& got) const {
    const auto count = static_cast<double>(shape.group_elements());
    for (std::int64_t group = 0; group < shape.images * shape.groups; ++group) {
      const std::int64_t image = group / shape.groups;
      const std::int64_t first = group % shape.groups * shape.group_size();
      double mean = 0, squares = 0;
      const auto each = [&](const auto& visit) {
        for (std::int64_t c = first; c < first + shape.group_size(); ++c)
          for (std::int64_t p = 0; p < shape.pixels; ++p) visit(c, place(image, c, p));
      };
      each([&](std::int64_t, std::size_t at) { mean += double{src[at]} / count; });
      each([&](std::int64_t, std::size_t at) {
        squares += (double{src[at]} - mean) * (double{src[at]} - mean) / count;
      });
      const double factor = 1 / std::sqrt(squares + double{shape.epsilon});
      double worst = 0;
      each([&](std::int64_t c, std::size_t at) {
        double y = (double{src[at]} - mean) * factor;
        if (shape.has_scale) y *= double{scale[static_cast<std::size_t>(c)]};
        if (shape.has_shift) y += double{shift[static_cast<std::size_t>(c)]};
        if (!then.empty()) y = std::max(y, 0.0);
        worst = std::max(worst, std::fabs(y - double{got[at]}) / (1 + std::fabs(y)));
      });
      EXPECT_LE(worst, 1e-6) << "group " << group;
    }
  }
};

/// Groups within one chunk and over several, and the same bits on any number of threads.
TEST(GroupNormKernel, AgreesWithDoublePrecisionOnAnyNumberOfThreads) {
  const PointStage relu{.op = PointOp::kRelu, .strides = {}};
  for (const bool last : {false, true})
    for (const auto& [images, channels, pixels, groups] : {std::array<std::int64_t, 4>{2, 6, 35, 3},
                                                           {1, 4, 40000, 1},
                                                           {2, 4, 40000, 4},
                                                           {1, 40, 5000, 5},
                                                           {3, 7, 1, 7},
                                                           {1, 2, 70000, 2},
                                                           {1, 1030, 70, 2}}) {
      GroupNormCase c{.shape = {.images = images,
                                .channels = channels,
                                .pixels = pixels,
                                .groups = groups,
                                .epsilon = 1e-3F,
                                .channels_last = last,
                                .has_scale = images != 3,
                                .has_shift = groups != 1}};
      if (pixels > 1000) c.then.push_back(relu);
      SCOPED_TRACE(testing::Message() << images << "x" << channels << "x" << pixels << " in "
                                      << groups << (last ? ", channels last" : ""));
      const Floats src = random_floats(c.elements(), 30, 2, 1);
      const Floats scale = random_floats(channels, 0, 2, 2),
                   shift = random_floats(channels, 0, 2, 3);
      OneThread one;
      const Floats got = c.run(src, scale, shift, one);
      c.check(src, scale, shift, got);
      StartedThreads three(3);
      EXPECT_EQ(c.run(src, scale, shift, three), got);
    }
}

TEST(GroupNormKernel, KeepsNanToItsGroup) {
  for (const bool last : {false, true})
    for (const std::int64_t pixels : {9, 40000}) {
      const GroupNormCase c{.shape = {.images = 2,
                                      .channels = 4,
                                      .pixels = pixels,
                                      .groups = 2,
                                      .epsilon = 1e-3F,
                                      .channels_last = last,
                                      .has_scale = false,
                                      .has_shift = false}};
      Floats src = random_floats(c.elements(), 0, 2, 1);
      src[c.place(1, 2, pixels - 1)] = std::numeric_limits<float>::quiet_NaN();
      OneThread one;
      const Floats got = c.run(src, {}, {}, one);
      for (std::int64_t i = 0; i < 2; ++i)
        for (std::int64_t channel = 0; channel < 4; ++channel)
          for (std::int64_t p = 0; p < pixels; p += 4)
            ASSERT_EQ(std::isnan(got[c.place(i, channel, p)]), i == 1 && channel >= 2);
    }
}

TEST(NormKernel, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const bool centred : {false, true}) {
    const NormShape shape{.rows = 1000,
                          .width = 100,
                          .epsilon = 1e-5F,
                          .centred = centred,
                          .has_scale = true,
                          .has_shift = centred};
    const Floats src = random_floats(100000, 3, 2, 1), scale = random_floats(100, 0, 2, 2),
                 shift = random_floats(100, 0, 2, 3);
    const auto run = [&](Workers& workers) {
      Floats dst(src.size());
      std::byte* args[] = {bytes_of(src), bytes_of(dst), bytes_of(scale), bytes_of(shift)};
      EXPECT_TRUE(make_norm_kernel(shape)->run(args, workers));
      return dst;
    };
    OneThread one;
    StartedThreads three(3);
    EXPECT_EQ(run(one), run(three));
  }
}

}  // namespace
}  // namespace ctxgen::onednn
