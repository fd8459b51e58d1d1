#include "ctxgen/runtime/numerics.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/runtime/verify.h"

namespace ctxgen {
namespace {

template <class T>
Tensor tensor_of(DataType type, const std::vector<T>& values) {
  Tensor tensor = *Tensor::allocate(type, Dims{static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.mutable_elements<T>().begin());
  return tensor;
}
Tensor floats(const std::vector<float>& values) { return tensor_of(DataType::kFloat, values); }

Comparison compared(const Tensor& actual, const Tensor& expected, const Roundings& roundings) {
  return compare(RuntimeValue(actual), RuntimeValue(expected), roundings, {});
}

TEST(Tolerance, FollowsTheCoarsestTypeInsideAndNotThatOfTheOutput) {
  const struct {
    DataType inside;
    double unit;
    const char* row;
  } kRows[] = {{DataType::kDouble, 0x1p-23, "f32"},
               {DataType::kFloat, 0x1p-23, "f32"},
               {DataType::kFloat16, 0x1p-10, "f16"},
               {DataType::kBfloat16, 0x1p-7, "bf16"}};
  for (const auto& [inside, unit, name] : kRows) {
    const ToleranceRow row = tolerance_for({.coarsest = inside}, DataType::kFloat, {});
    EXPECT_EQ(row.name, name);
    EXPECT_EQ(row.tolerance.rtol, 8 * unit);
    EXPECT_TRUE(row.tolerance.from_scale);
  }
  EXPECT_EQ(tolerance_for({.coarsest = DataType::kDouble}, DataType::kDouble, {}).name, "f64");
}

TEST(Tolerance, ShortTypesStayAtEightUnitsHoweverDeepTheModel) {
  for (const auto& [type, unit] :
       {std::pair{DataType::kFloat16, 0x1p-10}, {DataType::kBfloat16, 0x1p-7}})
    EXPECT_LE(tolerance_for({.coarsest = type, .operators = 1'000'000}, DataType::kFloat, {})
                  .tolerance.rtol,
              8 * unit);
}

TEST(Tolerance, IntegersAreExactUnlessAQuantiserMadeThem) {
  const Roundings exact{.coarsest = DataType::kFloat, .operators = 9};
  EXPECT_EQ(tolerance_for(exact, DataType::kInt64, {}).name, "exact");
  const Tensor one = tensor_of<std::int64_t>(DataType::kInt64, {1'000'000}),
               other = tensor_of<std::int64_t>(DataType::kInt64, {1'000'001});
  EXPECT_FALSE(compared(one, other, exact).match);
  const Roundings quantised{
      .coarsest = DataType::kFloat, .quantisers = 1, .share = 1 / 255.0, .step = 1};
  const auto bytes = [](std::uint8_t value) {
    return tensor_of<std::uint8_t>(DataType::kUint8, {value});
  };
  EXPECT_TRUE(compared(bytes(7), bytes(8), quantised).match);
  EXPECT_FALSE(compared(bytes(7), bytes(9), quantised).match);
}

TEST(Tolerance, AStepIsKnownOrAShareOfTheRange) {
  Roundings path{.coarsest = DataType::kFloat, .quantisers = 1, .share = 1 / 255.0, .step = 0.5};
  EXPECT_TRUE(compared(floats({0.5F, 2}), floats({0, 2}), path).match);
  EXPECT_FALSE(compared(floats({1, 2}), floats({0, 2}), path).match);
  path.step = 0;
  EXPECT_TRUE(compared(floats({0.9F, 255}), floats({0, 255}), path).match);
  EXPECT_FALSE(compared(floats({1.1F, 255}), floats({0, 255}), path).match);
}

TEST(Tolerance, SaysHowMuchOfItWasUsed) {
  const Roundings path{.coarsest = DataType::kFloat16};
  const Comparison half = compared(floats({1 + 4 * 0x1p-10F}), floats({1}), path);
  EXPECT_TRUE(half.match);
  EXPECT_NEAR(half.used, 0.5, 0.01);
  EXPECT_EQ(half.row, "f16");
  EXPECT_GT(compared(floats({1 + 9 * 0x1p-10F}), floats({1}), path).used, 1);
  EXPECT_EQ(compared(floats({1}), floats({1}), path).used, 0);
}

TEST(Tolerance, GivenNumbersReplaceThoseOfTheRow) {
  const Roundings path{.coarsest = DataType::kFloat, .quantisers = 3, .share = 1 / 255.0};
  const ToleranceRow row = tolerance_for(path, DataType::kFloat, {.rtol = 0.25, .atol = 0});
  EXPECT_EQ(row.tolerance.rtol, 0.25);
  EXPECT_EQ(row.tolerance.atol, 0);
  EXPECT_EQ(row.tolerance.of_range, 0);
}

TEST(Comparison, CountsWhatIsNotFiniteByItself) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  const Comparison equal = compared(floats({nan, inf, -inf}), floats({nan, inf, -inf}), {});
  EXPECT_TRUE(equal.match);
  const Comparison other = compared(floats({0, -inf, 1, 5}), floats({nan, inf, inf, 1}), {});
  EXPECT_EQ(other.mismatches, 4);
  EXPECT_EQ(other.not_finite, 3);
}

ValueComparison compared_value(std::int64_t mismatches, std::int64_t not_finite,
                               bool quantised = false) {
  ValueComparison value{"", "y", {}};
  value.comparison.match = mismatches == 0;
  value.comparison.mismatches = mismatches;
  value.comparison.not_finite = not_finite;
  value.comparison.quantised = quantised;
  return value;
}

TEST(OutputVerification, TellsFindingsAboutNanFromFiniteDifferences) {
  OutputVerification result;
  result.partitions = {compared_value(3, 3)};
  result.outputs = {compared_value(4, 1)};  // a consequence
  EXPECT_EQ(result.finite_difference(), nullptr);
  result.partitions.push_back(compared_value(3, 2, true));  // a quantiser made numbers of it
  EXPECT_EQ(result.finite_difference(), nullptr);
  result.partitions.push_back(compared_value(3, 2));
  EXPECT_EQ(result.finite_difference(), &result.partitions[2]);
  result.partitions.clear();
  EXPECT_EQ(result.finite_difference(), result.outputs.data());
}

TEST(Roundings, JoinTakesTheWorstOfBothPaths) {
  Roundings path{.coarsest = DataType::kBfloat16, .operators = 2, .quantisers = 5};
  path.join({.coarsest = DataType::kFloat16, .operators = 3, .quantisers = 1});
  EXPECT_EQ(path.coarsest, DataType::kBfloat16);
  EXPECT_EQ(path.operators, 3);
  EXPECT_EQ(path.quantisers, 5);
}

}  // namespace
}  // namespace ctxgen
