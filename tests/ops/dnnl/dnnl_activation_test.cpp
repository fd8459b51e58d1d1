#include <limits>

#include "reference.h"

namespace ctxgen::testing {
namespace {

struct ActivationCase {
  const char* op;
  std::int64_t opset;
  std::vector<Attribute> attributes;
  std::function<double(double)> reference;
  bool positive = false;  // defined for positive numbers only
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double elu(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }
double hard(double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }

std::vector<ActivationCase> cases() {
  return {
      {"Abs", 13, {}, [](double x) { return std::abs(x); }},
      {"Ceil", 13, {}, [](double x) { return std::ceil(x); }},
      {"Celu",
       12,
       {attr("alpha", 2.0F)},
       [](double x) { return std::max(x, 0.0) + std::min(0.0, 2.0 * std::expm1(x / 2.0)); }},
      {"Cos", 7, {}, [](double x) { return std::cos(x); }},
      {"Erf", 13, {}, [](double x) { return std::erf(x); }},
      {"Floor", 13, {}, [](double x) { return std::floor(x); }},
      {"Round", 11, {}, [](double x) { return std::nearbyint(x); }},
      {"Sign", 13, {}, [](double x) { return x > 0   ? 1.0
                                             : x < 0 ? -1.0
                                                     : 0.0; }},
      {"Sin", 22, {}, [](double x) { return std::sin(x); }},
      {"Softsign", 22, {}, [](double x) { return x / (1 + std::abs(x)); }},
      {"ThresholdedRelu", 10, {attr("alpha", 1.5F)}, [](double x) { return x > 1.5 ? x : 0.0; }},
      {"Elu", 6, {}, [](double x) { return elu(x, 1.0); }},
      {"Elu", 22, {attr("alpha", 0.5F)}, [](double x) { return elu(x, 0.5); }},
      {"Exp", 13, {}, [](double x) { return std::exp(x); }},
      {"Gelu", 20, {}, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"Gelu",
       20,
       {attr("approximate", std::string("tanh"))},
       [](double x) {
         return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       }},
      {"HardSigmoid", 6, {}, [](double x) { return hard(x, double{0.2F}, 0.5); }},
      {"HardSigmoid",
       22,
       {attr("alpha", 0.75F), attr("beta", 0.25F)},
       [](double x) { return hard(x, 0.75, 0.25); }},
      {"HardSwish", 14, {}, [](double x) { return x * hard(x, 1.0 / 6, 0.5); }},
      {"LeakyRelu", 6, {}, [](double x) { return x < 0 ? double{0.01F} * x : x; }},
      {"LeakyRelu", 16, {attr("alpha", 0.25F)}, [](double x) { return x < 0 ? 0.25 * x : x; }},
      {"Log", 13, {}, [](double x) { return std::log(x); }, true},
      {"Mish", 18, {}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"Neg", 13, {}, [](double x) { return -x; }},
      {"Reciprocal", 13, {}, [](double x) { return 1 / x; }, true},
      {"Relu", 14, {}, [](double x) { return std::max(x, 0.0); }},
      {"Relu", 6, {}, [](double x) { return std::max(x, 0.0); }},
      {"Selu", 6, {}, [](double x) { return 1.0507009873554805 * elu(x, 1.6732632423543772); }},
      {"Sigmoid", 13, {}, sigmoid},
      {"Softplus", 1, {}, [](double x) { return std::log1p(std::exp(x)); }},
      {"Sqrt", 13, {}, [](double x) { return std::sqrt(x); }, true},
      {"Swish", 24, {}, [](double x) { return x * sigmoid(x); }},
      {"Swish", 24, {attr("alpha", 1.5F)}, [](double x) { return x * sigmoid(1.5 * x); }},
      {"Tanh", 13, {}, [](double x) { return std::tanh(x); }},
  };
}

/// Values from -5 to 5, or from 0.1 to 5.
std::string wide_input(TestGraph& g, bool positive) {
  const std::string x = g.input("x", {3, 41});
  Tensor values = g.value(x);
  float* data = const_cast<float*>(values.elements<float>().data());  // ours, not shared yet
  for (int i = 0; i < 123; ++i) {
    const float step = static_cast<float>(i) / 122.0F;
    data[i] = positive ? 0.1F + 4.9F * step : -5.0F + 10.0F * step;
  }
  return x;
}

TEST(DnnlActivation, EveryRow) {
  for (const ActivationCase& c : cases()) {
    SCOPED_TRACE(std::format("{} opset {}", c.op, c.opset));
    TestGraph g(c.opset);
    const std::string x = wide_input(g, c.positive);
    const std::string y = g.add(c.op, {x}, c.attributes);
    g.output(y);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 123; ++i) expected.push_back(c.reference(at(g.value(x), i)));
    expect_reference(g, y, expected);
    expect_same(g, 2e-5);  // oneDNN's exponentials are polynomials
  }
}

TEST(DnnlActivation, ClipAttributes) {
  for (const auto& attributes :
       {std::vector<Attribute>{}, std::vector<Attribute>{attr("min", -1.0F)},
        std::vector<Attribute>{attr("max", 2.0F), attr("min", -1.0F)}}) {
    TestGraph g(6);
    g.output(g.add("Clip", {wide_input(g, false)}, attributes));
    expect_same(g);
  }
}

TEST(DnnlActivation, ClipInputs) {
  for (const int given : {0, 1, 2, 3}) {
    TestGraph g(13);
    const std::string x = wide_input(g, false);
    const std::string low = given & 1 ? g.constant({}, std::vector<float>{-1.0F}) : "";
    const std::string high = given & 2 ? g.constant({}, std::vector<float>{2.0F}) : "";
    g.output(g.add("Clip", {x, low, high}));
    expect_same(g);
  }
}

TEST(DnnlActivation, PReluSlopes) {
  for (const Dims& slope : {Dims{1}, Dims{4, 1, 1}, Dims{1, 4, 1, 1}, Dims{5}, Dims{4, 3, 5}}) {
    SCOPED_TRACE(to_string(slope));
    TestGraph g(9);
    g.output(g.add("PRelu", {g.input("x", {2, 4, 3, 5}), g.constant(slope)}));
    expect_same(g);
  }
  TestGraph g(6);
  g.output(g.add("PRelu", {g.input("x", {2, 4, 3, 5}), g.constant({4})}));
  expect_same(g);
}

TEST(DnnlActivation, PReluOfAValueAndBehindAConvolution) {
  TestGraph g(16);
  g.output(g.add("PRelu", {g.input("x", {2, 4, 3, 5}), g.input("slope", {4, 1, 5})}));
  expect_same(g);
  TestGraph conv(9);
  const std::string c =
      conv.add("Conv", {conv.input("x", {2, 3, 8, 9}), conv.constant({8, 3, 3, 3})});
  const std::string p = conv.add("PRelu", {c, conv.constant({8, 1, 1})});
  conv.output(conv.add("Add", {p, conv.input("y", {2, 8, 6, 7})}));
  expect_same(conv, 1e-5);
}

TEST(DnnlActivation, PowsOfValues) {
  TestGraph g(15);
  const std::string x = wide_input(g, true);
  const std::string y = g.add("Pow", {x, g.input("y", {41})});
  g.output(y);
  std::vector<double> expected;
  for (std::int64_t i = 0; i < 123; ++i)
    expected.push_back(std::pow(at(g.value(x), i), at(g.value("y"), i % 41)));
  expect_reference(g, y, expected);
  expect_same(g);
  TestGraph c(15);
  c.output(c.add("Pow", {wide_input(c, true), c.constant({41})}));
  expect_same(c);
}

TEST(DnnlActivation, PowsOfConstantExponents) {
  for (const float exponent : {1.0F, 2.0F, 0.5F, -1.0F, 3.0F, -0.75F, 1.7F}) {
    TestGraph g(13);
    const std::string x = wide_input(g, true);
    g.output(g.add("Pow", {x, g.constant({}, std::vector<float>{exponent})}));
    expect_same(g);
  }
}

/// What fusion and merging must not turn into factors that f32 cannot hold.
TEST(DnnlActivation, FactorsOutOfRange) {
  TestGraph clip(13);
  const std::string x = clip.input("x", {16});
  const std::string moved = clip.add("Add", {x, clip.constant({}, std::vector<float>{3.0F})});
  const std::string low = clip.constant({}, std::vector<float>{0.0F});
  clip.output(clip.add("Mul", {x, clip.add("Clip", {moved, low})}));
  const std::string high =
      clip.constant({}, std::vector<float>{std::numeric_limits<float>::infinity()});
  clip.output(clip.add("Mul", {x, clip.add("Clip", {moved, low, high})}));
  expect_same(clip, 1e-6);
  TestGraph twice(13);
  Tensor zero = *Tensor::allocate(DataType::kFloat, {2});
  zero.mutable_elements<float>()[0] = 0.0F;
  zero.mutable_elements<float>()[1] = 1e-30F;
  const std::string z = twice.tensor_input("z", zero);
  const std::string big = twice.constant({}, std::vector<float>{1e30F});
  twice.output(twice.add("Mul", {twice.add("Mul", {z, big}), big}));
  expect_same(twice, 1e-6);
}

}  // namespace
}  // namespace ctxgen::testing
