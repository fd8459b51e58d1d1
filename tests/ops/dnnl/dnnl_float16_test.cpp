#include "ctxgen/base/half.h"

#include "reference.h"

// float16 models are computed in float32 and rounded where values leave the partition: results are
// the roundings of numbers that are nearer to the exact ones than the model's own steps would be.
namespace ctxgen::testing {
namespace {

std::string half_input(TestGraph& g, const std::string& name, const Dims& dims) {
  return g.tensor_input(name, g.random_of(DataType::kFloat16, dims));
}
std::string half_constant(TestGraph& g, const Dims& dims) {
  return g.tensor_constant(g.random_of(DataType::kFloat16, dims));
}

/// Expects the one output to be `expected` rounded to float16: half a unit in the last place of
/// 11 bits, and what float32 sums of these sizes lose (below 2^-20 of the terms' magnitude).
void expect_rounded(const TestGraph& g, const std::vector<double>& expected, double magnitude) {
  const auto results = compiled_results(g);
  ASSERT_EQ(results.size(), 1U);
  ASSERT_EQ(results[0].type(), DataType::kFloat16);
  ASSERT_EQ(static_cast<std::size_t>(results[0].element_count()), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double half_unit =
        std::ldexp(1.0, std::max(std::ilogb(std::max(std::abs(expected[i]), 1e-30)), -14) - 11);
    ASSERT_LE(std::abs(number_at(results[0], i) - expected[i]),
              half_unit + std::ldexp(magnitude, -20))
        << "at " << i << ": " << expected[i];
  }
}

TEST(DnnlFloat16, MatrixProductIsRoundedOnce) {
  TestGraph g(13);
  const std::string a = half_input(g, "a", {5, 200}), b = half_constant(g, {200, 7});
  g.output(g.add("MatMul", {a, b}));
  std::vector<double> expected;
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 7; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 200; ++k)
        sum += number_at(g.value(a), i * 200 + k) * number_at(g.value(b), k * 7 + j);
      expected.push_back(sum);
    }
  expect_rounded(g, expected, 200);
}

TEST(DnnlFloat16, ConvolutionBiasAndReluAreRoundedOnce) {
  TestGraph g(13);
  const std::string x = half_input(g, "x", {1, 6, 9, 9}), w = half_constant(g, {4, 6, 3, 3});
  const std::string b = half_constant(g, {4});
  g.output(g.add("Relu", {g.add("Conv", {x, w, b}, {attr("pads", List{1, 1, 1, 1})})}));
  std::vector<double> expected;
  for (std::int64_t m = 0; m < 4; ++m)
    for (std::int64_t y = 0; y < 9; ++y)
      for (std::int64_t c = 0; c < 9; ++c) {
        double sum = number_at(g.value(b), static_cast<std::size_t>(m));
        for (std::int64_t i = 0; i < 6; ++i)
          for (std::int64_t k = 0; k < 9; ++k) {
            const std::int64_t row = y + k / 3 - 1, column = c + k % 3 - 1;
            if (row < 0 || row > 8 || column < 0 || column > 8) continue;
            sum += number_at(g.value(x), static_cast<std::size_t>((i * 9 + row) * 9 + column)) *
                   number_at(g.value(w), static_cast<std::size_t>((m * 6 + i) * 9 + k));
          }
        expected.push_back(std::max(sum, 0.0));
      }
  expect_rounded(g, expected, 55);
}

/// The CPU kernels round every value to float16, as the model says; the compiled chain rounds its
/// end. A chain of n operations may so differ by n units of 2^-11, grown by what follows.
TEST(DnnlFloat16, ChainsStayWithinTheirRoundings) {
  TestGraph g(17);
  const std::string x = half_input(g, "x", {2, 8, 10});
  std::string y = g.add("LayerNormalization", {x, half_constant(g, {10}), half_constant(g, {10})});
  y = g.add("Add", {y, x});
  y = g.add("Sigmoid", {y});
  y = g.add("Transpose", {y}, {attr("perm", List{0, 2, 1})});
  y = g.add("Softmax", {y}, {attr("axis", -1)});
  g.output(g.add("Mul", {y, half_constant(g, {8})}));
  expect_same(g, 6.0 / 2048);
}

TEST(DnnlFloat16, PoolsConcatAndReshape) {
  TestGraph g(13);
  const std::string x = half_input(g, "x", {1, 4, 8, 8});
  const std::string m =
      g.add("MaxPool", {x}, {attr("kernel_shape", List{2, 2}), attr("strides", List{2, 2})});
  const std::string a =
      g.add("AveragePool", {x}, {attr("kernel_shape", List{2, 2}), attr("strides", List{2, 2})});
  const std::string c = g.add("Concat", {m, a}, {attr("axis", 1)});
  g.output(g.add("Reshape", {c, g.ints({1, 8, 16})}));
  expect_same(g, 1.0 / 2048);
}

TEST(DnnlFloat16, CastsRoundInsideThePartition) {
  TestGraph g(13);
  const std::string x = g.input("x", Dims{3, 100});
  const std::string h = g.add("Cast", {x}, {attr("to", 10)});
  g.output(g.add("Cast", {h}, {attr("to", 1)}));
  const auto results = compiled_results(g);
  ASSERT_EQ(results.size(), 1U);
  for (std::size_t i = 0; i < 300; ++i)
    ASSERT_EQ(number_at(results[0], i),
              float16_to_float(float_to_float16(static_cast<float>(number_at(g.value(x), i)))));
}

TEST(DnnlFloat16, OverflowIsInfinity) {
  TestGraph g(13);
  Tensor big = *Tensor::allocate(DataType::kFloat16, Dims{4});
  for (std::uint16_t& h : big.mutable_elements<std::uint16_t>()) h = float_to_float16(60000.0F);
  const std::string x = g.tensor_input("x", big);
  g.output(g.add("Add", {x, x}));
  const auto results = compiled_results(g);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(std::isinf(number_at(results[0], 0)));
}

}  // namespace
}  // namespace ctxgen::testing
