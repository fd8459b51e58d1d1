#include <format>

#include "reference.h"

namespace ctxgen::testing {
namespace {

std::vector<std::string> batch_norm_inputs(TestGraph& g, const Dims& dims) {
  const std::int64_t c = dims[1];
  return {g.input("x", dims), g.constant({c}), g.constant({c}), g.constant({c}),
          g.constant({c}, 0.1F, 2.0F)};
}

TEST(DnnlNorm, BatchNormalizationInEveryVersion) {
  for (const std::int64_t opset : {1, 6, 7, 9, 14, 15}) {
    SCOPED_TRACE(opset);
    TestGraph g(opset);
    std::vector<Attribute> attributes = {attr("epsilon", 1e-3F)};
    if (opset < 7) attributes.push_back(attr("is_test", 1));
    if (opset < 9) attributes.push_back(attr("spatial", 1));
    const std::string y =
        g.add("BatchNormalization", batch_norm_inputs(g, {2, 5, 3, 4}), std::move(attributes));
    g.output(y);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 120; ++i) {
      const std::int64_t c = i / 12 % 5;
      expected.push_back((at(g.value("x"), i) - at(g.value("c2"), c)) /
                             std::sqrt(at(g.value("c3"), c) + double{1e-3F}) *
                             at(g.value("c0"), c) +
                         at(g.value("c1"), c));
    }
    expect_reference(g, y, expected);
    expect_same(g);
  }
}

TEST(DnnlNorm, BatchNormalizationOfOtherRanks) {
  for (const Dims& dims : {Dims{4, 6}, Dims{2, 6, 5}, Dims{1, 3, 2, 3, 4}}) {
    TestGraph g(15);
    g.output(g.add("BatchNormalization", batch_norm_inputs(g, dims)));
    expect_same(g);
  }
}

/// Each of its vectors may be an input, alone or with the others; so may a convolution's before it.
TEST(DnnlNorm, BatchNormalizationOfComputedVectors) {
  for (const Dims& dims : {Dims{4, 6}, Dims{2, 6, 5}, Dims{2, 6, 3, 4}})
    for (unsigned computed = 1; computed < 16; ++computed) {
      SCOPED_TRACE(computed);
      TestGraph g(15);
      std::vector<std::string> inputs = batch_norm_inputs(g, dims);
      for (std::size_t i = 1; i < inputs.size(); ++i)
        if ((computed >> (i - 1) & 1) != 0) {
          const std::string vector = g.input("v" + std::to_string(i), {dims[1]});
          inputs[i] = i == 4 ? g.add("Exp", {vector}) : vector;
        }
      if (dims.size() == 4 && computed % 2 != 0)
        inputs[0] = g.add("Conv", {inputs[0], g.input("w", {6, 6, 3, 3})},
                          {attr("pads", List{1, 1, 1, 1})});
      g.output(g.add("Relu", {g.add("BatchNormalization", inputs)}));
      expect_same(g);
    }
}

TEST(DnnlNorm, LrnOfOddAndEvenSizes) {
  for (const int size : {1, 3, 4, 5}) {
    SCOPED_TRACE(size);
    TestGraph g(13);
    const std::string x = g.input("x", {1, 7, 4, 5});
    const std::string y =
        g.add("LRN", {x},
              {attr("size", size), attr("alpha", 0.5F), attr("beta", 0.75F), attr("bias", 1.5F)});
    g.output(y);
    std::vector<double> expected;
    for (std::int64_t c = 0; c < 7; ++c)
      for (std::int64_t p = 0; p < 20; ++p) {
        double sum = 0.0;
        const std::int64_t first = c - (size - 1) / 2, last = c + size / 2;
        for (std::int64_t k = std::max<std::int64_t>(0, first);
             k <= std::min<std::int64_t>(6, last); ++k)
          sum += at(g.value(x), k * 20 + p) * at(g.value(x), k * 20 + p);
        expected.push_back(at(g.value(x), c * 20 + p) / std::pow(1.5 + 0.5 / size * sum, 0.75));
      }
    expect_reference(g, y, expected);
    expect_same(g);
  }
}

TEST(DnnlNorm, LayerNormalization) {
  for (const std::int64_t axis : {-1, 1, 2}) {
    for (const bool bias : {false, true}) {
      TestGraph g(17);
      const std::string x = g.input("x", {2, 3, 16});
      const Dims dims = axis == 1 ? Dims{3, 16} : Dims{16};
      std::vector<std::string> inputs = {x, g.constant(dims)};
      if (bias) inputs.push_back(g.constant(dims));
      g.output(g.add("LayerNormalization", inputs, {attr("axis", axis), attr("epsilon", 1e-3F)}));
      expect_same(g, 1e-4);
    }
  }
}

TEST(DnnlNorm, LayerNormalizationOfValues) {
  TestGraph g(17);
  const std::string x = g.input("x", {2, 3, 16});
  g.output(g.add("LayerNormalization", {x, g.input("scale", {16}), g.input("bias", {16})}));
  expect_same(g, 1e-4);
}

/// Normalisation of groups of channels, by definition.
std::vector<double> group_norm(const TestGraph& g, const std::vector<std::string>& inputs,
                               std::int64_t groups, bool per_group) {
  const Dims& dims = g.value(inputs[0]).dims();
  const std::int64_t c = dims[1], pixels = element_count(dims) / dims[0] / c, size = c / groups;
  std::vector<double> y;
  for (std::int64_t n = 0; n < dims[0] * groups; ++n) {
    double mean = 0, variance = 0;
    const std::int64_t first = n * size * pixels, count = size * pixels;
    for (std::int64_t i = 0; i < count; ++i)
      mean += at(g.value(inputs[0]), first + i) / double(count);
    for (std::int64_t i = 0; i < count; ++i)
      variance += std::pow(at(g.value(inputs[0]), first + i) - mean, 2) / double(count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t channel = n % groups * size + i / pixels;
      const std::int64_t k = per_group ? channel / size : channel;
      y.push_back((at(g.value(inputs[0]), first + i) - mean) / std::sqrt(variance + 1e-3F) *
                      at(g.value(inputs[1]), k) +
                  at(g.value(inputs[2]), k));
    }
  }
  return y;
}

TEST(DnnlNorm, InstanceAndGroupNormalization) {
  for (const std::int64_t opset : {6, 18, 21}) {
    for (const std::int64_t groups : {1, 3, 6}) {
      SCOPED_TRACE(std::format("opset {} groups {}", opset, groups));
      const bool instance = opset == 6;
      if (instance && groups != 6) continue;
      TestGraph g(opset);
      const std::int64_t numbers = opset == 18 ? groups : 6;
      const std::vector<std::string> inputs{g.input("x", {2, 6, 5, 7}), g.constant({numbers}),
                                            g.constant({numbers})};
      std::vector<Attribute> attributes{attr("epsilon", 1e-3F)};
      if (!instance) attributes.push_back(attr("num_groups", groups));
      const std::string y =
          g.add(instance ? "InstanceNormalization" : "GroupNormalization", inputs, attributes);
      g.output(y);
      expect_reference(g, y, group_norm(g, inputs, groups, opset == 18), 1e-5);
      expect_same(g, 1e-5);
      TestGraph last(opset);  // behind a convolution, with scale and bias that are values
      if (opset == 18) continue;
      const std::string c =
          last.add("Conv", {last.input("x", {2, 3, 7, 9}), last.constant({6, 3, 3, 3})});
      const std::string m = last.add(instance ? "InstanceNormalization" : "GroupNormalization",
                                     {c, last.input("s", {6}), last.input("b", {6})}, attributes);
      last.output(last.add("Relu", {m}));
      expect_same(last, 2e-5);
    }
  }
}

// Behind a convolution channels lie last, and are summed up in tiles of 512: groups of which a tile
// holds several, one, or a part.
TEST(DnnlNorm, GroupsOfManyChannels) {
  for (const auto& [channels, groups] : {std::pair<std::int64_t, std::int64_t>{1040, 130},
                                         {1024, 2},
                                         {1100, 1},
                                         {1200, 2},
                                         {520, 520}}) {
    SCOPED_TRACE(std::format("{} channels, {} groups", channels, groups));
    TestGraph g(21);
    const std::string c =
        g.add("Conv", {g.input("x", {2, 2, 3, 3}), g.constant({channels, 2, 1, 1})});
    g.output(g.add("GroupNormalization", {c, g.input("s", {channels}), g.input("b", {channels})},
                   {attr("epsilon", 1e-3F), attr("num_groups", groups)}));
    expect_same(g, 1e-4);  // nine pixels of a channel may differ by little: 30 times their rounding
  }
}

TEST(DnnlNorm, RmsNormalization) {
  for (const char* op : {"RMSNormalization", "SimplifiedLayerNormalization"}) {
    SCOPED_TRACE(op);
    TestGraph g(23);
    const std::string x = g.input("x", {3, 45}), scale = g.constant({45});
    const std::string y = g.add(op, {x, scale}, {attr("epsilon", 1e-3F)});
    g.output(y);
    std::vector<double> expected;
    for (std::int64_t r = 0; r < 3; ++r) {
      double mean = 0;
      for (std::int64_t i = 0; i < 45; ++i) mean += std::pow(at(g.value(x), r * 45 + i), 2) / 45;
      for (std::int64_t i = 0; i < 45; ++i)
        expected.push_back(at(g.value(x), r * 45 + i) / std::sqrt(mean + double{1e-3F}) *
                           at(g.value(scale), i));
    }
    expect_reference(g, y, expected);
    expect_same(g, 1e-5);
  }
  TestGraph g(23);
  g.output(g.add("RMSNormalization", {g.input("x", {2, 3, 16}), g.input("s", {3, 16})},
                 {attr("axis", 1)}));
  expect_same(g, 1e-5);
}

TEST(DnnlNorm, RmsNormalizationNodeByNode) {
  for (const bool power : {false, true})
    for (const std::string how : {"divide", "inverse", "reciprocal"}) {
      SCOPED_TRACE(std::format("power {}, {}", power, how));
      TestGraph g(17);
      const std::string x = g.input("x", {2, 3, 45}), scale = g.constant({45});
      const std::string square = power ? g.add("Pow", {x, g.constant({}, std::vector<float>{2.0F})})
                                       : g.add("Mul", {x, x});
      const std::string mean = g.add("ReduceMean", {square}, {attr("axes", List{-1})});
      const std::string root =
          g.add("Sqrt", {g.add("Add", {mean, g.constant({}, std::vector<float>{1e-3F})})});
      std::string normal;
      if (how == "divide")
        normal = g.add("Div", {x, root});
      else if (how == "inverse")
        normal = g.add("Mul", {x, g.add("Div", {g.constant({}, std::vector<float>{1.0F}), root})});
      else
        normal = g.add("Mul", {x, g.add("Reciprocal", {root})});
      const std::string y = g.add("Mul", {scale, normal});
      g.output(y);
      Program program;
      const std::vector<Tensor> results = compiled_results(g, &program);
      EXPECT_EQ(summary(program), std::vector<std::string>{"rms_norm"});
      EXPECT_LE(difference(results.at(0), g.value(y)), 1e-5);
    }
}

TEST(DnnlNorm, LayerNormalizationReference) {
  TestGraph g(17);
  const std::string x = g.input("x", {2, 32}), scale = g.constant({32});
  const std::string y = g.add("LayerNormalization", {x, scale});
  g.output(y);
  std::vector<double> expected;
  for (std::int64_t r = 0; r < 2; ++r) {
    double mean = 0.0, variance = 0.0;
    for (std::int64_t i = 0; i < 32; ++i) mean += at(g.value(x), r * 32 + i) / 32;
    for (std::int64_t i = 0; i < 32; ++i)
      variance += std::pow(at(g.value(x), r * 32 + i) - mean, 2) / 32;
    for (std::int64_t i = 0; i < 32; ++i)
      expected.push_back((at(g.value(x), r * 32 + i) - mean) / std::sqrt(variance + double{1e-5F}) *
                         at(g.value(scale), i));
  }
  expect_reference(g, y, expected);
  expect_same(g, 1e-4);
}

}  // namespace
}  // namespace ctxgen::testing
