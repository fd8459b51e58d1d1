// Forms of operators that ONNX's test data, which is at the newest opset, does not show: parameters
// that were attributes, older rules, types, and input that no kernel may trip over.

#include <atomic>

#include <gtest/gtest.h>

#include "build_node.h"
#include "kernel/forwarding_context.h"
#include "kernel/vector_context.h"

namespace ctxgen::cpu {
namespace {

TEST(OldForms, BinaryOperatorsAlignBAtAnAxis) {
  Node node = make_node("Add", 6);
  set_int(node, "broadcast", 1);
  set_int(node, "axis", 0);
  const auto out = run(node, {floats({2, 3}, {0, 1, 2, 3, 4, 5}), floats({2}, {10, 20})});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(values<float>((*out)[0]), (std::vector<float>{10, 11, 12, 23, 24, 25}));
}

TEST(OldForms, ComparisonsAlignBAtAnAxis) {
  Node node = make_node("Greater", 1);
  set_int(node, "broadcast", 1);
  set_int(node, "axis", 0);
  const auto out = run(node, {floats({2, 2}, {0, 9, 0, 9}), floats({2}, {5, 10})});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ((*out)[0].bytes()[1], std::byte{1});
  EXPECT_EQ((*out)[0].bytes()[3], std::byte{0});
}

TEST(OldForms, AxesAsAttributes) {
  Node squeeze = make_node("Squeeze", 11);
  set_ints(squeeze, "axes", {0, -1});
  EXPECT_EQ(run(squeeze, {floats({1, 2, 1}, {1, 2})}).value()[0].dims(), (Dims{2}));
  Node unsqueeze = make_node("Unsqueeze", 11);
  set_ints(unsqueeze, "axes", {0, 2});
  EXPECT_EQ(run(unsqueeze, {floats({2}, {1, 2})}).value()[0].dims(), (Dims{1, 2, 1}));
  Node reduce = make_node("ReduceSum", 11);
  set_ints(reduce, "axes", {1});
  set_int(reduce, "keepdims", 0);
  EXPECT_EQ(values<float>(run(reduce, {floats({2, 2}, {1, 2, 3, 4})}).value()[0]),
            (std::vector<float>{3, 7}));
}

TEST(OldForms, SliceSplitPadClipTopKAsAttributes) {
  Node slice = make_node("Slice", 9);
  set_ints(slice, "starts", {1});
  set_ints(slice, "ends", {INT64_MAX});
  EXPECT_EQ(values<float>(run(slice, {floats({3}, {1, 2, 3})}).value()[0]),
            (std::vector<float>{2, 3}));
  Node split = make_node("Split", 11, 2);
  set_ints(split, "split", {1, 2});
  EXPECT_EQ(values<float>(run(split, {floats({3}, {1, 2, 3})}).value()[1]),
            (std::vector<float>{2, 3}));
  Node pad = make_node("Pad", 2);
  set_ints(pad, "pads", {1, 0});
  set_float(pad, "value", 7);
  EXPECT_EQ(values<float>(run(pad, {floats({1}, {1})}).value()[0]), (std::vector<float>{7, 1}));
  Node clip = make_node("Clip", 6);
  set_float(clip, "max", 2);
  EXPECT_EQ(values<float>(run(clip, {floats({3}, {-9, 2, 3})}).value()[0]),
            (std::vector<float>{-9, 2, 2}));
  Node top = make_node("TopK", 1, 2);
  set_int(top, "k", 1);
  EXPECT_EQ(values<std::int64_t>(run(top, {floats({3}, {1, 3, 2})}).value()[1]),
            (std::vector<std::int64_t>{1}));
}

TEST(OldForms, SoftmaxBelow13IsOneLineFromTheAxisOn) {
  Node node = make_node("Softmax", 11);
  const auto old = run(node, {floats({1, 2, 2}, {0, 0, 0, 0})}).value();
  EXPECT_EQ(values<float>(old[0])[0], 0.25f);
  node.opset = 13;
  EXPECT_EQ(values<float>(run(node, {floats({1, 2, 2}, {0, 0, 0, 0})}).value()[0])[0], 0.5f);
}

TEST(OldForms, UpsampleRoundsDown) {
  Node node = make_node("Upsample", 7);
  set_floats(node, "scales", {1, 1, 1, 2});
  EXPECT_EQ(values<float>(run(node, {floats({1, 1, 1, 2}, {1, 2})}).value()[0]),
            (std::vector<float>{1, 1, 2, 2}));
}

TEST(OldForms, DropoutMaskHasTheTypeOfTheData) {
  const auto out = run(make_node("Dropout", 7, 2), {floats({2}, {1, 2})}).value();
  EXPECT_EQ(out[1].type(), DataType::kFloat);
  EXPECT_EQ(run(make_node("Dropout", 13, 2), {floats({2}, {1, 2})}).value()[1].type(),
            DataType::kBool);
}

TEST(OldForms, CastNamesTypesInText) {
  Node node = make_node("Cast", 1);
  set_string(node, "to", "INT32");
  EXPECT_EQ(values<std::int32_t>(run(node, {floats({1}, {2.9f})}).value()[0])[0], 2);
}

TEST(OldForms, GroupNormalizationScalesGroups) {
  Node node = make_node("GroupNormalization", 18);
  set_int(node, "num_groups", 2);
  set_float(node, "epsilon", 0);
  const auto out =
      run(node, {floats({1, 4, 1}, {-1, 1, -1, 1}), floats({2}, {1, 10}), floats({2}, {0, 5})});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(values<float>((*out)[0]), (std::vector<float>{-1, 1, -5, 15}));
}

TEST(Types, ShortFloatsGoThroughFloat) {
  Tensor half = Tensor::allocate(DataType::kFloat16, {2, 2}).value();
  for (std::uint16_t& x : half.mutable_elements<std::uint16_t>()) x = 0x4000;  // 2
  const auto out = run(make_node("MatMul", 13), {half, half});
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ((*out)[0].type(), DataType::kFloat16);
  EXPECT_EQ(values<std::uint16_t>((*out)[0]), (std::vector<std::uint16_t>(4, 0x4800)));  // 8
}

TEST(Types, BytesOtherThanOneAreTrue) {
  Tensor bits = Tensor::allocate(DataType::kBool, {2}).value();
  bits.mutable_bytes()[0] = std::byte{0xff};
  bits.mutable_bytes()[1] = std::byte{0};
  const auto out = run(make_node("Not", 1), {bits}).value();
  EXPECT_EQ(out[0].bytes()[0], std::byte{0});
  EXPECT_EQ(out[0].bytes()[1], std::byte{1});
}

TEST(HostileInput, IntegerArithmeticDoesNotTrap) {
  const Tensor least = ints({1}, {INT64_MIN});
  const Tensor minus = ints({1}, {-1});
  const Tensor zero = ints({1}, {0});
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Mod", "Pow"})
    for (const Tensor* b : {&minus, &zero, &least})
      EXPECT_TRUE(run(make_node(op, 13), {least, *b})) << op;
  EXPECT_TRUE(run(make_node("Neg", 13), {least}));
  EXPECT_TRUE(run(make_node("Abs", 13), {least}));
}

TEST(HostileInput, IndicesAndShapesOutsideAreErrors) {
  const Tensor data = floats({2, 2}, {1, 2, 3, 4});
  const auto code = [](const Result<std::vector<Tensor>>& result) {
    return result ? ErrorCode::kInternal : result.error().code;
  };
  EXPECT_EQ(code(run(make_node("Gather", 13), {data, ints({1}, {2})})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(run(make_node("GatherND", 13), {data, ints({1, 1}, {-3})})),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(run(make_node("ScatterND", 13), {data, ints({1, 2}, {0, 9}), floats({1}, {1})})),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(run(make_node("Reshape", 13), {data, ints({2}, {-1, 3})})),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(run(make_node("Reshape", 13), {data, ints({2}, {INT64_MAX, INT64_MAX})})),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(run(make_node("Transpose", 13), {})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(run(make_node("ConstantOfShape", 9), {ints({1}, {INT64_MAX})})),
            ErrorCode::kResourceLimit);
}

TEST(HostileInput, TreesWithCyclesEnd) {
  Node node = make_node("TreeEnsembleRegressor", 1, 1, "ai.onnx.ml");
  set_ints(node, "nodes_treeids", {0, 0, 0});
  set_ints(node, "nodes_nodeids", {0, 1, 2});
  set_ints(node, "nodes_featureids", {0, 0, 0});
  set_ints(node, "nodes_truenodeids", {1, 2, 1});
  set_ints(node, "nodes_falsenodeids", {1, 2, 1});
  set_strings(node, "nodes_modes", {"BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LEQ"});
  set_floats(node, "nodes_values", {0, 0, 0});
  const auto out = run(node, {floats({1, 1}, {1})});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, ErrorCode::kInvalidGraph);
}

/// A run that is to end.
class StoppedContext final : public ForwardingContext {
 public:
  using ForwardingContext::ForwardingContext;
  [[nodiscard]] const std::atomic<bool>* stop() const override { return &stop_; }

 private:
  std::atomic<bool> stop_ = true;
};

TEST(StoppedRun, EndsInsideOfLongKernels) {
  const auto code_of = [](const Node& node, std::vector<std::optional<Tensor>> inputs) {
    const auto kernel = make_kernel(node).value();
    VectorContext all(node, inputs);
    EXPECT_TRUE(kernel->run(all)) << node.op_type.view();
    VectorContext inner(node, std::move(inputs));
    StoppedContext stopped(inner);
    const auto status = kernel->run(stopped);
    return status ? ErrorCode::kInternal : status.error().code;
  };
  const Tensor square = floats({2, 2}, {1, 2, 3, 4});
  const Tensor image = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  Node einsum = make_node("Einsum", 12);
  set_string(einsum, "equation", "ij,jk->ik");
  EXPECT_EQ(code_of(einsum, {square, square}), ErrorCode::kCancelled);
  einsum.attributes.front().s = "ij,jk->";
  EXPECT_EQ(code_of(einsum, {square, square}), ErrorCode::kCancelled);
  EXPECT_EQ(code_of(make_node("MatMul", 13), {square, square}), ErrorCode::kCancelled);
  EXPECT_EQ(code_of(make_node("Gemm", 13), {square, square}), ErrorCode::kCancelled);
  EXPECT_EQ(code_of(make_node("Conv", 11), {image, image}), ErrorCode::kCancelled);
  Node pool = make_node("MaxPool", 12);
  set_ints(pool, "kernel_shape", {2, 2});
  EXPECT_EQ(code_of(pool, {image}), ErrorCode::kCancelled);
  EXPECT_EQ(code_of(make_node("Attention", 24), {image, image, image}), ErrorCode::kCancelled);
  EXPECT_EQ(code_of(make_node("Det", 22), {square}), ErrorCode::kCancelled);
  EXPECT_EQ(code_of(make_node("NonMaxSuppression", 11),
                    {floats({1, 1, 4}, {0, 0, 1, 1}), floats({1, 1, 1}, {1}), ints({1}, {1})}),
            ErrorCode::kCancelled);
  Node regex = make_node("RegexFullMatch", 20);
  set_string(regex, "pattern", "a*");
  EXPECT_EQ(code_of(regex, {Tensor::of_strings({1}, {"aa"})}), ErrorCode::kCancelled);
  Node linear = make_node("LinearRegressor", 1, 1, "ai.onnx.ml");
  set_floats(linear, "coefficients", {1, 2});
  EXPECT_EQ(code_of(linear, {square}), ErrorCode::kCancelled);
  // What is done at once is done.
  EXPECT_EQ(code_of(make_node("Add", 14), {square, square}), ErrorCode::kInternal);
}

}  // namespace
}  // namespace ctxgen::cpu
