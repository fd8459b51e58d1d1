#include <gmock/gmock.h>

#include "ctxgen/onnx/infer.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "code_of.h"
#include "model_text.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::graph_of;
using test::type_of;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

bool keep_none(const Graph&, const Node&) { return false; }

auto keep_all_but(std::string_view op) {
  return [op](const Graph&, const Node& node) { return node.op_type != op; };
}

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes()) out.push_back(node.op_type.str());
  return out;
}

const Node* find_op(const Graph& graph, std::string_view op) {
  for (const Node& node : graph.nodes())
    if (node.op_type == op) return &node;
  return nullptr;
}

TEST(SchemaFunctions, FixedBodiesGetTheSchemasDefaults) {
  Model model = graph_of("g (float[N] x) => (float[] y) { y = Elu(x) }");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  const auto count = expand_schema_functions(model, keep_all_but("Elu"));
  ASSERT_EQ(code_of(count), test::kOk);
  EXPECT_EQ(*count, 1u);
  EXPECT_THAT(ops(model.graph), Not(Contains("Elu")));
  const Node* constant = find_op(model.graph, "Constant");
  ASSERT_NE(constant, nullptr);
  EXPECT_NE(model.graph.value(constant->outputs[0]).constant(), nullptr) << "alpha has its default";
  EXPECT_EQ(type_of(model, "y"), "float32[N]");
  EXPECT_EQ(model.graph.node(NodeId{0}).opset, 18);
}

TEST(SchemaFunctions, BodiesDependOnTypesAndAttributes) {
  Model model = graph_of(R"(g (float[N,8] x, float[8] scale) => (float[] y)
      { y = LayerNormalization<epsilon = 0.5>(x, scale) })");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  ASSERT_EQ(code_of(expand_schema_functions(model, keep_none)), test::kOk);
  EXPECT_THAT(ops(model.graph), Not(Contains("LayerNormalization")));
  EXPECT_THAT(ops(model.graph), Contains("ReduceMean"));
  for (const Node& node : model.graph.nodes()) EXPECT_EQ(node.call, 0) << node.describe();
}

TEST(SchemaFunctions, KeepDecides) {
  Model model = graph_of("g (float[N] x) => (float[] y) { e = Elu(x) y = Selu(e) }");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_EQ(expand_schema_functions(model, keep_all_but("Selu")).value(), 1u);
  EXPECT_EQ(model.graph.node(NodeId{0}).op_type, "Elu");
  EXPECT_FALSE(model.graph.node(NodeId{0}).source.empty());
}

TEST(SchemaFunctions, BodiesOfBodiesAreExpandedToo) {
  Model model = graph_of(R"(g (float[N] x, float[M] z) => (float16[] y, float[] h)
      { t = Cast<to = 10>(z) y = CastLike(x, t) h = HardSwish(x) })");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  // HardSwish has a HardSigmoid, which has CastLikes.
  EXPECT_GT(expand_schema_functions(model, keep_none).value(), 3u);
  for (const char* op : {"CastLike", "HardSwish", "HardSigmoid"})
    EXPECT_THAT(ops(model.graph), Not(Contains(op)));
}

TEST(SchemaFunctions, ExpandsInSubgraphs) {
  Model model = graph_of(R"(g (float[N] x, bool flag) => (float[] y) {
      y = If (flag) <
        then_branch = t () => (float[] a) { a = Elu(x) },
        else_branch = e () => (float[] b) { b = Abs(x) }
      > })");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  EXPECT_EQ(expand_schema_functions(model, keep_all_but("Elu")).value(), 1u);
  const Graph& branch = *model.graph.node(NodeId{0}).attribute("then_branch")->graphs.at(0);
  EXPECT_THAT(ops(branch), Not(Contains("Elu")));
}

TEST(SchemaFunctions, CallsAreWrittenAsTheyWere) {
  Model model = graph_of("g (float[N] x) => (float[N] y) { m = Elu(x) y = Neg(m) }");
  std::vector<std::byte> before, after;
  const auto into = [](std::vector<std::byte>& out) {
    return [&out](std::span<const std::byte> part) -> Status {
      out.insert(out.end(), part.begin(), part.end());
      return {};
    };
  };
  ASSERT_EQ(code_of(write_model(model, identity_rewrite(model), into(before))), test::kOk);
  ASSERT_EQ(code_of(expand_schema_functions(model, keep_none)), test::kOk);
  ASSERT_GT(model.graph.node_count(), 2u);
  ASSERT_EQ(code_of(write_model(model, identity_rewrite(model), into(after))), test::kOk);
  EXPECT_EQ(before, after);
}

TEST(SchemaFunctions, ExpandedNodesCanBeWrittenAndRead) {
  Model model = graph_of("g (float[N,8] x) => (float[N,8] y) { y = Softmax<axis = -1>(x) }");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  ASSERT_EQ(code_of(expand_schema_functions(model, keep_none)), test::kOk);
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.nodes.clear();
  for (std::uint32_t i = 0; i < model.graph.node_count(); ++i)
    rewrite.nodes.push_back({.kind = NodeToWrite::Kind::kNode, .node = NodeId{i}});
  std::vector<std::byte> bytes;
  ASSERT_EQ(code_of(write_model(model, rewrite,
                                [&bytes](auto part) -> Status {
                                  bytes.insert(bytes.end(), part.begin(), part.end());
                                  return {};
                                })),
            test::kOk);
  auto written = read_model(Blob::own(bytes), {});
  ASSERT_EQ(code_of(written), test::kOk);
  EXPECT_EQ(ops(written->graph), ops(model.graph));
  EXPECT_EQ(code_of(check_with_onnx(*written)), test::kOk);
}

TEST(SchemaFunctions, LoopsInBodiesAreRead) {
  Model model = graph_of(R"(g (float a, float b, float c) => (float[] y) { y = Range(a, b, c) })");
  ASSERT_EQ(code_of(infer_shapes(model)), test::kOk);
  ASSERT_EQ(code_of(expand_schema_functions(model, keep_none)), test::kOk);
  const Node* loop = find_op(model.graph, "Loop");
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->attribute("body")->graphs.size(), 1u);
}

TEST(SchemaFunctions, OlderModelsKeepWhatHasNoBodyYet) {
  Model model = graph_of("g (float[N] x) => (float[] y) { y = Relu(x) }", 13);
  EXPECT_EQ(expand_schema_functions(model, keep_none).value(), 0u);
  EXPECT_THAT(ops(model.graph), ElementsAre("Relu"));
}

}  // namespace
}  // namespace ctxgen
