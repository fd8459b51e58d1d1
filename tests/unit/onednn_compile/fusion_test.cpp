#include "fused.h"

namespace ctxgen::testing {
namespace {

std::string conv(TestGraph& g, const std::string& x, std::int64_t in, std::int64_t out) {
  return g.add("Conv", {x, g.constant({out, in, 3, 3}), g.constant({out})},
               {attr("pads", std::vector<std::int64_t>{1, 1, 1, 1})});
}

TEST(DnnlFusion, ActivationsGoBehindConv) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Relu", "relu"},           {"LeakyRelu", "relu"}, {"Sigmoid", "sigmoid"},
      {"Tanh", "tanh"},           {"Elu", "elu"},        {"HardSigmoid", "hardsigmoid"},
      {"HardSwish", "hardswish"}, {"Abs", "abs"},
  };
  for (const auto& [op, word] : cases) {
    TestGraph g(17);
    g.output(g.add(op, {conv(g, g.input("x", {1, 4, 7, 7}), 4, 8)}));
    SCOPED_TRACE(op);
    expect_fused(g, {"conv(bias) +" + word});
  }
}

TEST(DnnlFusion, ClipGoesBehindConv) {
  TestGraph g(13);
  const std::string y = conv(g, g.input("x", {1, 4, 7, 7}), 4, 8);
  g.output(g.add("Clip", {y, g.constant({}, std::vector<float>{0.0F}),
                          g.constant({}, std::vector<float>{0.5F})}));
  expect_fused(g, {"conv(bias) +clip"});
}

TEST(DnnlFusion, HardSwishFromItsParts) {
  TestGraph g(13);
  const std::string y = conv(g, g.input("x", {1, 4, 7, 7}), 4, 8);
  g.output(g.add("Mul", {y, g.add("HardSigmoid", {y}, {attr("alpha", 1.0F / 6.0F)})}));
  expect_fused(g, {"conv(bias) +hardswish"});
}

// x * clip(x + 3, 0, 6) / 6, and x * (clip(x + 3, 0, 6) / 6): MobileNetV3 as exporters write it.
TEST(DnnlFusion, HardSwishFromClip) {
  for (const bool divide_first : {false, true}) {
    TestGraph g(13);
    const std::string x = g.input("x", {1, 4, 7, 7});
    const std::string y = conv(g, x, 4, 8);
    const std::string six = g.constant({}, std::vector<float>{6.0F});
    std::string gate = g.add("Add", {y, g.constant({}, std::vector<float>{3.0F})});
    gate = g.add("Clip", {gate, g.constant({}, std::vector<float>{0.0F}), six});
    if (divide_first) gate = g.add("Div", {gate, six});
    std::string z = g.add("Mul", {y, gate});
    if (!divide_first) z = g.add("Div", {z, six});
    g.output(z);
    expect_fused(g, {"conv(bias) +hardswish"});
  }
}

TEST(DnnlFusion, SwishFromItsParts) {
  TestGraph g(13);
  const std::string y = conv(g, g.input("x", {1, 4, 7, 7}), 4, 8);
  g.output(g.add("Mul", {g.add("Sigmoid", {y}), y}));
  expect_fused(g, {"conv(bias) +swish"});
}

TEST(DnnlFusion, QuickGeluIsASwish) {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 5});
  const std::string y = g.add("MatMul", {x, g.constant({5, 6})});
  const std::string scaled = g.add("Mul", {y, g.constant({}, std::vector<float>{1.702F})});
  g.output(g.add("Mul", {y, g.add("Sigmoid", {scaled})}));
  const Program program = fused(g);
  EXPECT_THAT(summary(program), ::testing::ElementsAre("matmul +swish"));
  EXPECT_FLOAT_EQ(program.ops[0].post_ops[0].alpha, 1.702F);
  expect_same(g);
}

TEST(DnnlFusion, MishFromItsParts) {
  TestGraph g(13);
  const std::string y = conv(g, g.input("x", {1, 4, 7, 7}), 4, 8);
  g.output(g.add("Mul", {y, g.add("Tanh", {g.add("Softplus", {y})})}));
  expect_fused(g, {"conv(bias) +mish"});
}

TEST(DnnlFusion, AGateThatLeavesIsKept) {
  TestGraph g(13);
  const std::string y = conv(g, g.input("x", {1, 4, 7, 7}), 4, 8);
  const std::string gate = g.add("Sigmoid", {y});
  g.output(g.add("Mul", {gate, y}));
  g.output(gate);
  expect_fused(g, {"conv(bias)", "eltwise:sigmoid", "binary:mul"});
}

TEST(DnnlFusion, ResidualAddAndReluGoBehindTheLaterConv) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 8, 7, 7});
  const std::string left = conv(g, x, 8, 8), right = conv(g, x, 8, 8);
  g.output(g.add("Relu", {g.add("Add", {left, right})}));
  const Program program = fused(g);
  EXPECT_THAT(summary(program),
              ::testing::ElementsAre("conv(bias)", "conv(bias) +add(value) +relu"));
  EXPECT_EQ(program.values[program.ops[0].outputs[0]].name, left);
  expect_same(g);
}

TEST(DnnlFusion, ResidualBlockAddsTheInput) {
  TestGraph g(13);
  const std::string x = g.add("Relu", {conv(g, g.input("x", {1, 8, 7, 7}), 8, 8)});
  const std::string y = conv(g, g.add("Relu", {conv(g, x, 8, 8)}), 8, 8);
  g.output(g.add("Relu", {g.add("Add", {y, x})}));
  expect_fused(g, {"conv(bias) +relu", "conv(bias) +relu", "conv(bias) +add(value) +relu"});
}

TEST(DnnlFusion, AConvMovesBehindWhatItAdds) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 8, 7, 7});
  const std::string y = conv(g, x, 8, 8);
  const std::string pool = g.add("MaxPool", {x},
                                 {attr("kernel_shape", std::vector<std::int64_t>{3, 3}),
                                  attr("pads", std::vector<std::int64_t>{1, 1, 1, 1})});
  g.output(g.add("Add", {y, pool}));
  expect_fused(g, {"pool", "conv(bias) +add(value)"});
}

TEST(DnnlFusion, ABroadcastAddIsNotFusedIntoTheSmallSide) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 8, 7, 7});
  const std::string pooled = g.add("GlobalAveragePool", {x});
  const std::string gate = g.add("Conv", {pooled, g.constant({8, 8, 1, 1})});
  g.output(g.add("Mul", {x, g.add("Sigmoid", {gate})}));
  expect_fused(g, {"global_pool", "conv +sigmoid", "binary:mul"});
}

TEST(DnnlFusion, UnknownDimsAreNotTakenForEqual) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 8, 7, 7}), y = g.input("y", {1, 8, 7, 7});
  const std::string c = conv(g, x, 8, 8);
  const std::string sum = g.add("Add", {c, y});
  g.output(sum);
  for (const std::string& name : {x, y, c, sum}) g.set_dims(name, {"", "", "?", "?"});
  EXPECT_THAT(summary(fused(g)), ::testing::ElementsAre("conv(bias)", "binary:add"));
}

TEST(DnnlFusion, SymbolicDimsOfOneNameAreEqual) {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 8, 7, 7}), y = g.input("y", {2, 8, 7, 7});
  const std::string c = conv(g, x, 8, 8);
  const std::string sum = g.add("Add", {c, y});
  g.output(sum);
  for (const std::string& name : {x, y, c, sum}) g.set_dims(name, {"batch"});
  const Program program = fused(g);
  EXPECT_THAT(summary(program), ::testing::ElementsAre("conv(bias) +add(value)"));
  EXPECT_THAT(program.symbols, ::testing::ElementsAre("batch"));
  expect_same(g);
}

// Two branches that halve an image of unknown size in different ways end at the same size.
TEST(DnnlFusion, EqualWindowsOverSymbolicDimsGiveEqualDims) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 8, 9, 10});
  const auto halved = attr("strides", std::vector<std::int64_t>{2, 2});
  const std::string left = g.add("Conv", {x, g.constant({8, 8, 3, 3})},
                                 {halved, attr("pads", std::vector<std::int64_t>{1, 1, 1, 1})});
  const std::string right = g.add("Conv", {x, g.constant({8, 8, 1, 1})}, {halved});
  const std::string sum = g.add("Add", {left, right});
  g.output(sum);
  g.set_dims(x, {"", "", "h", "w"});
  for (const std::string& name : {left, right, sum}) g.set_dims(name, {"", "", "?", "?"});
  const Program program = fused(g);
  EXPECT_THAT(summary(program), ::testing::ElementsAre("conv", "conv +add(value)"));
  EXPECT_EQ(program.values[program.outputs[0]].dims[2], ProgramDim{}) << "the model's own dims";
  expect_same(g);
}

TEST(DnnlFusion, IntermediateOutputsAreKept) {
  TestGraph g(13);
  const std::string y = conv(g, g.input("x", {1, 4, 7, 7}), 4, 8);
  g.output(y);
  g.output(g.add("Relu", {y}));
  expect_fused(g, {"conv(bias)", "eltwise:relu"});
}

TEST(DnnlFusion, IdentityAndDropoutVanish) {
  TestGraph g(13);
  const std::string y = conv(g, g.add("Identity", {g.input("x", {1, 4, 7, 7})}), 4, 8);
  g.output(g.add("Identity", {g.add("Relu", {g.add("Dropout", {y})})}));
  expect_fused(g, {"conv(bias) +relu"});
}

TEST(DnnlFusion, AnInputThatIsOutputKeepsItsIdentity) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 4});
  g.output(g.add("Identity", {x}));
  g.output(g.add("Relu", {x}));
  expect_fused(g, {"identity", "eltwise:relu"});
}

TEST(DnnlFusion, AValueThatLeavesTwiceKeepsItsIdentity) {
  TestGraph g(13);
  const std::string y = g.add("Relu", {g.input("x", {1, 4})});
  g.output(y);
  g.output(g.add("Identity", {y}));
  expect_fused(g, {"eltwise:relu", "identity"});
}

TEST(DnnlFusion, DeadOpsVanish) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 4});
  g.add("Mul", {x, g.constant({4})});
  g.output(g.add("Relu", {x}));
  const Program program = fused(g);
  EXPECT_THAT(summary(program), ::testing::ElementsAre("eltwise:relu"));
  EXPECT_TRUE(program.weights.empty());
  EXPECT_EQ(program.values.size(), 2U);
}

TEST(DnnlFusion, ScalarArithmeticBecomesOneLinear) {
  TestGraph g(13);
  std::string y = g.input("x", {2, 4});
  y = g.add("Add", {y, g.constant({}, std::vector<float>{1.0F})});
  y = g.add("Mul", {y, g.constant({}, std::vector<float>{2.0F})});
  y = g.add("Sub", {g.constant({1}, std::vector<float>{4.0F}), y});
  y = g.add("Div", {y, g.constant({}, std::vector<float>{8.0F})});
  g.output(y);
  const Program program = fused(g);
  ASSERT_THAT(summary(program), ::testing::ElementsAre("eltwise:linear"));
  EXPECT_FLOAT_EQ(onednn::float_param(program.ops[0], "alpha"), -0.25F);
  EXPECT_FLOAT_EQ(onednn::float_param(program.ops[0], "beta"), 0.25F);
  expect_same(g);
}

TEST(DnnlFusion, ReluGoesBehindScaleShift) {
  TestGraph g(15);
  const std::string x = g.input("x", {1, 4, 7, 7});
  g.output(
      g.add("Relu", {g.add("BatchNormalization", {x, g.constant({4}), g.constant({4}),
                                                  g.constant({4}), g.constant({4}, 0.2F, 1.0F)})}));
  expect_fused(g, {"scale_shift +relu"});
}

TEST(DnnlFusion, SumOfThreeIsAChain) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 8, 7, 7}), y = g.input("y", {1, 8, 7, 7});
  g.output(g.add("Sum", {conv(g, x, 8, 8), y, x}));
  expect_fused(g, {"conv(bias) +add(value) +add(value)"});
}

TEST(DnnlFusion, ChainsOfPostOpsAreBounded) {
  TestGraph g(13);
  std::string y = conv(g, g.input("x", {1, 4, 7, 7}), 4, 8);
  for (int i = 0; i < 6; ++i) y = g.add("Tanh", {g.add("Abs", {y})});
  g.output(y);
  const Program program = fused(g);
  for (const ProgramOp& op : program.ops) EXPECT_LE(op.post_ops.size(), 8U);
  EXPECT_EQ(program.ops.size(), 2U);
  expect_same(g);
}

}  // namespace
}  // namespace ctxgen::testing
