#include "fused.h"

namespace ctxgen::testing {
namespace {

std::string batch_norm(TestGraph& g, const std::string& x, std::int64_t channels) {
  return g.add("BatchNormalization", {x, g.constant({channels}), g.constant({channels}),
                                      g.constant({channels}), g.constant({channels}, 0.2F, 2.0F)});
}

TEST(DnnlAffine, BatchNormGoesIntoConv) {
  TestGraph g(15);
  const std::string x = g.input("x", {2, 4, 9, 9});
  g.output(batch_norm(g, g.add("Conv", {x, g.constant({8, 4, 3, 3}), g.constant({8})}), 8));
  expect_fused(g, {"conv(bias)"});
}

TEST(DnnlAffine, BatchNormGoesIntoConvWithoutBias) {
  TestGraph g(15);
  const std::string x = g.input("x", {2, 6, 9, 9});
  const std::string w = g.constant({6, 1, 3, 3});
  g.output(batch_norm(g, g.add("Conv", {x, w}, {attr("group", 6)}), 6));
  expect_fused(g, {"conv(bias)"});
}

TEST(DnnlAffine, BatchNormStaysWhereTheConvResultHasAnotherReader) {
  TestGraph g(15);
  const std::string x = g.input("x", {1, 4, 9, 9});
  const std::string conv = g.add("Conv", {x, g.constant({8, 4, 3, 3})});
  g.output(batch_norm(g, conv, 8));
  g.output(g.add("Sigmoid", {conv}));
  expect_fused(g, {"conv", "scale_shift", "eltwise:sigmoid"});
}

TEST(DnnlAffine, BatchNormStaysWhereTheConvResultLeaves) {
  TestGraph g(15);
  const std::string x = g.input("x", {1, 4, 9, 9});
  const std::string conv = g.add("Conv", {x, g.constant({8, 4, 3, 3})});
  g.output(conv);
  g.output(batch_norm(g, conv, 8));
  expect_fused(g, {"conv", "scale_shift"});
}

TEST(DnnlAffine, BatchNormGoesIntoGemm) {
  TestGraph g(15);
  const std::string x = g.input("x", {3, 5});
  g.output(batch_norm(
      g, g.add("Gemm", {x, g.constant({7, 5}), g.constant({7})}, {attr("transB", 1)}), 7));
  expect_fused(g, {"matmul(bias)"});
}

TEST(DnnlAffine, FactorAndAddendPerChannelGoIntoConv) {
  TestGraph g(15);
  const std::string x = g.input("x", {1, 4, 9, 9});
  std::string y = g.add("Conv", {x, g.constant({8, 4, 1, 1})});
  y = g.add("Mul", {y, g.constant({8, 1, 1})});
  y = g.add("Add", {g.constant({1, 8, 1, 1}), y});
  y = g.add("Sub", {g.constant({8, 1, 1}), y});
  y = g.add("Div", {y, g.constant({1}, std::vector<float>{3.0F})});
  g.output(y);
  expect_fused(g, {"conv(bias)"});
}

TEST(DnnlAffine, AnOperandAlongAnotherAxisIsNoBias) {
  TestGraph g(15);
  const std::string x = g.input("x", {1, 4, 8, 8});
  const std::string conv = g.add("Conv", {x, g.constant({8, 4, 1, 1})});
  g.output(g.add("Add", {conv, g.constant({8})}));  // along W, which is as long as C
  expect_fused(g, {"conv +add(weight)"});
}

TEST(DnnlAffine, AddAfterMatMulIsItsBias) {
  TestGraph g(15);
  const std::string x = g.input("x", {2, 3, 5});
  g.output(g.add("Add", {g.constant({6}), g.add("MatMul", {x, g.constant({5, 6})})}));
  expect_fused(g, {"matmul(bias)"});
}

TEST(DnnlAffine, FactorPerColumnGoesIntoMatMul) {
  TestGraph g(15);
  const std::string x = g.input("x", {2, 3, 5});
  g.output(g.add("Mul", {g.add("MatMul", {x, g.constant({5, 6})}), g.constant({6})}));
  expect_fused(g, {"matmul"});
}

TEST(DnnlAffine, FactorStaysBehindAProductOfValues) {
  TestGraph g(15);
  const std::string a = g.input("a", {2, 3, 5}), b = g.input("b", {2, 5, 4});
  const std::string scale = g.constant({}, std::vector<float>{0.125F});
  g.output(g.add("Mul", {g.add("MatMul", {a, b}), scale}));
  expect_fused(g, {"matmul +linear"});
}

TEST(DnnlAffine, ASharedWeightIsChangedForOneUserOnly) {
  TestGraph g(15);
  const std::string x = g.input("x", {1, 4, 9, 9}), w = g.constant({8, 4, 3, 3});
  g.output(batch_norm(g, g.add("Conv", {x, w}), 8));
  g.output(g.add("Conv", {x, w}));
  expect_fused(g, {"conv(bias)", "conv"});
}

TEST(DnnlAffine, DivisionByZeroIsKept) {
  TestGraph g(15);
  const std::string x = g.input("x", {1, 2, 4, 4});
  const std::string conv = g.add("Conv", {x, g.constant({2, 2, 1, 1})});
  const std::string zero = g.constant({2, 1, 1}, std::vector<float>{0.0F, 1.0F});
  g.output(g.add("Div", {conv, zero}));
  EXPECT_THAT(summary(fused(g)), ::testing::ElementsAre("conv +div(weight)"));
}

/// The product of `x` and `w`, both one number.
std::string product(TestGraph& g, float x, float w) {
  Tensor source = *Tensor::allocate(DataType::kFloat, {1, 1});
  source.mutable_elements<float>()[0] = x;
  return g.add("MatMul", {g.tensor_input("x", source), g.constant({1, 1}, std::vector<float>{w})});
}

TEST(DnnlAffine, ConstantsThatF32DoesNotHoldStayTwo) {
  TestGraph large(15);
  large.output(large.add(
      "Mul", {product(large, 1e-30F, 1e30F), large.constant({1}, std::vector<float>{1e30F})}));
  expect_fused(large, {"matmul +linear"});
  TestGraph small(15);
  small.output(small.add(
      "Mul", {product(small, 1e30F, 1e-30F), small.constant({1}, std::vector<float>{1e-30F})}));
  expect_fused(small, {"matmul +linear"});
  TestGraph sum(15);
  std::string y = product(sum, -1.0F, 3e38F);
  for (int i = 0; i < 2; ++i) y = sum.add("Add", {y, sum.constant({1}, std::vector<float>{3e38F})});
  sum.output(y);
  expect_fused(sum, {"matmul(bias) +linear"});
}

TEST(DnnlAffine, AChannelThatIsAsGoodAsNothingKeepsNoFactorOutside) {
  for (const float factor : {0.0F, 1e-30F}) {
    TestGraph g(15);
    const std::string x = g.input("x", {2, 1}),
                      w = g.constant({1, 2}, std::vector<float>{1e-30F, 1.0F});
    g.output(
        g.add("Mul", {g.add("MatMul", {x, w}), g.constant({2}, std::vector<float>{factor, 2.0F})}));
    expect_fused(g, {"matmul"});
  }
}

TEST(DnnlAffine, AnAddendIsNotSpreadOverASizeThatIsOnlyDeclared) {
  TestGraph g(15);
  const std::string a = g.input("a", {1, 2}), b = g.input("b", {2, 3});
  const std::string product = g.add("MatMul", {a, b});
  const std::string sum = g.add("Add", {product, g.constant({1})});
  g.output(sum);
  for (const std::string& name : {b, product, sum})
    (*g.model.graph.value(g.id(name)).type.shape)[1] = Dim::fixed(std::int64_t{1} << 37);
  EXPECT_THAT(summary(fused(g)), ::testing::ElementsAre("matmul +linear"));
}

}  // namespace
}  // namespace ctxgen::testing
