#include "core/known_shapes.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/cpu/fold.h"
#include "ctxgen/onnx/infer.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "parse_model.h"

namespace ctxgen {
namespace {

constexpr std::uint64_t kMaxBytes = 1 << 20;

std::string text_of(const ValueType& type) {
  if (!type.has_rank()) return "unknown";
  std::string text = "[";
  for (const Dim& dim : *type.shape)
    text += (dim.is_fixed() ? std::to_string(dim.value()) : "?") + std::string(" ");
  return text + "]";
}

Model read(const std::string& body) {
  auto model = read_model(parse_model("<ir_version: 8, opset_import: [\"\" : 18]> g " + body), {});
  EXPECT_TRUE(model) << model.error().message;
  return *std::move(model);
}

/// As a graph of ONNX Runtime's comes: element types are known, shapes of what nodes make are not.
void forget_shapes(Model& model) {
  for (std::uint32_t v = 0; v < model.graph.value_count(); ++v) {
    Value& value = model.graph.value(ValueId{v});
    if (!value.producer.valid()) continue;
    value.type.kind = ValueType::Kind::kTensor;
    value.type.element = DataType::kFloat;
    value.type.shape.reset();
  }
}

void complete(Model& model) {
  forget_shapes(model);
  for (int round = 0; round < 4; ++round) {
    const auto folded = cpu::fold_constants(model, kMaxBytes);
    ASSERT_TRUE(folded) << folded.error().message;
    complete_shapes(model);
  }
  EXPECT_EQ(complete_shapes(model), 0U) << "the last round found something";
}

class KnownShapes : public testing::TestWithParam<const char*> {};

TEST_P(KnownShapes, AreThoseThatOnnxInfers) {
  Model ours = read(GetParam()), theirs = read(GetParam());
  complete(ours);
  forget_shapes(theirs);
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(infer_shapes(theirs));
    ASSERT_TRUE(cpu::fold_constants(theirs, kMaxBytes));
  }
  for (const Value& value : ours.graph.values()) {
    const ValueId other = theirs.graph.find(value.name);
    ASSERT_TRUE(other.valid());
    if (!value.producer.valid() || value.constant() != nullptr) continue;
    EXPECT_EQ(text_of(value.type), text_of(theirs.graph.value(other).type)) << value.name;
    EXPECT_TRUE(value.type.has_rank()) << value.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, KnownShapes,
    testing::Values(
        "(float[2, 3, 4] x) => (float y) { s = Shape(x) e = Expand(x, s) y = Reshape(e, s) }",
        R"((float[2, 3, 4] x) => (float y) <int64[3] s = {0, -1, 2}> { y = Reshape(x, s) })",
        R"((float[n, 3, 4] x) => (float y) <int64[3] s = {0, -1, 2}> { y = Reshape(x, s) })",
        R"((float[2, 3] x, float[4, 1, 3] z) => (float y) { a = Add(x, z) y = Sigmoid(a) })",
        R"((float[n, 3] x, float[1, 1] z, float[k] q) => (float y) { a = Mul(x, z) y = Max(a, x) b = Sub(x, q) })",
        R"((float[2, 3, 4] x) => (float y) <int64[2] a = {0, -1}> { y = ReduceSum <keepdims = 0> (x, a) z = ReduceMax(x, a) })",
        R"((float[2, 3, 4] x) => (float y) { y = ReduceMean <keepdims = 0> (x) z = ReduceMin <noop_with_empty_axes = 1> (x) })",
        R"((float[2, 3, 4] x) => (float y) { y = Transpose <perm = [2, 0, 1]> (x) z = Transpose(x) })",
        R"((float[2, n, 4] x, float[2, 5, 4] z) => (float y) { y = Concat <axis = 1> (x, z) a = Concat <axis = -1> (z, z, x) })",
        R"((float[2, 3] x) => (float y) <int64[2] a = {0, -1}> { y = Unsqueeze(x, a) z = Squeeze(y, a) })",
        R"((float[5, 3, 2] x, int64[4, 1] i, int64 j) => (float y) { y = Gather <axis = 1> (x, i) z = Gather(x, j) })",
        R"((float[9, 7] x) => (float y) <int64[2] b = {1, -2}, int64[2] e = {100, 0}, int64[2] a = {0, 1}, int64[2] s = {3, -2}>
           { y = Slice(x, b, e, a, s) z = Slice(x, b, e) })",
        R"((float[9, 7] x) => (float y) <int64[1] b = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {0}, int64[1] s = {-1}>
           { y = Slice(x, b, e, a, s) })",
        R"((float[2, 7] x) => (float y) <int64[2] s = {3, 4}> { y, z = Split <axis = 1> (x, s) a, b, c = Split <axis = 1, num_outputs = 3> (x) })",
        R"((float[2, 1, 3, 4] x, float[5, 4, 6] w) => (float y) { y = MatMul(x, w) z = Softmax(y) })"));

TEST(KnownShapes, NothingFollowsFromWhatIsNotKnown) {
  Model model = read(
      R"((float[2, 3] x, int64[2] s, int64[1] a) => (float y) { y = Reshape(x, s) b = ReduceSum(x, a) c = Slice(x, a, a) d = Expand(x, s) })");
  complete(model);
  for (const Value& value : model.graph.values()) {
    EXPECT_TRUE(!value.producer.valid() || !value.type.has_rank()) << value.name;
  }
}

TEST(KnownShapes, MistakesOfAModelTellNothing) {
  Model model = read(
      R"((float[2, 3] x) => (float y) <int64[3] s = {-1, -1, 6}, int64[1] far = {7}, int64[1] zero = {0}, int64[1] low = {-5}>
         { y = Reshape(x, s) a = Transpose <perm = [0, 5]> (x) b = Concat <axis = 9> (x, x) c = Squeeze(x, far) d = Unsqueeze(x, low)
           e = Slice(x, zero, far, zero, zero) f = Gather <axis = 4> (x, zero) g = ReduceSum(x, far) h = Expand(x, low) })");
  complete(model);
  for (const Value& value : model.graph.values()) {
    const bool made = value.producer.valid() && value.constant() == nullptr;
    EXPECT_TRUE(!made || !value.type.has_rank()) << value.name;
  }
}

TEST(KnownShapes, TheModelsWordCounts) {
  Model model = read("(float[2, n] x) => (float y) { y = Relu(x) }");
  forget_shapes(model);
  ValueType& type = model.graph.value(model.graph.find("y")).type;
  type.shape = std::vector{Dim(), Dim::fixed(7)};
  EXPECT_EQ(complete_shapes(model), 1U);
  EXPECT_EQ(text_of(type), "[2 7 ]");
}

}  // namespace
}  // namespace ctxgen
