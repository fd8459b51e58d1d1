#include <limits>

#include "reference.h"

namespace ctxgen::testing {
namespace {

/// Random truth; ONNX's bool is a byte of 0 or 1.
Tensor mask(TestGraph& g, const Dims& dims) {
  Tensor tensor = g.random_of(DataType::kBool, dims);
  for (std::byte& byte : tensor.mutable_bytes()) byte &= std::byte{1};
  return tensor;
}

struct Shapes {
  Dims condition, a, b;
};

const Shapes kBroadcasts[] = {
    {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
    {{1, 1, 4, 5}, {2, 3, 4, 5}, {1}},
    {{4, 5}, {1}, {2, 3, 4, 5}},
    {{2, 1, 1, 5}, {2, 3, 4, 5}, {4, 1}},
    {{2, 3, 4, 1}, {2, 3, 4, 5}, {5}},
    {{3, 4, 5}, {1}, {2, 1, 1, 1}},
    {{2, 3, 4, 5}, {1}, {1, 1}},
    {{4, 1}, {2, 1, 5}, {3, 1, 1, 1}},
    {{7}, {7}, {7}},
    {{1}, {4, 1}, {1, 6}},
};

TEST(DnnlWhere, NumpyBroadcasting) {
  for (const auto& [c, a, b] : kBroadcasts) {
    SCOPED_TRACE(std::format("{} {} {}", to_string(c), to_string(a), to_string(b)));
    TestGraph values(16);
    const std::string condition = values.tensor_input("c", mask(values, c));
    values.output(values.add("Where", {condition, values.input("a", a), values.input("b", b)}));
    expect_same(values, 0.0);
    TestGraph constants(16);
    const std::string fixed = constants.tensor_constant(mask(constants, c));
    constants.output(
        constants.add("Where", {fixed, constants.input("a", a), constants.constant(b)}));
    constants.output(
        constants.add("Where", {fixed, constants.constant(a), constants.input("b", b)}));
    expect_same(constants, 0.0);
  }
}

/// A scalar that is not constant is refused everywhere; a constant one is the usual mask value.
TEST(DnnlWhere, ConstantScalars) {
  TestGraph g(9);
  const std::string x = g.input("x", {2, 3, 4});
  const std::string low = g.constant({}, std::vector<float>{-10000.0F});
  g.output(g.add("Where", {g.tensor_input("c", mask(g, {3, 4})), x, low}));
  g.output(g.add("Where", {g.tensor_constant(mask(g, {})), low, x}));
  expect_same(g, 0.0);
}

TEST(DnnlWhere, BehindAConvolution) {
  for (const Dims& dims : {Dims{2, 6, 5, 7}, Dims{1, 6, 1, 1}, Dims{5, 7}}) {
    SCOPED_TRACE(to_string(dims));
    TestGraph g(16);
    const std::string weights = g.constant({6, 3, 3, 3});
    const std::string conv = g.add("Conv", {g.input("x", {2, 3, 7, 9}), weights});
    const std::string other = g.add("Conv", {g.input("z", {2, 3, 7, 9}), weights});
    const std::string condition = g.tensor_input("c", mask(g, dims));
    const std::string y = g.add("Where", {condition, conv, other});
    g.output(g.add("MaxPool", {y}, {attr("kernel_shape", List{2, 2})}));
    g.output(g.add("Where", {condition, g.input("p", {2, 6, 5, 7}), conv}));
    expect_same(g, 1e-5);
  }
}

/// The result may lie where one of the operands died.
TEST(DnnlWhere, OverAnOperand) {
  for (const bool second : {false, true}) {
    TestGraph g(16);
    const std::string x = g.input("x", {3, 40});
    const std::string y = g.add("Exp", {x}), z = g.add("Neg", {g.add("Exp", {x})});
    const std::string w =
        g.add("Where", {g.tensor_input("c", mask(g, {3, 40})), second ? x : y, z});
    g.output(g.add("Where", {g.tensor_constant(mask(g, {40})), w, w}));
    expect_same(g, 1e-6);
  }
}

TEST(DnnlWhere, WhatIsNotChosenLeavesNoTrace) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  TestGraph g(16);
  Tensor condition = *Tensor::allocate(DataType::kBool, {4});
  std::ranges::copy(std::initializer_list<bool>{true, false, false, true},
                    condition.mutable_elements<bool>().begin());
  Tensor a = *Tensor::allocate(DataType::kFloat, {4}), b = *Tensor::allocate(DataType::kFloat, {4});
  std::ranges::copy(std::initializer_list<float>{1.0F, kNan, kInfinity, -0.0F},
                    a.mutable_elements<float>().begin());
  std::ranges::copy(std::initializer_list<float>{kNan, 2.0F, 3.0F, -kInfinity},
                    b.mutable_elements<float>().begin());
  const std::string x = g.tensor_input("a", a), y = g.tensor_input("b", b);
  const std::string z = g.add("Where", {g.tensor_input("c", condition), x, y});
  g.output(z);
  expect_reference(g, z, {1.0, 2.0, 3.0, 0.0}, 0.0);
  expect_same(g, 0.0);
}

/// Masks are moved before they are used: they join the partition as bytes.
TEST(DnnlWhere, MovedConditions) {
  TestGraph g(13);
  const std::string c = g.tensor_input("c", mask(g, {3, 8, 6}));
  const std::string cut = g.add("Slice", {c, g.ints({2, 1}), g.ints({7, 6}), g.ints({1, 2})});
  const std::string turned = g.add("Transpose", {cut}, {attr("perm", List{0, 2, 1})});
  const std::string both = g.add("Concat", {turned, turned}, {attr("axis", 1)});
  const std::string four = g.add("Unsqueeze", {both, g.ints({1})});
  const std::string spread = g.add("Expand", {four, g.ints({1, 2, 1, 1})});
  const std::string flat = g.add("Reshape", {spread, g.ints({6, 10, 5})});
  const std::string x = g.add("Abs", {g.input("x", {6, 10, 5})});
  g.output(g.add("Where", {flat, x, g.constant({}, std::vector<float>{-1.0F})}));
  g.output(flat);  // bool leaves the partition, too
  expect_same(g, 0.0);
  EXPECT_EQ(g.value(flat).type(), DataType::kBool);
}

TEST(DnnlWhere, LargeChannelsLastConditions) {
  // Above the size where oneDNN's reorder moves the bytes.
  TestGraph g(16);
  const std::string conv = g.add("Conv", {g.input("x", {1, 3, 40, 40}), g.constant({16, 3, 1, 1})});
  g.output(g.add("Where", {g.tensor_input("c", mask(g, {1, 16, 40, 40})), conv,
                           g.constant({}, std::vector<float>{7.0F})}));
  expect_same(g, 1e-5);
}

TEST(DnnlWhere, Halves) {
  TestGraph g(16);
  const std::string x = g.tensor_input("x", g.random_of(DataType::kFloat16, {2, 3, 4}));
  const std::string low = g.tensor_constant(g.random_of(DataType::kFloat16, {4}));
  g.output(g.add("Where", {g.tensor_input("c", mask(g, {2, 1, 4})), x, low}));
  expect_same(g, 0.0);
}

/// GPT-2's causal mask: a constant, cut to the lengths of this run.
TEST(DnnlWhere, MaskCutToSizes) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 2, 3, 5});
  const std::string shape = g.add("Shape", {x});
  const auto dim = [&](std::int64_t i) { return g.add("Gather", {shape, g.ints({i})}); };
  const std::string rows = dim(-2), columns = dim(-1);
  const std::string all = g.tensor_constant(mask(g, {1, 1, 16, 16}));
  const std::string first = g.add("Sub", {columns, rows});
  const std::string cut = g.add("Slice", {all, first, columns, g.ints({2})});
  const std::string square = g.add("Slice", {cut, g.ints({0}), columns, g.ints({3})});
  g.output(g.add("Where", {square, g.add("Abs", {x}), g.constant({}, std::vector<float>{-1e4F})}));
  g.set_dims("x", {"", "", "rows", "columns"});
  for (const std::string& name : {cut, square}) g.set_dims(name, {"", "", "r", "c"});
  expect_same(g, 0.0);
}

}  // namespace
}  // namespace ctxgen::testing
