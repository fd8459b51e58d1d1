#include <cmath>
#include <numbers>

#include "ctxgen/onednn/provider.h"

#include "fused.h"

namespace ctxgen::testing {
namespace {

std::string scalar(TestGraph& g, double value) {
  return g.constant({}, std::vector<float>{static_cast<float>(value)});
}

enum class Order { kHalfLast, kHalfOfSum, kHalfOfX };

std::string times_half(TestGraph& g, const std::string& x, const std::string& sum, Order order) {
  switch (order) {
    case Order::kHalfLast: return g.add("Mul", {g.add("Mul", {x, sum}), scalar(g, 0.5)});
    case Order::kHalfOfSum: return g.add("Mul", {x, g.add("Mul", {sum, scalar(g, 0.5)})});
    case Order::kHalfOfX: break;
  }
  return g.add("Mul", {g.add("Mul", {x, scalar(g, 0.5)}), sum});
}

TEST(DnnlPatterns, ExactGeluInEveryOrder) {
  for (const Order order : {Order::kHalfLast, Order::kHalfOfSum, Order::kHalfOfX}) {
    for (const bool divide : {true, false}) {
      TestGraph g(13);
      const std::string x = g.input("x", {2, 5});
      const std::string y = g.add("MatMul", {x, g.constant({5, 6})});
      const std::string argument = divide ? g.add("Div", {y, scalar(g, std::numbers::sqrt2)})
                                          : g.add("Mul", {y, scalar(g, 1.0 / std::numbers::sqrt2)});
      const std::string sum = g.add("Add", {g.add("Erf", {argument}), scalar(g, 1.0)});
      g.output(times_half(g, y, sum, order));
      expect_fused(g, {"matmul +gelu_erf"});
    }
  }
}

TEST(DnnlPatterns, TanhGeluInItsForms) {
  for (const bool pow : {true, false}) {
    TestGraph g(13);
    const std::string x = g.input("x", {2, 5});
    const std::string y = g.add("MatMul", {x, g.constant({5, 6})});
    const std::string cube =
        pow ? g.add("Pow", {y, scalar(g, 3.0)}) : g.add("Mul", {y, g.add("Mul", {y, y})});
    std::string argument = g.add("Add", {y, g.add("Mul", {cube, scalar(g, 0.044715)})});
    argument = g.add("Mul", {argument, scalar(g, std::sqrt(2.0 / std::numbers::pi))});
    const std::string sum = g.add("Add", {g.add("Tanh", {argument}), scalar(g, 1.0)});
    g.output(times_half(g, y, sum, Order::kHalfOfX));
    expect_fused(g, {"matmul +gelu_tanh"});
  }
}

/// Every node is claimed alone.
void expect_no_pattern(const TestGraph& g) {
  const auto capabilities = onednn::make_provider()->capabilities(g.view());
  EXPECT_TRUE(capabilities->rejections.empty());
  for (const Claim& claim : capabilities->claims) EXPECT_EQ(claim.nodes.size(), 1U);
}

TEST(DnnlPatterns, ErfOfSomethingElseIsNoGelu) {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 5});
  const std::string sum =
      g.add("Add", {g.add("Erf", {g.add("Div", {x, scalar(g, 1.5)})}), scalar(g, 1.0)});
  g.output(times_half(g, x, sum, Order::kHalfLast));
  expect_no_pattern(g);
}

TEST(DnnlPatterns, AnInnerValueThatLeavesKeepsThePatternApart) {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 5});
  const std::string erf = g.add("Erf", {g.add("Div", {x, scalar(g, std::numbers::sqrt2)})});
  g.output(erf);
  g.output(times_half(g, x, g.add("Add", {erf, scalar(g, 1.0)}), Order::kHalfLast));
  expect_no_pattern(g);
}

std::string layer_norm(TestGraph& g, const std::string& x, std::int64_t width, bool square_by_mul) {
  const auto axes = attr("axes", std::vector<std::int64_t>{-1});
  const std::string diff = g.add("Sub", {x, g.add("ReduceMean", {x}, {axes})});
  const std::string square =
      square_by_mul ? g.add("Mul", {diff, diff}) : g.add("Pow", {diff, scalar(g, 2.0)});
  const std::string variance =
      g.add("Add", {g.add("ReduceMean", {square}, {axes}), scalar(g, 1e-5)});
  const std::string normal = g.add("Div", {diff, g.add("Sqrt", {variance})});
  return g.add("Add", {g.add("Mul", {normal, g.constant({width})}), g.constant({width})});
}

TEST(DnnlPatterns, DecomposedLayerNormIsOneClaim) {
  for (const bool square_by_mul : {false, true}) {
    TestGraph g(13);
    g.output(layer_norm(g, g.input("x", {2, 3, 16}), 16, square_by_mul));
    const auto capabilities = onednn::make_provider()->capabilities(g.view());
    ASSERT_EQ(capabilities->claims.size(), 1U);
    EXPECT_EQ(capabilities->claims[0].nodes.size(), 9U);
    EXPECT_TRUE(capabilities->rejections.empty());
    expect_fused(g, {"layer_norm"}, 1e-4);
  }
}

TEST(DnnlPatterns, LayerNormWithoutScaleAndShift) {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 3, 16});
  const auto axes = attr("axes", std::vector<std::int64_t>{2});
  const std::string diff = g.add("Sub", {x, g.add("ReduceMean", {x}, {axes})});
  const std::string square = g.add("Pow", {diff, scalar(g, 2.0)});
  const std::string variance =
      g.add("Add", {g.add("ReduceMean", {square}, {axes}), scalar(g, 1e-5)});
  g.output(g.add("Div", {diff, g.add("Sqrt", {variance})}));
  expect_fused(g, {"layer_norm"}, 1e-4);
}

TEST(DnnlPatterns, TakenNodesAreLeftOut) {
  TestGraph g(13);
  g.output(layer_norm(g, g.input("x", {2, 3, 16}), 16, false));
  GraphView view = g.view();
  view.take(NodeId{2});  // the Pow
  const auto capabilities = onednn::make_provider()->capabilities(view);
  for (const Claim& claim : capabilities->claims) EXPECT_EQ(claim.nodes.size(), 1U);
}

/// What exporters write for GroupNormalization before opset 18, over x of [2, 6, 5, 4].
struct ExportedGroupNorm {
  std::int64_t groups = 3;
  std::vector<std::int64_t> inner = {0, 3, -1}, back = {2, 6, 5, 4};
  Dims channels = {6, 1, 1};

  std::string add_to(TestGraph& g, const std::string& x) const {
    const std::string rows = g.add("Reshape", {x, g.ints(inner)});
    const std::string normal =
        g.add("InstanceNormalization", {rows, g.constant({groups}), g.constant({groups})},
              {attr("epsilon", 1e-3F)});
    const std::string whole = g.add("Reshape", {normal, g.ints(back)});
    return g.add("Add", {g.add("Mul", {whole, g.constant(channels)}), g.constant(channels)});
  }
};

TEST(DnnlPatterns, GroupNormAsExportersWriteIt) {
  TestGraph g(13);
  const std::string y = ExportedGroupNorm{}.add_to(g, g.input("x", {2, 6, 5, 4}));
  g.output(g.add("Mul", {y, g.add("Sigmoid", {y})}));
  expect_fused(g, {"group_norm +swish"}, 1e-5);
}

TEST(DnnlPatterns, GroupNormAfterAConvolution) {
  TestGraph g(13);
  const std::string c = g.add("Conv", {g.input("x", {2, 3, 7, 6}), g.constant({6, 3, 3, 3})});
  const std::string y = ExportedGroupNorm{.channels = {1, 6, 1, 1}}.add_to(g, c);
  g.output(g.add("Conv", {y, g.constant({4, 6, 1, 1})}));
  expect_fused(g, {"conv", "group_norm", "conv"}, 1e-4);
}

/// Groups that cut a channel, batches that are joined, and another shape than before.
TEST(DnnlPatterns, OtherReshapesAroundANormAreNoGroupNorm) {
  for (const ExportedGroupNorm& form : {ExportedGroupNorm{.groups = 4, .inner = {0, 4, -1}},
                                        ExportedGroupNorm{.groups = 6, .inner = {1, 6, -1}},
                                        ExportedGroupNorm{.back = {2, 6, 4, 5}}}) {
    TestGraph g(13);
    g.output(form.add_to(g, g.input("x", {2, 6, 5, 4})));
    EXPECT_THAT(summary(fused(g)), ::testing::Contains(::testing::StartsWith("reshape")));
    expect_same(g, 1e-5);
  }
}

TEST(DnnlPatterns, NormsWithShiftsThatAreValuesKeepThem) {
  TestGraph g(13);
  const std::string y = g.add("InstanceNormalization",
                              {g.input("x", {2, 6, 5, 4}), g.constant({6}), g.input("b", {6})});
  g.output(g.add("Mul", {y, g.constant({6, 1, 1})}));
  expect_same(g, 1e-5);
}

// The pattern belongs to the partition: sizes from before it are those of the same partition.
TEST(DnnlPatterns, SizesReadBeforeAPatternServeBehindIt) {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 3, 5});
  const std::string rows = g.add("Gather", {g.add("Shape", {x}), g.ints({0})});
  const std::string sizes = g.add("Concat", {rows, g.ints({18})}, {attr("axis", 0)});
  const std::string y = g.add("MatMul", {x, g.constant({5, 6})});
  const std::string argument = g.add("Div", {y, scalar(g, std::numbers::sqrt2)});
  const std::string sum = g.add("Add", {g.add("Erf", {argument}), scalar(g, 1.0)});
  g.output(g.add("Reshape", {times_half(g, y, sum, Order::kHalfLast), sizes}));
  expect_same(g);
}

}  // namespace
}  // namespace ctxgen::testing
