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

TEST(ErrorNorm, IsReadFromText) {
  EXPECT_EQ(parse_error_bound("0.01")->most, 0.01);
  EXPECT_EQ(parse_error_bound("rms:1e-3")->norm, ErrorNorm::kRms);
  EXPECT_EQ(parse_error_bound("max:1")->norm, ErrorNorm::kMax);
  for (const char* text : {"", "0", "-1", "nan", "inf", "1e-2x", "l2:0.1", ":0.1", "rms:", " 1"})
    EXPECT_EQ(code_of(parse_error_bound(text)), ErrorCode::kInvalidArgument) << text;
}

}  // namespace
}  // namespace ctxgen
