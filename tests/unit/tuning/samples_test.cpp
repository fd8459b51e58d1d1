#include "ctxgen/tuning/samples.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;

Tensor counting(Dims dims, DataType type = DataType::kFloat) {
  Tensor tensor = Tensor::allocate(type, dims).value();
  if (type == DataType::kFloat) {
    const auto elements = tensor.mutable_elements<float>();
    std::iota(elements.begin(), elements.end(), 0.0F);
  }
  return tensor;
}

IoInfo input(std::string name, std::vector<Dim> dims) {
  IoInfo info;
  info.name = std::move(name);
  info.type.kind = ValueType::Kind::kTensor;
  info.type.element = DataType::kFloat;
  info.type.shape = std::move(dims);
  return info;
}

const std::vector<IoInfo> kInputs{input("x", {Dim::fixed(2), Dim::fixed(3)})};

TEST(Samples, AreSlicesOfWhichEveryFourthAndTheLastAreHeldOut) {
  const auto samples =
      split_samples({.arrays = {{"x", counting({10, 2, 3})}}, .hash = {}}, kInputs).value();
  ASSERT_EQ(samples.searched.size(), 7U);
  ASSERT_EQ(samples.held_out.size(), 3U);
  const auto first = [](const std::vector<NamedValue>& sample) {
    EXPECT_EQ(sample.front().value.tensor().dims(), (Dims{2, 3}));
    return sample.front().value.tensor().elements<float>()[0];
  };
  EXPECT_EQ(first(samples.searched[3]), 4 * 6.0F);
  EXPECT_EQ(first(samples.held_out[0]), 3 * 6.0F);
  EXPECT_EQ(first(samples.held_out[1]), 7 * 6.0F);
  EXPECT_EQ(first(samples.held_out[2]), 9 * 6.0F);
}

TEST(Samples, ThatDoNotFitAreRefused) {
  const auto refused = [](std::vector<std::pair<std::string, Tensor>> arrays) {
    return code_of(split_samples({.arrays = std::move(arrays), .hash = {}}, kInputs));
  };
  EXPECT_EQ(refused({{"x", counting({2, 2, 3})}}), test::kOk);
  EXPECT_EQ(refused({{"x", counting({1, 2, 3})}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"x", counting({0, 2, 3})}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"x", counting({2, 3})}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"y", counting({2, 2, 3})}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"x", counting({2, 2, 3}, DataType::kInt32)}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"x", counting({2, 2, 3})}, {"z", counting({3, 1})}}),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ctxgen
