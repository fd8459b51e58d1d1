#include "reference.h"

// Glue: what these move must arrive bit for bit. A Relu in front gives each an intermediate to work on.
namespace ctxgen::testing {
namespace {

struct GlueCase {
  const char* op;
  std::int64_t opset;
  Dims src;
  std::vector<Attribute> attributes;
  std::vector<List> inputs;  // constants behind the data
  std::size_t outputs = 1;
};

std::vector<GlueCase> shape_cases() {
  return {
      {"Reshape", 13, {2, 3, 4}, {}, {{6, 4}}},
      {"Reshape", 13, {2, 3, 4}, {}, {{0, -1}}},
      {"Reshape", 14, {2, 3, 4}, {attr("allowzero", 1)}, {{4, -1}}},
      {"Reshape", 1, {2, 3, 4}, {attr("shape", List{4, 6})}, {}},
      {"Flatten", 13, {2, 3, 4}, {}, {}},
      {"Flatten", 13, {2, 3, 4}, {attr("axis", 0)}, {}},
      {"Flatten", 13, {2, 3, 4}, {attr("axis", -1)}, {}},
      {"Flatten", 9, {2, 3, 4}, {attr("axis", 3)}, {}},
      {"Squeeze", 11, {1, 3, 1, 4}, {attr("axes", List{0})}, {}},
      {"Squeeze", 13, {1, 3, 1, 4}, {}, {{-2, 0}}},
      {"Squeeze", 13, {1, 3, 1, 4}, {}, {}},
      {"Unsqueeze", 11, {3, 4}, {attr("axes", List{0, 3})}, {}},
      {"Unsqueeze", 13, {3, 4}, {}, {{-1, 1}}},
      {"Identity", 13, {3, 4}, {}, {}},
      {"Dropout", 13, {3, 4}, {}, {}},
      {"Dropout", 7, {3, 4}, {attr("ratio", 0.5F)}, {}},
      {"Dropout", 6, {3, 4}, {attr("is_test", 1)}, {}},
      {"Cast", 13, {3, 4}, {attr("to", 1)}, {}},
      {"Transpose", 13, {2, 3, 4}, {}, {}},
      {"Transpose", 13, {2, 3, 4, 5}, {attr("perm", List{0, 2, 3, 1})}, {}},
      {"Transpose", 13, {2, 3, 4, 5}, {attr("perm", List{0, 2, 1, 3})}, {}},
      {"Slice", 1, {5, 6}, {attr("starts", List{1}), attr("ends", List{-1})}, {}},
      {"Slice", 13, {5, 6, 7}, {}, {{1, 0}, {4, INT64_MAX}, {0, -1}, {1, 2}}},
      {"Slice", 13, {5, 6, 7}, {}, {{-3}, {-1}}},
      {"Split", 2, {6, 4}, {}, {}, 2},
      {"Split", 2, {6, 4}, {attr("split", List{1, 3}), attr("axis", 1)}, {}, 2},
      {"Split", 13, {6, 4}, {}, {{1, 2, 3}}, 3},
      {"Split", 18, {5, 4}, {attr("num_outputs", 2)}, {}, 2},
  };
}

TEST(DnnlShape, EveryRow) {
  for (const GlueCase& c : shape_cases()) {
    SCOPED_TRACE(std::format("{} opset {} of {}", c.op, c.opset, to_string(c.src)));
    TestGraph g(c.opset);
    std::vector<std::string> inputs = {g.add("Relu", {g.input("x", c.src)})};
    for (const List& list : c.inputs) inputs.push_back(g.ints(list));
    const std::string y = g.add(c.op, inputs, c.attributes, c.outputs);
    for (const ValueId id : g.model.graph.node(g.last_node()).outputs) {
      g.output(g.model.graph.value(id).name);
    }
    expect_same(g, 0.0);
  }
}

TEST(DnnlShape, ConcatOnEveryAxis) {
  for (const std::int64_t axis : {-1, 0, 1, 2, 3}) {
    TestGraph g(13);
    Dims a = {2, 3, 4, 5}, b = a;
    b[static_cast<std::size_t>(axis < 0 ? axis + 4 : axis)] = 2;
    g.output(
        g.add("Concat", {g.input("a", a), g.constant(b), g.input("b", b)}, {attr("axis", axis)}));
    expect_same(g, 0.0);
  }
}

TEST(DnnlShape, ConcatBehindConvolutions) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 4, 6, 6});
  const std::string a = g.add("Conv", {x, g.constant({3, 4, 1, 1})});
  const std::string b = g.add("Conv", {x, g.constant({5, 4, 1, 1})});
  g.output(g.add("Relu", {g.add("Concat", {a, x, b}, {attr("axis", 1)})}));
  expect_same(g);
}

TEST(DnnlShape, ConcatWithoutAxisInTheFirstOpset) {
  TestGraph g(1);
  g.output(g.add("Concat", {g.input("a", {2, 3}), g.input("b", {2, 4})}));
  expect_same(g, 0.0);
}

TEST(DnnlShape, ChannelShuffle) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 6, 4, 4});
  std::string y = g.add("Conv", {x, g.constant({6, 6, 1, 1})});
  y = g.add("Reshape", {y, g.ints({1, 2, 3, 4, 4})});
  y = g.add("Transpose", {y}, {attr("perm", List{0, 2, 1, 3, 4})});
  y = g.add("Reshape", {y, g.ints({1, 6, 4, 4})});
  g.output(g.add("Conv", {y, g.constant({6, 1, 3, 3})}, {attr("group", 6)}));
  expect_same(g);
}

}  // namespace
}  // namespace ctxgen::testing
