#include <cmath>
#include <numbers>

#include "reference.h"

namespace ctxgen::testing {
namespace {

const std::string kMs = "com.microsoft";

std::vector<std::string> ops_of(const TestGraph& g) {
  Program program;
  EXPECT_EQ(compiled_results(g, &program).size(), g.model.graph.outputs.size());
  return summary(program);
}

Attribute floats(std::string name, std::vector<float> values) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.kind = AttributeKind::kFloats;
  attribute.floats = std::move(values);
  return attribute;
}

TEST(DnnlContrib, GeluForms) {
  for (const char* op : {"BiasGelu", "FastGelu", "Gelu", "QuickGelu"}) {
    SCOPED_TRACE(op);
    TestGraph g(17);
    const std::string x = g.input("x", {2, 3, 40});
    std::vector<std::string> inputs = {x};
    std::vector<float> bias(40, 0.0F);
    if (std::string(op) == "BiasGelu" || std::string(op) == "FastGelu") {
      for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) / 10 - 2;
      inputs.push_back(g.constant({40}, bias));
    }
    const std::string y = g.add_in(kMs, op, inputs);
    g.output(y);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 240; ++i) {
      const double v = at(g.value(x), i) + bias[static_cast<std::size_t>(i % 40)];
      const double tanh = std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v));
      expected.push_back(std::string(op) == "FastGelu"    ? v / 2 * (1 + tanh)
                         : std::string(op) == "QuickGelu" ? v / (1 + std::exp(-1.702 * v))
                                                          : v / 2 * std::erfc(-v / std::sqrt(2.0)));
    }
    expect_reference(g, y, expected);
    expect_same(g, 1e-5);
  }
}

TEST(DnnlContrib, FastGeluWithoutBiasAndQuickGeluOfAnotherAlpha) {
  TestGraph g(17);
  const std::string y = g.add_in(kMs, "FastGelu", {g.input("x", {5, 7})});
  g.output(g.add_in(kMs, "QuickGelu", {y}, {attr("alpha", 0.5F)}));
  expect_same(g, 1e-5);
}

TEST(DnnlContrib, FusedConvolutions) {
  for (const char* activation :
       {"", "Relu", "Tanh", "Sigmoid", "LeakyRelu", "HardSigmoid", "Clip"}) {
    for (const bool sum : {false, true}) {
      SCOPED_TRACE(std::string(activation) + (sum ? " with Z" : ""));
      TestGraph g(17);
      const std::string x = g.input("x", {2, 6, 9, 9});
      std::vector<Attribute> attributes = {attr("pads", List{1, 1, 1, 1})};
      const std::string name = activation;
      if (!name.empty()) attributes.push_back(attr("activation", name));
      if (name == "LeakyRelu") attributes.push_back(floats("activation_params", {0.3F}));
      if (name == "HardSigmoid") attributes.push_back(floats("activation_params", {0.4F, 0.1F}));
      if (name == "Clip") attributes.push_back(floats("activation_params", {-0.5F, 0.75F}));
      std::vector<std::string> inputs = {x, g.constant({8, 6, 3, 3}), g.constant({8})};
      if (sum) inputs.push_back(g.input("z", {2, 8, 9, 9}));
      g.output(g.add_in(kMs, "FusedConv", inputs, attributes));
      expect_same(g, 1e-5);
      EXPECT_EQ(ops_of(g).size(), 1U);  // sum and activation are part of the convolution
    }
  }
}

TEST(DnnlContrib, FusedProducts) {
  for (const char* activation : {"", "Relu", "Elu", "LeakyRelu"}) {
    SCOPED_TRACE(activation);
    TestGraph g(17);
    std::vector<Attribute> attributes = {attr("transB", 1), attr("alpha", 0.5F),
                                         attr("beta", 2.0F)};
    const std::string name = activation;
    if (!name.empty()) attributes.push_back(attr("activation", name));
    if (name == "LeakyRelu") attributes.push_back(attr("activation_alpha", 0.2F));
    g.output(g.add_in(kMs, "FusedGemm",
                      {g.input("a", {4, 10}), g.constant({7, 10}), g.constant({7})}, attributes));
    expect_same(g, 1e-5);
    EXPECT_EQ(ops_of(g).size(), 1U);
  }
  for (const bool swapped : {false, true}) {
    TestGraph g(17);
    const std::string a = g.input("a", swapped ? Dims{2, 10, 4} : Dims{2, 4, 10});
    g.output(g.add_in(kMs, "FusedMatMul", {a, g.input("b", {2, 6, 10})},
                      {attr("alpha", 0.125F), attr("transA", swapped ? 1 : 0), attr("transB", 1)}));
    expect_same(g, 1e-5);
  }
}

/// By definition, over the last dim.
std::vector<double> normalized(const std::vector<double>& sums, std::int64_t size, bool rms,
                               const Tensor& gamma, const Tensor* beta, double epsilon) {
  std::vector<double> y;
  for (std::size_t row = 0; row < sums.size(); row += static_cast<std::size_t>(size)) {
    double mean = 0, squares = 0;
    for (std::int64_t i = 0; i < size; ++i)
      mean += sums[row + static_cast<std::size_t>(i)] / static_cast<double>(size);
    if (rms) mean = 0;
    for (std::int64_t i = 0; i < size; ++i)
      squares +=
          std::pow(sums[row + static_cast<std::size_t>(i)] - mean, 2) / static_cast<double>(size);
    for (std::int64_t i = 0; i < size; ++i)
      y.push_back((sums[row + static_cast<std::size_t>(i)] - mean) / std::sqrt(squares + epsilon) *
                      at(gamma, i) +
                  (beta == nullptr ? 0 : at(*beta, i)));
  }
  return y;
}

TEST(DnnlContrib, SkipNormalization) {
  for (const bool rms : {false, true})
    for (const bool bias : {false, true})
      for (const Dims& skip : {Dims{2, 3, 24}, Dims{3, 24}}) {
        SCOPED_TRACE(std::string(rms ? "simplified" : "") + (bias ? " bias" : ""));
        TestGraph g(17);
        const std::string x = g.input("x", {2, 3, 24}), s = g.input("s", skip);
        const std::string gamma = g.constant({24}), beta = g.constant({24}), b = g.constant({24});
        std::vector<std::string> inputs = {x, s, gamma};
        if (!rms) inputs.push_back(beta);
        if (bias) inputs.push_back(b);
        const char* op = rms ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization";
        const std::string y = g.add_in(kMs, op, inputs, {attr("epsilon", 1e-3F)});
        g.output(y);
        std::vector<double> sums;
        for (std::int64_t i = 0; i < 144; ++i)
          sums.push_back(at(g.value(x), i) + at(g.value(s), i % element_count(skip)) +
                         (bias ? at(g.value(b), i % 24) : 0));
        expect_reference(g, y,
                         normalized(sums, 24, rms, g.value(gamma), rms ? nullptr : &g.value(beta),
                                    double{1e-3F}),
                         1e-4);
        expect_same(g, 1e-4);
      }
}

TEST(DnnlContrib, HalfPrecisionSkipNormalization) {
  TestGraph g(17);
  const std::string x = g.tensor_input("x", g.random_of(DataType::kFloat16, {2, 3, 24}));
  const std::string s = g.tensor_input("s", g.random_of(DataType::kFloat16, {2, 3, 24}));
  const std::string gamma = g.tensor_constant(g.random_of(DataType::kFloat16, {24}));
  g.output(g.add_in(kMs, "SkipSimplifiedLayerNormalization", {x, s, gamma}));
  expect_same(g, 3.0 / 1024);
}

}  // namespace
}  // namespace ctxgen::testing
