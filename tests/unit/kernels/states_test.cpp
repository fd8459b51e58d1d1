// Operators that keep a state: against double precision, however they are cut, in place, and with NaN.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/kernels/causal_conv.h"
#include "ctxgen/kernels/linear_attention.h"

#include "random_floats.h"
#include "worst_error.h"

namespace ctxgen::kernels {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  std::int64_t images = 1, steps = 1, q_heads = 1, k_heads = 1, states = 1, size = 1, width = 1;
  std::int64_t decays = 0, rates = 0;  // 0: none
  bool past = true;
};

/// The arrays of a case; `out` and `present` have room before and after, which nothing may write.
struct Arrays {
  static constexpr std::size_t kRoom = 16;
  Floats q, k, v, past, decay, rate, out, present;

  explicit Arrays(const Case& c) {
    const std::int64_t tokens = c.images * c.steps;
    auto numbers = [seed = 1U](std::int64_t n, float mean, float deviation) mutable {
      return test::random_floats(n, mean, deviation, seed++);
    };
    q = numbers(tokens * c.q_heads * c.size, 0, 1);
    k = numbers(tokens * c.k_heads * c.size, 0, 1 / std::sqrt(static_cast<float>(c.size + 1)));
    v = numbers(tokens * c.states * c.width, 0, 1);
    past = numbers(c.images * c.states * c.size * c.width, 0, 1);
    decay = numbers(tokens * c.states * c.decays, 0.7F, 0.1F);
    rate = numbers(tokens * c.rates, 0.5F, 0.2F);
    const std::int64_t outputs = std::max(c.q_heads, c.states);
    out.assign(static_cast<std::size_t>(tokens * outputs * c.width) + 2 * kRoom, -77);
    present.assign(past.size() + 2 * kRoom, -77);
  }

  LinearAttention described(const Case& c) {
    return {.images = c.images,
            .steps = c.steps,
            .q_heads = c.q_heads,
            .k_heads = c.k_heads,
            .states = c.states,
            .size = c.size,
            .width = c.width,
            .q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .past = c.past ? past.data() : nullptr,
            .decay = c.decays == 0 ? nullptr : decay.data(),
            .decays = c.decays == 0 ? 1 : c.decays,
            .rate = c.rates == 0 ? nullptr : rate.data(),
            .rates = c.rates == 0 ? 1 : c.rates,
            .scale = 0.5F,
            .out = out.data() + kRoom,
            .present = present.data() + kRoom};
  }

  void expect_room() const {
    for (const Floats* list : {&out, &present})
      for (std::size_t i = 0; i < kRoom; ++i) {
        EXPECT_EQ((*list)[i], -77);
        EXPECT_EQ((*list)[list->size() - 1 - i], -77);
      }
  }
};

void run_all(const LinearAttention& a, std::int64_t columns) {
  for (std::int64_t image = 0; image < a.images; ++image)
    for (std::int64_t state = 0; state < a.states; ++state)
      for (std::int64_t first = 0; first < a.width; first += columns)
        attend_linearly(a, image, state, first, std::min(columns, a.width - first));
}

/// In double precision; `absolute`: with the absolute value of every term, which bounds errors.
struct Expected {
  Doubles out, present;

  Expected(const LinearAttention& a, bool absolute) {
    const auto of = [absolute](float x) { return absolute ? std::fabs(double{x}) : double{x}; };
    const double minus = absolute ? 1 : -1;
    const auto count = static_cast<std::size_t>(a.size * a.width);
    out.resize(static_cast<std::size_t>(a.images * a.steps * a.outputs() * a.width));
    for (std::int64_t i = 0; i < a.images * a.states; ++i) {
      const std::int64_t image = i / a.states, head = i % a.states;
      Doubles s(count);
      if (a.past != nullptr)
        std::transform(a.past + i * a.size * a.width, a.past + (i + 1) * a.size * a.width,
                       s.begin(), of);
      for (std::int64_t t = 0; t < a.steps; ++t) {
        const std::int64_t step = image * a.steps + t;
        const float* k = a.k + (step * a.k_heads + head / (a.states / a.k_heads)) * a.size;
        for (std::int64_t r = 0; r < a.size && a.decay != nullptr; ++r)
          for (std::int64_t j = 0; j < a.width; ++j)
            s[static_cast<std::size_t>(r * a.width + j)] *=
                of(a.decay[(step * a.states + head) * a.decays + (a.decays == 1 ? 0 : r)]);
        for (std::int64_t j = 0; j < a.width; ++j) {
          double value = of(a.v[(step * a.states + head) * a.width + j]);
          if (a.rate != nullptr) {
            for (std::int64_t r = 0; r < a.size; ++r)
              value += minus * of(k[r]) * s[static_cast<std::size_t>(r * a.width + j)];
            value *= of(a.rate[step * a.rates + (a.rates == 1 ? 0 : head)]);
          }
          for (std::int64_t r = 0; r < a.size; ++r)
            s[static_cast<std::size_t>(r * a.width + j)] += of(k[r]) * value;
        }
        const std::int64_t readers = a.outputs() / a.states;
        for (std::int64_t o = head * readers; o < (head + 1) * readers; ++o)
          for (std::int64_t j = 0; j < a.width; ++j) {
            const float* q = a.q + (step * a.q_heads + o / (a.outputs() / a.q_heads)) * a.size;
            double sum = 0;
            for (std::int64_t r = 0; r < a.size; ++r)
              sum += of(q[r]) * s[static_cast<std::size_t>(r * a.width + j)];
            out[static_cast<std::size_t>((step * a.outputs() + o) * a.width + j)] =
                sum * double{a.scale};
          }
      }
      present.insert(present.end(), s.begin(), s.end());
    }
  }
};

void expect_close(const Floats& actual, const Doubles& expected, const Doubles& bound,
                  std::int64_t roundings) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    test::note_error(double{actual[i + Arrays::kRoom]} - expected[i], bound[i]);
    ASSERT_NEAR(double{actual[i + Arrays::kRoom]}, expected[i],
                0x1p-24 * static_cast<double>(roundings) * bound[i] + 1e-30)
        << i;
  }
}

void check_case(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.steps << " steps, " << c.q_heads << " " << c.k_heads << " "
                                  << c.states << " heads, " << c.size << " x " << c.width
                                  << ", decays " << c.decays << ", rates " << c.rates);
  Arrays arrays(c);
  const LinearAttention a = arrays.described(c);
  run_all(a, linear_attention_columns());
  arrays.expect_room();
  const Expected expected(a, false), bound(a, true);
  const std::int64_t roundings = 2 * c.size + 6 * c.steps + 8;
  expect_close(arrays.out, expected.out, bound.out, roundings);
  expect_close(arrays.present, expected.present, bound.present, roundings);
  const Floats out = arrays.out, present = arrays.present;
  run_all(a, 3);
  EXPECT_EQ(arrays.out, out) << "cut elsewhere";
  EXPECT_EQ(arrays.present, present) << "cut elsewhere";
  if (!c.past) return;
  std::copy(arrays.past.begin(), arrays.past.end(), arrays.present.begin() + Arrays::kRoom);
  LinearAttention in_place = a;
  in_place.past = in_place.present;
  run_all(in_place, linear_attention_columns());
  EXPECT_EQ(arrays.out, out) << "in place";
  EXPECT_EQ(arrays.present, present) << "in place";
}

TEST(LinearAttention, IsCloseToDoublePrecision) {
  for (const std::int64_t steps : {0, 1, 2, 7})
    for (const auto& [size, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {3, 5}, {16, 64}, {19, 67}, {32, 8}, {5, 17}})
      for (const bool decays : {false, true})
        for (const std::int64_t rates : {0, 1, 2})
          check_case({.images = 2,
                      .steps = steps,
                      .q_heads = 2,
                      .k_heads = 2,
                      .states = 2,
                      .size = size,
                      .width = width,
                      .decays = decays ? 1 : 0,
                      .rates = rates});
  check_case({.steps = 70, .size = 16, .width = 16, .decays = 1, .past = false});
}

TEST(LinearAttention, SharesHeads) {
  using Heads = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  for (const auto& [q, k, states] :
       {Heads{4, 2, 2}, Heads{6, 1, 2}, Heads{1, 1, 4}, Heads{2, 4, 4}, Heads{2, 2, 6}})
    for (const std::int64_t decays : {std::int64_t{1}, std::int64_t{8}})
      for (const bool past : {false, true})
        check_case({.images = 2,
                    .steps = 3,
                    .q_heads = q,
                    .k_heads = k,
                    .states = states,
                    .size = 8,
                    .width = 20,
                    .decays = decays,
                    .rates = states,
                    .past = past});
}

TEST(LinearAttention, NothingOfAnEmptyState) {
  for (const auto& [size, width] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 4}, {4, 0}, {0, 0}})
    check_case({.steps = 2, .size = size, .width = width, .decays = 1, .rates = 1});
}

// A column has its own numbers: what is wrong in one stays there.
TEST(LinearAttention, NanAndInfinityStayInTheirColumn) {
  const Case c{.steps = 2, .size = 6, .width = 35, .decays = 1, .rates = 1};
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    Arrays arrays(c);
    arrays.v[20] = bad;
    run_all(arrays.described(c), linear_attention_columns());
    for (std::size_t i = 0; i < 35; ++i) {
      EXPECT_EQ(std::isfinite(arrays.out[Arrays::kRoom + i]), i != 20) << bad << " " << i;
      EXPECT_EQ(std::isfinite(arrays.present[Arrays::kRoom + i]), i != 20) << bad << " " << i;
    }
  }
}

// ---- CausalConv ----

struct ConvArrays {
  Floats x, weights, bias, past, out, present, scratch;
  CausalConv conv;

  ConvArrays(std::int64_t images, std::int64_t channels, std::int64_t length, std::int64_t taps,
             bool has_bias, bool has_past, bool swish) {
    auto numbers = [seed = 5U](std::int64_t n) mutable {
      return test::random_floats(n, 0, 1.5F, seed++);
    };
    x = numbers(images * channels * length);
    weights = numbers(channels * taps);
    bias = numbers(channels);
    past = numbers(images * channels * (taps - 1));
    out.assign(x.size() + 1, -77);
    present.assign(past.size() + 1, -77);
    conv = {.channels = channels,
            .length = length,
            .taps = taps,
            .x = x.data(),
            .weights = weights.data(),
            .bias = has_bias ? bias.data() : nullptr,
            .past = has_past ? past.data() : nullptr,
            .swish = swish,
            .out = out.data(),
            .present = present.data()};
    scratch.resize(static_cast<std::size_t>(causal_conv_scratch(conv)));
  }

  void run(std::int64_t images, std::int64_t at_once) {
    for (std::int64_t image = 0; image < images; ++image)
      for (std::int64_t c = 0; c < conv.channels; c += at_once)
        run_causal_conv(conv, image, c, std::min(at_once, conv.channels - c), scratch.data());
  }

  /// At position p of a row of all images' channels; negative: before.
  [[nodiscard]] double at(std::int64_t row, std::int64_t p) const {
    if (p >= 0) return double{conv.x[row * conv.length + p]};
    return conv.past == nullptr
               ? 0.0
               : double{past[static_cast<std::size_t>((row + 1) * conv.before() + p)]};
  }
};

void check_conv(std::int64_t channels, std::int64_t length, std::int64_t taps, bool bias, bool past,
                bool swish) {
  SCOPED_TRACE(testing::Message() << channels << " channels, length " << length << ", taps " << taps
                                  << bias << past << swish);
  constexpr std::int64_t kImages = 2;
  ConvArrays a(kImages, channels, length, taps, bias, past, swish);
  a.run(kImages, channels);
  for (std::int64_t row = 0; row < kImages * channels; ++row) {
    const std::int64_t channel = row % channels;
    for (std::int64_t i = 0; i < length; ++i) {
      double sum = bias ? double{a.bias[static_cast<std::size_t>(channel)]} : 0.0;
      double bound = std::fabs(sum);
      for (std::int64_t k = 0; k < taps; ++k) {
        const double term = double{a.weights[static_cast<std::size_t>(channel * taps + k)]} *
                            a.at(row, i - taps + 1 + k);
        sum += term;
        bound += std::fabs(term);
      }
      if (swish) sum /= 1 + std::exp(-sum);
      const double error = 0x1p-24 * static_cast<double>(2 * taps + 10) * (bound + 0.1);
      const double got = a.out[static_cast<std::size_t>(row * length + i)];
      test::note_error(got - sum, bound);
      ASSERT_NEAR(got, sum, error) << i;
    }
    for (std::int64_t i = 0; i < taps - 1; ++i)
      ASSERT_EQ(double{a.present[static_cast<std::size_t>(row * (taps - 1) + i)]},
                a.at(row, length - taps + 1 + i));
  }
  EXPECT_EQ(a.out.back(), -77);
  EXPECT_EQ(a.present.back(), -77);
  const Floats out = a.out, present = a.present;
  a.run(kImages, 3);
  EXPECT_EQ(a.present, present) << "cut elsewhere";
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_FLOAT_EQ(a.out[i], out[i]) << "cut elsewhere";
}

TEST(CausalConv, IsCloseToDoublePrecision) {
  for (const std::int64_t taps : {1, 2, 3, 4, 7})
    for (const std::int64_t length : {0, 1, 2, 5, 33})
      for (const std::int64_t channels : {1, 8, 21})
        for (int options = 0; options < 8; ++options)
          check_conv(channels, length, taps, (options & 1) != 0, (options & 2) != 0,
                     (options & 4) != 0);
}

TEST(CausalConv, KeepsItsStateInPlace) {
  for (const std::int64_t length : {1, 2, 9}) {
    ConvArrays a(1, 20, length, 4, true, true, true);
    a.run(1, 20);
    const Floats out = a.out;
    Floats state = a.past;
    a.conv.past = a.conv.present = state.data();
    a.run(1, 20);
    EXPECT_EQ(a.out, out);
    EXPECT_TRUE(std::equal(state.begin(), state.end(), a.present.begin()));
  }
}

TEST(CausalConv, NanStaysInItsChannel) {
  ConvArrays a(1, 20, 1, 4, true, true, true);
  a.x[7] = kNan;
  a.run(1, 20);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(a.out[i]), i == 7) << i;
}

}  // namespace
}  // namespace ctxgen::kernels
