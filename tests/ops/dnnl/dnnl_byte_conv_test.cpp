#include <algorithm>
#include <format>

#include <gmock/gmock.h>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/provider.h"

#include "reference.h"

// Convolutions as ONNX Runtime's quantize_dynamic writes them.
namespace ctxgen::testing {
namespace {

using ::testing::HasSubstr;
using Ops = std::vector<std::string>;

struct ByteConvCase {
  Dims x = {1, 5, 9, 7}, weights = {6, 5, 3, 3};
  std::vector<Attribute> attributes = {};
  DataType type = DataType::kInt8;
  bool per_channel = false, zero = false, bias = true;
  std::string after = {};
};

Tensor byte_of(DataType type, std::int64_t value) {
  Tensor tensor = Tensor::allocate(type, {}).value();
  tensor.mutable_bytes()[0] = static_cast<std::byte>(value);
  return tensor;
}

Tensor number_of(float value, const Dims& dims = {}) {
  Tensor tensor = Tensor::allocate(DataType::kFloat, dims).value();
  std::ranges::fill(tensor.mutable_elements<float>(), value);
  return tensor;
}

/// [1, M, 1..1] or [M, 1..1].
Dims channel_dims(const ByteConvCase& c, bool batch) {
  Dims dims;
  if (batch) dims.push_back(1);
  dims.push_back(c.weights[0]);
  for (std::size_t i = 2; i < c.weights.size(); ++i) dims.push_back(1);
  return dims;
}

struct RoundedSource {
  std::string bytes, scale, zero;
};

RoundedSource rounded(TestGraph& g, const std::string& x) {
  std::string name = g.add("DynamicQuantizeLinear", {x}, {}, 3);  // ends in "_0"
  const auto output = [&](char number) {
    name.back() = number;
    return name;
  };
  return {output('0'), output('1'), output('2')};
}

std::string convolved(TestGraph& g, const RoundedSource& source, const ByteConvCase& c) {
  std::vector<std::string> inputs{source.bytes, g.tensor_constant(g.random_of(c.type, c.weights)),
                                  source.zero};
  if (c.zero) inputs.push_back(g.tensor_constant(byte_of(c.type, 17)));
  std::string y = g.add("ConvInteger", inputs, c.attributes);
  y = g.add("Cast", {y}, {attr("to", 1)});
  const std::string scales = c.per_channel ? g.constant(channel_dims(c, false), 0.01F, 0.02F)
                                           : g.tensor_constant(number_of(0.013F));
  y = g.add("Mul", {y, g.add("Mul", {source.scale, scales})});
  if (c.bias) y = g.add("Add", {y, g.constant(channel_dims(c, true))});
  return c.after.empty() ? y : g.add(c.after, {y});
}

/// The same roundings in the same order.
void expect_equal(const TestGraph& g, const std::string& y, const Ops& ops) {
  Program program;
  const auto results = compiled_results(g, &program);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(summary(program), ops);
  ASSERT_EQ(results[0].dims(), g.value(y).dims());
  for (std::int64_t i = 0; i < results[0].element_count(); ++i)
    ASSERT_EQ(at(results[0], i), at(g.value(y), i)) << i;
}

void expect_conv(const ByteConvCase& c) {
  TestGraph g(17);
  const std::string y = convolved(g, rounded(g, g.input("x", c.x)), c);
  g.output(y);
  expect_equal(g, y, {"dynamic_quantize", c.after.empty() ? "byte_conv" : "byte_conv +relu"});
}

TEST(DnnlByteConv, OfAllForms) {
  for (const DataType type : {DataType::kInt8, DataType::kUint8})
    for (const bool per_channel : {false, true})
      for (const bool zero : {false, true})
        for (const bool bias : {false, true}) {
          SCOPED_TRACE(std::format("{}, per channel {}, zero {}, bias {}", name_of(type),
                                   per_channel, zero, bias));
          expect_conv({.type = type, .per_channel = per_channel, .zero = zero, .bias = bias});
        }
}

TEST(DnnlByteConv, OfAllWindows) {
  const auto list = [](const char* name, List values) { return attr(name, std::move(values)); };
  expect_conv({.attributes = {list("pads", {1, 1, 1, 1})}, .after = "Relu"});
  expect_conv({.attributes = {list("pads", {0, 2, 1, 3}), list("strides", {2, 3})}, .zero = true});
  expect_conv({.attributes = {list("pads", {3, 3, 3, 3}), list("dilations", {3, 2})}});
  expect_conv({.attributes = {attr("auto_pad", std::string("SAME_UPPER"))}});
  expect_conv(
      {.attributes = {attr("auto_pad", std::string("SAME_LOWER")), list("strides", {2, 2})}});
  expect_conv({.x = {2, 8, 19, 21}, .weights = {33, 8, 1, 1}, .after = "Relu"});
  expect_conv({.x = {2, 7, 19, 21}, .weights = {3, 7, 1, 1}, .zero = true});
  expect_conv(
      {.x = {1, 8, 6, 6}, .weights = {4, 8, 1, 1}, .attributes = {list("strides", {2, 2})}});
  expect_conv(
      {.x = {1, 1, 28, 28}, .weights = {8, 1, 5, 5}, .attributes = {list("pads", {2, 2, 2, 2})}});
  expect_conv({.x = {3, 3, 30, 31},
               .weights = {64, 3, 7, 7},
               .attributes = {list("strides", {2, 2}), list("pads", {3, 3, 3, 3})}});
  expect_conv({.x = {2, 4, 40}, .weights = {9, 4, 5}, .attributes = {list("pads", {2, 2})}});
  expect_conv({.x = {1, 4, 40}, .weights = {1, 4, 1}, .bias = false});
  // Windows that lie outside of the image as a whole.
  expect_conv(
      {.x = {1, 2, 2, 2}, .weights = {3, 2, 1, 1}, .attributes = {list("pads", {2, 2, 2, 2})}});
}

/// Windows in long lines, which are multiplied where they lie in the image, or in a padded copy of its lines.
TEST(DnnlByteConv, OfLongLines) {
  const auto list = [](const char* name, List values) { return attr(name, std::move(values)); };
  for (const std::int64_t columns : {24, 25, 37, 130})
    for (const std::int64_t results : {5, 40, 70})
      expect_conv({.x = {2, 4, 7, columns},
                   .weights = {results, 4, 3, 3},
                   .attributes = {list("pads", {1, 1, 1, 1})},
                   .per_channel = true,
                   .after = "Relu"});
  const auto of = [](Dims x, Dims weights, std::vector<Attribute> attributes) {
    expect_conv({.x = std::move(x),
                 .weights = std::move(weights),
                 .attributes = std::move(attributes),
                 .after = "Relu"});
  };
  of({1, 8, 9, 60}, {20, 8, 3, 3}, {});
  of({1, 8, 9, 60}, {20, 8, 1, 1}, {list("strides", {2, 2})});
  of({2, 8, 9, 90}, {20, 8, 3, 2}, {list("strides", {3, 2}), list("pads", {2, 5, 0, 3})});
  of({1, 4, 20, 40}, {9, 4, 3, 1}, {list("dilations", {4, 3}), list("pads", {3, 2, 1, 0})});
  of({1, 2, 6, 50}, {3, 2, 5, 6}, {list("pads", {4, 5, 4, 5})});
  of({1, 4, 80}, {9, 4, 5}, {list("pads", {2, 2})});
  of({1, 4, 3, 30}, {5, 4, 1, 1}, {list("pads", {2, 3, 2, 3})});
}

/// Layouts stay as they are between convolutions.
TEST(DnnlByteConv, OneAfterTheOther) {
  TestGraph g(17);
  const ByteConvCase first{.attributes = {attr("pads", List{1, 1, 1, 1})}, .after = "Relu"};
  const ByteConvCase second{.weights = {40, 6, 3, 3}, .per_channel = true};
  const std::string middle = convolved(g, rounded(g, g.input("x", first.x)), first);
  const std::string y = convolved(g, rounded(g, middle), second);
  g.output(y);
  expect_equal(g, y, {"dynamic_quantize", "byte_conv +relu", "dynamic_quantize", "byte_conv"});
}

/// Zero points and scales that are constant, where oneDNN does not have a product of its own.
TEST(DnnlByteConv, WithConstantScales) {
  TestGraph g(17);
  const ByteConvCase c{.bias = true, .after = "Relu"};
  const RoundedSource source{g.tensor_input("x", g.random_of(DataType::kUint8, c.x)),
                             {},
                             g.tensor_constant(byte_of(DataType::kUint8, 77))};
  const std::string weights = g.tensor_constant(g.random_of(c.type, c.weights));
  std::string y = g.add("ConvInteger", {source.bytes, weights, source.zero});
  y = g.add("Mul", {g.add("Cast", {y}, {attr("to", 1)}), g.tensor_constant(number_of(0.002F))});
  y = g.add("Relu", {g.add("Add", {y, g.constant({6, 1, 1})})});
  g.output(y);
  if (onednn::has_fast_int8())
    expect_same(g);
  else
    expect_equal(g, y, {"byte_conv +relu"});
}

TEST(DnnlByteConv, SumsAlone) {
  for (const DataType type : {DataType::kUint8, DataType::kInt8}) {
    TestGraph g(17);
    g.output(g.add("ConvInteger",
                   {g.tensor_input("x", g.random_of(type, {2, 5, 9, 7})),
                    g.tensor_constant(g.random_of(DataType::kInt8, {6, 5, 3, 3})),
                    g.tensor_input("z", byte_of(type, 40))},
                   {attr("pads", List{1, 1, 1, 1})}));
    Program program;
    EXPECT_EQ(compiled_results(g, &program).size(), 1U);
    EXPECT_EQ(summary(program), Ops{"byte_conv"});
    expect_same(g, 0.0);
  }
}

TEST(DnnlByteConv, UnknownSizes) {
  TestGraph g(17);
  const ByteConvCase c{.attributes = {attr("pads", List{1, 1, 1, 1})}};
  const std::string x = g.input("x", c.x);
  g.output(convolved(g, rounded(g, x), c));
  g.set_dims(x, {"n", "", "h", "w"});
  expect_same(g, 0.0);
}

TEST(DnnlByteConv, FormsThatAreRefused) {
  const auto reason = [](const Dims& x, const Dims& weights, const std::vector<Attribute>& given,
                         const Tensor& zero, bool constant = true) {
    TestGraph g(17);
    const Tensor values = g.random_of(DataType::kInt8, weights);
    g.add("ConvInteger",
          {g.tensor_input("x", g.random_of(DataType::kUint8, x)),
           constant ? g.tensor_constant(values) : g.tensor_input("w", values),
           g.tensor_input("z", zero)},
          given);
    const auto capabilities = onednn::make_provider()->capabilities(g.view());
    for (const Rejection& rejection : capabilities->rejections)
      if (rejection.node == g.last_node()) return rejection.reason;
    return std::string();
  };
  const Tensor zero = byte_of(DataType::kUint8, 3);
  EXPECT_EQ(reason({1, 4, 6, 6}, {4, 4, 3, 3}, {}, zero), "");
  EXPECT_THAT(reason({1, 4, 6, 6}, {4, 2, 3, 3}, {attr("group", 2)}, zero), HasSubstr("2 groups"));
  EXPECT_THAT(reason({1, 4, 6, 6}, {4, 4, 3, 3}, {}, zero, false), HasSubstr("not constant"));
  EXPECT_THAT(reason({1, 2, 4, 4, 4}, {4, 2, 3, 3, 3}, {}, zero), HasSubstr("rank 5"));
}

}  // namespace
}  // namespace ctxgen::testing
