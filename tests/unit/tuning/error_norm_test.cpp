#include "ctxgen/tuning/error_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

template <class T>
RuntimeValue values(const std::vector<T>& numbers, DataType type) {
  Tensor tensor = Tensor::allocate(type, Dims{static_cast<std::int64_t>(numbers.size())}).value();
  std::ranges::copy(numbers, tensor.mutable_elements<T>().begin());
  return tensor;
}
RuntimeValue floats(const std::vector<float>& numbers) { return values(numbers, DataType::kFloat); }
double error(const std::vector<float>& y, const std::vector<float>& reference,
             ErrorNorm norm = ErrorNorm::kMax) {
  return error_of(floats(y), floats(reference), norm).value();
}

TEST(ErrorNorm, MeasuresWhatItSays) {
  const std::vector<float> reference{4, -2, 0, 0}, y{4, -1, 0, 1};
  EXPECT_DOUBLE_EQ(error(y, reference, ErrorNorm::kMax), 0.25);
  EXPECT_DOUBLE_EQ(error(y, reference, ErrorNorm::kRms), std::sqrt(2.0 / 20.0));
  EXPECT_DOUBLE_EQ(error(y, reference, ErrorNorm::kMean), 2.0 / 6.0);
  EXPECT_EQ(error(reference, reference), 0);
}

TEST(ErrorNorm, OfNothingButZerosIsAllOrNothing) {
  EXPECT_EQ(error({0, 0}, {0, 0}), 0);
  EXPECT_EQ(error({0, 1e-30F}, {0, 0}), kInfinite);
}

TEST(ErrorNorm, TakesWhatIsNotFiniteOnBothSidesAlike) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error({1, kNan, kInf}, {1, kNan, kInf}), 0);
  EXPECT_EQ(error({1, 2}, {1, kNan}), kInfinite);
  EXPECT_EQ(error({kNan, 2}, {1, 2}), kInfinite);
  EXPECT_EQ(error({kInf}, {-kInf}), kInfinite);
}

TEST(ErrorNorm, CountsIntegersThatDiffer) {
  const auto y = values<std::int64_t>({1, 2, 3, 4}, DataType::kInt64);
  const auto reference = values<std::int64_t>({1, 2, 3, 1000}, DataType::kInt64);
  EXPECT_DOUBLE_EQ(error_of(y, reference, ErrorNorm::kMax).value(), 0.25);
}

TEST(ErrorNorm, OfOtherShapesOrTypesIsInfinite) {
  EXPECT_EQ(error({1, 2}, {1, 2, 3}), kInfinite);
  EXPECT_EQ(
      error_of(values<std::int64_t>({1}, DataType::kInt64), floats({1}), ErrorNorm::kMax).value(),
      kInfinite);
}

TEST(ErrorNorm, OfSizesThatOverflowWhenSummedIsThatOfSmallOnes) {
  // 2e308 and 4e-320 have no square, and two of 1.5e308 no sum, in double.
  for (const double size : {1.5e308, 1e200, 1.0, 1e-200, 1e-300}) {
    const auto y = values<double>({size, size / 2, 0}, DataType::kDouble);
    const auto reference = values<double>({size, size, 0}, DataType::kDouble);
    const auto of = [&](ErrorNorm norm) { return error_of(y, reference, norm).value(); };
    EXPECT_DOUBLE_EQ(of(ErrorNorm::kMax), 0.5) << size;
    EXPECT_DOUBLE_EQ(of(ErrorNorm::kRms), std::sqrt(0.125)) << size;
    EXPECT_DOUBLE_EQ(of(ErrorNorm::kMean), 0.25) << size;
  }
}

TEST(ErrorNorm, IsNeverNaN) {
  for (const ErrorNorm norm : {ErrorNorm::kMax, ErrorNorm::kRms, ErrorNorm::kMean}) {
    EXPECT_DOUBLE_EQ(error_of(values<double>({-1.7e308, 1}, DataType::kDouble),
                              values<double>({1.7e308, 1}, DataType::kDouble), norm)
                         .value(),
                     2);
    EXPECT_EQ(error_of(values<double>({1.7e308}, DataType::kDouble),
                       values<double>({1e-300}, DataType::kDouble), norm)
                  .value(),
              kInfinite);
  }
}

TEST(ErrorNorm, KnowsReferencesThatProveNothing) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(has_finite_number(floats({kNan, 0})));
  EXPECT_FALSE(has_finite_number(floats({kNan, std::numeric_limits<float>::infinity()})));
  EXPECT_FALSE(has_finite_number(floats({})));
}

TEST(ErrorNorm, IsReadFromText) {
  EXPECT_EQ(parse_error_bound("0.01")->most, 0.01);
  EXPECT_EQ(parse_error_bound("rms:1e-3")->norm, ErrorNorm::kRms);
  EXPECT_EQ(parse_error_bound("max:1")->norm, ErrorNorm::kMax);
  for (const char* text : {"", "0", "-1", "nan", "inf", "1e-2x", "l2:0.1", ":0.1", "rms:", " 1"})
    EXPECT_EQ(code_of(parse_error_bound(text)), ErrorCode::kInvalidArgument) << text;
}

}  // namespace
}  // namespace ctxgen
