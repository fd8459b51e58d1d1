// Operators that draw random numbers: what a seed promises, and the distributions.

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "build_node.h"

namespace ctxgen::cpu {
namespace {

Node random_node(const char* op_type, std::vector<std::int64_t> shape) {
  Node node = make_node(op_type, 22);
  set_ints(node, "shape", std::move(shape));
  return node;
}

std::vector<float> drawn(const Node& node) {
  const auto out = run(node, {});
  EXPECT_TRUE(out) << (out ? "" : out.error().message);
  return out ? values<float>((*out)[0]) : std::vector<float>();
}

double mean_of(const std::vector<float>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

TEST(Random, SeedGivesTheNumbersOfNumPy) {
  Node uniform = random_node("RandomUniform", {3});
  set_float(uniform, "seed", 3);
  const auto u = drawn(uniform);
  EXPECT_NEAR(u[0], 0.5507979, 1e-6);
  EXPECT_NEAR(u[1], 0.70814782, 1e-6);
  EXPECT_NEAR(u[2], 0.29090474, 1e-6);
  Node normal = random_node("RandomNormal", {3});
  set_float(normal, "seed", 3);
  const auto n = drawn(normal);
  EXPECT_NEAR(n[0], 1.78862847, 1e-6);
  EXPECT_NEAR(n[1], 0.43650985, 1e-6);
  EXPECT_NEAR(n[2], 0.09649747, 1e-6);
}

TEST(Random, SeededRunsAgreeAndOthersDoNot) {
  Node node = random_node("RandomUniform", {8});
  EXPECT_NE(drawn(node), drawn(node));
  set_float(node, "seed", 1e30f);  // no seed of 32 bits, but a fixed one
  EXPECT_EQ(drawn(node), drawn(node));
}

TEST(Random, DistributionsHaveTheirMoments) {
  Node uniform = random_node("RandomUniform", {20000});
  set_float(uniform, "low", -1);
  set_float(uniform, "high", 3);
  const auto u = drawn(uniform);
  EXPECT_NEAR(mean_of(u), 1, 0.05);  // deviation 1.15: six of its errors
  EXPECT_GE(*std::ranges::min_element(u), -1);
  EXPECT_LT(*std::ranges::max_element(u), 3);
  Node normal = random_node("RandomNormal", {20000});
  set_float(normal, "mean", 2);
  set_float(normal, "scale", 3);
  auto n = drawn(normal);
  EXPECT_NEAR(mean_of(n), 2, 0.15);
  for (float& x : n) x = (x - 2) * (x - 2);
  EXPECT_NEAR(std::sqrt(mean_of(n)), 3, 0.1);
}

TEST(Random, LikeTakesShapeAndTypeOfTheInput) {
  Node node = make_node("RandomNormalLike", 22);
  const auto out = run(node, {tensor<double>({2, 3}, std::vector<double>(6))});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ((*out)[0].type(), DataType::kDouble);
  EXPECT_EQ((*out)[0].dims(), (Dims{2, 3}));
  set_int(node, "dtype", static_cast<std::int64_t>(DataType::kFloat));
  EXPECT_EQ(run(node, {tensor<double>({1}, {0})}).value()[0].type(), DataType::kFloat);
}

TEST(Random, BernoulliHitsItsProbability) {
  const auto out =
      run(make_node("Bernoulli", 22), {floats({20000}, std::vector<float>(20000, 0.3f))});
  const auto hits = values<float>(out.value()[0]);
  EXPECT_NEAR(mean_of(hits), 0.3, 0.02);
  for (float x : hits) EXPECT_TRUE(x == 0 || x == 1);
  const auto sure = run(make_node("Bernoulli", 22), {floats({2}, {0, 1})});
  EXPECT_EQ(values<float>(sure.value()[0]), (std::vector<float>{0, 1}));
}

TEST(Random, MultinomialFollowsTheLogarithms) {
  Node node = make_node("Multinomial", 22);
  set_int(node, "sample_size", 20000);
  const float never = -INFINITY;
  const auto out = run(node, {floats({1, 3}, {100 + std::log(1.0f), never, 100 + std::log(3.0f)})});
  ASSERT_TRUE(out) << out.error().message;
  const auto classes = values<std::int32_t>((*out)[0]);
  EXPECT_EQ(std::ranges::count(classes, 1), 0);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(classes, 2)) / 20000, 0.75, 0.02);
  EXPECT_FALSE(run(node, {floats({1, 2}, {never, never})}));
}

TEST(Random, DropoutKeepsTheMean) {
  Node node = make_node("Dropout", 22, 2);
  Tensor training = Tensor::allocate(DataType::kBool, {}).value();
  training.mutable_bytes()[0] = std::byte{1};
  const auto out =
      run(node, {floats({20000}, std::vector<float>(20000, 1.0f)), floats({}, {0.25f}), training});
  ASSERT_TRUE(out) << out.error().message;
  const auto kept = values<float>((*out)[0]);
  EXPECT_NEAR(mean_of(kept), 1, 0.03);
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_EQ(kept[i] != 0, (*out)[1].bytes()[i] == std::byte{1});
  EXPECT_FALSE(run(node, {floats({1}, {1}), floats({}, {1.0f}), training}));
}

}  // namespace
}  // namespace ctxgen::cpu
