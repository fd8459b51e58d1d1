#include "ctxgen/cpu/fold.h"

#include <gtest/gtest.h>

#include "build_node.h"

namespace ctxgen::cpu {
namespace {

class FoldTest : public testing::Test {
 protected:
  ValueId constant(std::string name, Tensor tensor) {
    const ValueId id = model.graph.find_or_add(name);
    model.graph.value(id).initializer = std::move(tensor);
    return id;
  }
  ValueId input(std::string name, std::vector<Dim> dims) {
    const ValueId id = model.graph.find_or_add(name);
    Value& value = model.graph.value(id);
    value.is_input = true;
    value.type.kind = ValueType::Kind::kTensor;
    value.type.element = DataType::kFloat;
    value.type.shape = std::move(dims);
    return id;
  }
  ValueId add(Node node, std::vector<ValueId> inputs, std::string output) {
    node.inputs = std::move(inputs);
    node.outputs = {model.graph.find_or_add(output)};
    const ValueId id = node.outputs[0];
    model.graph.add_node(std::move(node));
    return id;
  }
  const Boxed<Tensor>& folded(ValueId id) { return model.graph.value(id).folded; }

  Model model;
};

/// Kept apart from what is always known, and only what overridable initializers lead to.
TEST_F(FoldTest, FollowsDefaultsOfOverridableInitializers) {
  const ValueId a = constant("a", ints({2}, {3, 4})), b = constant("b", ints({2}, {1, 1}));
  model.graph.value(a).is_overridable = true;
  const ValueId fixed = add(make_node("Add", 13), {b, b}, "fixed");
  const ValueId sum = add(make_node("Add", 13), {a, fixed}, "sum");
  const ValueId open = add(make_node("Add", 13), {sum, input("x", {Dim::fixed(2)})}, "open");
  ASSERT_EQ(fold_constants(model, kMaxFoldedBytes), 1U);
  EXPECT_EQ(fold_defaults(model, kMaxFoldedBytes), 1U);
  EXPECT_EQ(fold_defaults(model, kMaxFoldedBytes), 0U);
  EXPECT_FALSE(folded(sum));
  const Value& value = model.graph.value(sum);
  EXPECT_EQ(value.constant(), nullptr);
  ASSERT_NE(value.constant_by_default(), nullptr);
  EXPECT_EQ(value.constant_by_default()->elements<std::int64_t>()[1], 6);
  EXPECT_FALSE(model.graph.value(fixed).by_default);
  EXPECT_NE(model.graph.value(fixed).constant_by_default(), nullptr);
  EXPECT_EQ(model.graph.value(open).constant_by_default(), nullptr);
}

TEST_F(FoldTest, FollowsChainsOfConstants) {
  const ValueId a = constant("a", ints({2}, {3, 4}));
  const ValueId sum = add(make_node("Add", 13), {a, a}, "sum");
  const ValueId product = add(make_node("Mul", 13), {sum, a}, "product");
  EXPECT_EQ(fold_constants(model, 1 << 20), 2u);
  ASSERT_TRUE(folded(product));
  EXPECT_EQ(values<std::int64_t>(*folded(product)), (std::vector<std::int64_t>{18, 32}));
  EXPECT_EQ(fold_constants(model, 1 << 20), 0u);
}

/// The second input of CastLike gives its type only.
TEST_F(FoldTest, FoldsConstantsThatAreCastLikeAnInput) {
  const ValueId a = constant("a", ints({2}, {3, 4})), x = input("x", {Dim()});
  const ValueId like = add(make_node("CastLike", 19), {a, x}, "like");
  const ValueId untyped = model.graph.find_or_add("untyped");
  const ValueId open = add(make_node("CastLike", 19), {a, untyped}, "open");
  const ValueId other = add(make_node("CastLike", 19), {x, a}, "other");
  EXPECT_EQ(fold_constants(model, 1 << 20), 1u);
  ASSERT_TRUE(folded(like));
  EXPECT_EQ(values<float>(*folded(like)), (std::vector<float>{3, 4}));
  EXPECT_FALSE(folded(open));
  EXPECT_FALSE(folded(other));
}

TEST_F(FoldTest, LeavesOverridableInitializersAndInputs) {
  const ValueId a = constant("a", ints({1}, {3}));
  model.graph.value(a).is_overridable = true;
  const ValueId x = input("x", {Dim::fixed(1)});
  const ValueId b = add(make_node("Neg", 13), {a}, "b");
  const ValueId c = add(make_node("Neg", 13), {x}, "c");
  EXPECT_EQ(fold_constants(model, 1 << 20), 0u);
  EXPECT_FALSE(folded(b));
  EXPECT_FALSE(folded(c));
}

TEST_F(FoldTest, KnowsShapesWithoutData) {
  const ValueId x = input("x", {Dim::symbol(model.symbol("n")), Dim::fixed(3), Dim::fixed(5)});
  const ValueId all = add(make_node("Shape", 15), {x}, "all");
  Node part = make_node("Shape", 15);
  set_int(part, "start", -2);
  const ValueId tail = add(part, {x}, "tail");
  const ValueId size = add(make_node("Size", 13), {x}, "size");
  EXPECT_EQ(fold_constants(model, 1 << 20), 1u);
  EXPECT_FALSE(folded(all));
  EXPECT_FALSE(folded(size));
  ASSERT_TRUE(folded(tail));
  EXPECT_EQ(values<std::int64_t>(*folded(tail)), (std::vector<std::int64_t>{3, 5}));
}

TEST_F(FoldTest, RefusesHugeOutputsBeforeAllocating) {
  const ValueId shape = constant("shape", ints({2}, {1 << 20, 1 << 19}));  // 2 TiB of floats
  const ValueId filled = add(make_node("ConstantOfShape", 9), {shape}, "filled");
  const ValueId start = constant("start", ints({}, {0}));
  const ValueId limit = constant("limit", ints({}, {INT64_C(1) << 40}));
  const ValueId delta = constant("delta", ints({}, {1}));
  const ValueId range = add(make_node("Range", 11), {start, limit, delta}, "range");
  const ValueId one = constant("one", floats({1, 1}, {1}));
  const ValueId expanded = add(make_node("Expand", 13), {one, shape}, "expanded");
  const ValueId tiled = add(make_node("Tile", 13), {one, shape}, "tiled");
  EXPECT_EQ(fold_constants(model, std::uint64_t{1} << 62), 0u);
  for (ValueId id : {filled, range, expanded, tiled}) EXPECT_FALSE(folded(id));
}

TEST_F(FoldTest, CountsTheSumOfNewBytes) {
  const ValueId a = constant("a", ints({8}, {1, 2, 3, 4, 5, 6, 7, 8}));
  add(make_node("Neg", 13), {a}, "b");
  add(make_node("Abs", 13), {a}, "c");
  std::uint64_t used_bytes = 0;
  EXPECT_EQ(fold_constants(model, 100, &used_bytes), 1u);
  EXPECT_EQ(used_bytes, 64u);
  EXPECT_EQ(fold_constants(model, 100 - used_bytes, &used_bytes), 0u);
  EXPECT_EQ(fold_constants(model, 64, &used_bytes), 1u);
  EXPECT_EQ(used_bytes, 128u);
}

TEST_F(FoldTest, CountsTextsThatKernelsMake) {
  const ValueId shape = constant("shape", ints({1}, {10}));
  Node node = make_node("ConstantOfShape", 24);
  Attribute value;
  value.name = "value";
  value.kind = AttributeKind::kTensor;
  value.tensors.push_back(Tensor::of_strings({1}, {std::string(1000, 'x')}));
  node.attributes.push_back(std::move(value));
  add(node, {shape}, "first");
  add(node, {shape}, "second");
  std::uint64_t used_bytes = 0;
  EXPECT_EQ(fold_constants(model, 15'000, &used_bytes), 1u);
  EXPECT_GT(used_bytes, 10'000u);
}

TEST_F(FoldTest, SkipsRandomAndBrokenNodes) {
  const ValueId a = constant("a", floats({2}, {1, 2}));
  const ValueId b = constant("b", floats({3}, {1, 2, 3}));
  add(make_node("Bernoulli", 15), {a}, "random");
  const ValueId broken = add(make_node("Add", 13), {a, b}, "broken");
  EXPECT_EQ(fold_constants(model, 1 << 20), 0u);
  EXPECT_FALSE(folded(broken));
}

}  // namespace
}  // namespace ctxgen::cpu
