#include "ctxgen/kernels/activate.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

// Against double precision, over floats of all magnitudes: at the instruction set that the process may
// use, so a run with --isa covers another one.
namespace ctxgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double exact(Activation function, double x) {
  switch (function) {
    case Activation::kErf: return std::erf(x);
    case Activation::kExp: return std::exp(x);
    case Activation::kGeluErf: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kLog: return std::log(x);
    case Activation::kLogistic: return 1 / (1 + std::exp(-x));
    case Activation::kSwish: return x / (1 + std::exp(-x));
    case Activation::kTanh: return std::tanh(x);
  }
  return 0;
}

/// How a result may differ: by units in the last place of the exact one, or by a number.
struct Bound {
  Activation function;
  const char* name;
  double low, high;  // of x
  double ulp, absolute;
};
void PrintTo(const Bound& bound, std::ostream* out) { *out << bound.name; }

double unit_of(double value) {
  const auto magnitude = static_cast<float>(std::fabs(value));
  if (!(magnitude < std::numeric_limits<float>::max())) return std::ldexp(1, 104);
  return static_cast<double>(std::nextafter(magnitude, kInfinity)) - double{magnitude};
}

/// Every `step`th float of [low, high], both signs.
std::vector<float> samples(const Bound& bound) {
  constexpr std::uint32_t kStep = 4999;
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(kInfinity); bits += kStep)
    for (const float sign : {1.0F, -1.0F}) {
      const float x = std::copysign(std::bit_cast<float>(bits), sign);
      if (x >= bound.low && x <= bound.high) values.push_back(x);
    }
  return values;
}

class Activations : public testing::TestWithParam<Bound> {};

TEST_P(Activations, AreAsExactAsTheirHeaderSays) {
  const Bound& bound = GetParam();
  const std::vector<float> in = samples(bound);
  std::vector<float> out(in.size());
  activate(bound.function, 1, std::ssize(in), in.data(), out.data());
  double most_ulp = 0, at_ulp = 0, most_absolute = 0, at_absolute = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double expected = exact(bound.function, in[i]);
    if (std::isinf(static_cast<float>(expected))) {
      EXPECT_EQ(out[i], static_cast<float>(expected)) << in[i];
      continue;
    }
    const double error = std::fabs(double{out[i]} - expected);
    ASSERT_EQ(error, error) << in[i] << " gives " << out[i];
    if (std::fabs(expected) < double{std::numeric_limits<float>::min()}) {
      EXPECT_LE(error, double{std::numeric_limits<float>::min()}) << in[i];
      continue;
    }
    if (error / unit_of(expected) > most_ulp) most_ulp = error / unit_of(expected), at_ulp = in[i];
    if (error > most_absolute) most_absolute = error, at_absolute = in[i];
  }
  EXPECT_TRUE(most_ulp <= bound.ulp || most_absolute <= bound.absolute)
      << most_ulp << " ulp at " << at_ulp << ", " << most_absolute << " at " << at_absolute;
  RecordProperty("ulp", std::to_string(most_ulp));
  RecordProperty("absolute", std::to_string(most_absolute * 1e9) + "e-9");
}

INSTANTIATE_TEST_SUITE_P(
    All, Activations,
    testing::Values(Bound{Activation::kErf, "erf", -1e30, 1e30, 3, 0},
                    Bound{Activation::kExp, "exp", -1e30, 1e30, 2, 0},
                    Bound{Activation::kGeluErf, "gelu_erf", -10, 10, 0, 3e-7},
                    Bound{Activation::kGeluErf, "gelu_erf_far", 10, 1e30, 2, 0},
                    Bound{Activation::kGeluErf, "gelu_erf_low", -1e30, -10, 0, 3e-8},
                    Bound{Activation::kGeluTanh, "gelu_tanh", 0, 1e12, 5, 0},
                    Bound{Activation::kGeluTanh, "gelu_tanh_low", -1e12, 0, 0, 1e-6},
                    Bound{Activation::kLog, "log", 0, 1e39, 1, 0},
                    Bound{Activation::kLogistic, "logistic", -1e30, 1e30, 3, 0},
                    Bound{Activation::kSwish, "swish", -80, 1e30, 4, 0},
                    Bound{Activation::kTanh, "tanh", -1e30, 1e30, 2, 0}),
    [](const auto& test) { return test.param.name; });

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

class AllActivations : public testing::TestWithParam<Activation> {};

/// The same for all elements, wherever they are: a row's last ones go through other instructions.
TEST_P(AllActivations, DoNotDependOnThePlaceInTheRow) {
  const std::vector<float> in{-3.5F, -1, -0.25F, 0, 0.5F, 0.9F, 2, 7};
  float alone[8];
  for (std::size_t i = 0; i < 8; ++i) activate(GetParam(), 1.5F, 1, &in[i], &alone[i]);
  for (std::int64_t n = 0; n <= 67; ++n) {
    std::vector<float> row(static_cast<std::size_t>(n) + 1, -77);
    for (std::int64_t i = 0; i < n; ++i) row[static_cast<std::size_t>(i)] = in[i % 8];
    activate(GetParam(), 1.5F, n, row.data(), row.data());
    for (std::int64_t i = 0; i < n; ++i)
      EXPECT_EQ(bits_of(row[static_cast<std::size_t>(i)]), bits_of(alone[i % 8]));
    EXPECT_EQ(row.back(), -77) << "wrote beyond " << n;
  }
}

TEST_P(AllActivations, OfNanAreNan) {
  const std::vector<float> in(35, kNan);
  std::vector<float> out(35, 0);
  activate(GetParam(), 1, 35, in.data(), out.data());
  for (const float y : out) EXPECT_TRUE(std::isnan(y));
}

INSTANTIATE_TEST_SUITE_P(All, AllActivations,
                         testing::Values(Activation::kErf, Activation::kExp, Activation::kGeluErf,
                                         Activation::kGeluTanh, Activation::kLog,
                                         Activation::kLogistic, Activation::kSwish,
                                         Activation::kTanh));

float at(Activation function, float x) {
  float y = 0;
  activate(function, 1, 1, &x, &y);
  return y;
}

/// What is rounded down after a logarithm, as in the buckets of relative positions, depends on it.
TEST(Logarithm, IsTheNearestFloatAtPowersOfTwo) {
  for (int n = -149; n < 128; ++n) {
    const double x = std::ldexp(1.0, n);
    EXPECT_EQ(at(Activation::kLog, static_cast<float>(x)), static_cast<float>(std::log(x))) << n;
  }
}

TEST(ActivationsOfInfinity, AreTheLimits) {
  EXPECT_EQ(at(Activation::kErf, kInfinity), 1);
  EXPECT_EQ(at(Activation::kErf, -kInfinity), -1);
  EXPECT_EQ(at(Activation::kExp, kInfinity), kInfinity);
  EXPECT_EQ(at(Activation::kExp, -kInfinity), 0);
  EXPECT_EQ(at(Activation::kGeluErf, kInfinity), kInfinity);
  EXPECT_EQ(at(Activation::kGeluTanh, kInfinity), kInfinity);
  EXPECT_EQ(at(Activation::kLog, kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(at(Activation::kLog, -kInfinity)));
  EXPECT_EQ(at(Activation::kLogistic, kInfinity), 1);
  EXPECT_EQ(at(Activation::kLogistic, -kInfinity), 0);
  EXPECT_EQ(at(Activation::kSwish, kInfinity), kInfinity);
  for (const Activation product : {Activation::kGeluErf, Activation::kGeluTanh, Activation::kSwish})
    EXPECT_TRUE(std::isnan(at(product, -kInfinity)));  // minus infinity times 0
  EXPECT_EQ(at(Activation::kTanh, kInfinity), 1);
  EXPECT_EQ(at(Activation::kTanh, -kInfinity), -1);
}

}  // namespace
}  // namespace ctxgen::kernels
