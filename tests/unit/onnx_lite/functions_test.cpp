#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>

#include "ctxgen/onnx_lite/expand.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "proto_builder.h"

namespace ctxgen {
namespace {

using test::attr_ref;
using test::code_of;
using test::function;
using test::GraphParts;
using test::node;
using test::opset;
using test::Proto;
using testing::ElementsAre;

constexpr int kFloat = 1, kGraph = 5;

Proto call(std::string_view name, test::Names inputs, test::Names outputs,
           std::initializer_list<Proto> attributes = {}, std::string_view node_name = "") {
  return node(name, inputs, outputs, attributes, "local", node_name);
}

Proto model_of(const std::vector<Proto>& nodes, const std::vector<Proto>& functions) {
  GraphParts parts = test::relu_graph();
  parts.nodes = nodes;
  parts.inputs.push_back(test::value_info("flag", 9, {}));
  Proto model = test::model(graph(parts), {opset("", 18), opset("local", 1)});
  for (const Proto& each : functions) model.message(25, each);
  return model;
}

Result<Model> read(const std::vector<Proto>& nodes, const std::vector<Proto>& functions) {
  return read_model(model_of(nodes, functions).blob(), {});
}

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& each : graph.nodes()) out.push_back(each.op_type.str());
  return out;
}

std::string name(const Graph& graph, ValueId id) { return id.valid() ? graph.value(id).name : "-"; }

const Proto kTwice = function("Twice", {"a"}, {"b"}, {},
                              {node("Neg", {"a"}, {"t"}), node("Abs", {"t"}, {"b"}, {}, "", "in")});

TEST(Functions, CallsAreExpandedInPlace) {
  const auto model =
      read({call("Twice", {"x"}, {"m"}, {}, "first"), call("Twice", {"m"}, {"y"})}, {kTwice});
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& graph = model->graph;
  EXPECT_THAT(ops(graph), ElementsAre("Neg", "Abs", "Neg", "Abs"));
  EXPECT_EQ(graph.calls().size(), 2u);
  EXPECT_EQ(graph.node(NodeId{0}).call, 0);
  EXPECT_EQ(graph.node(NodeId{3}).call, 1);
  EXPECT_TRUE(graph.node(NodeId{0}).source.empty());
  EXPECT_EQ(name(graph, graph.node(NodeId{0}).inputs[0]), "x");
  EXPECT_EQ(name(graph, graph.node(NodeId{1}).outputs[0]), "m");
  EXPECT_EQ(name(graph, graph.node(NodeId{3}).outputs[0]), "y");
  EXPECT_EQ(graph.node(NodeId{1}).name, "first__0/in");
  EXPECT_NE(graph.node(NodeId{0}).outputs[0], graph.node(NodeId{2}).outputs[0]);
  EXPECT_EQ(as_text(model->bytes(graph.calls()[0].source)),
            call("Twice", {"x"}, {"m"}, {}, "first").str());
  ASSERT_EQ(model->functions.size(), 1u);
  EXPECT_EQ(model->functions[0].name, "Twice");
  EXPECT_THAT(ops(*model->functions[0].body), ElementsAre("Neg", "Abs"));
}

TEST(Functions, NewNamesAreUniqueEvenWhereTheFileHasThem) {
  // The text has the very name that the expansion would give, after the call.
  const auto model = read({call("Twice", {"x"}, {"m"}, {}, "f"), node("Abs", {"m"}, {"f__0/t"}),
                           node("Neg", {"f__0/t"}, {"y"})},
                          {kTwice});
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_EQ(name(model->graph, model->graph.node(NodeId{0}).outputs[0]), "f__0/t_");
}

TEST(Functions, MayBeLeftAlone) {
  const auto model =
      read_model(model_of({call("Twice", {"x"}, {"y"})}, {kTwice}).blob(),
                 {.external_data_folder = {}, .file_name = "", .expand_functions = false});
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(model->graph), ElementsAre("Twice"));
}

TEST(Functions, AttributesComeFromCallsAndDefaults) {
  const Proto leaky =
      function("Leaky", {"a"}, {"b"}, {"slope"},
               {node("LeakyRelu", {"a"}, {"b"},
                     {attr_ref("alpha", "slope", kFloat), attr_ref("beta", "bias", kFloat),
                      attr_ref("gamma", "absent", kFloat)})},
               18, {test::attr_float("bias", 0.25)});
  // Through a second function that hands its own attribute on.
  const Proto outer = function("Outer", {"a"}, {"b"}, {"s"},
                               {call("Leaky", {"a"}, {"b"}, {attr_ref("slope", "s", kFloat)})});
  const auto model =
      read({call("Outer", {"x"}, {"y"}, {test::attr_float("s", 0.5)})}, {leaky, outer});
  ASSERT_EQ(code_of(model), test::kOk);
  const Node& relu = model->graph.node(NodeId{0});
  EXPECT_EQ(relu.op_type, "LeakyRelu");
  EXPECT_EQ(relu.float_or("alpha", 0), 0.5f);
  EXPECT_EQ(relu.float_or("beta", 0), 0.25f);
  EXPECT_EQ(relu.attribute("gamma"), nullptr) << "nobody gives it: left out";
  EXPECT_EQ(relu.call, 0) << "the outermost call";
  EXPECT_EQ(model->graph.calls().size(), 1u);

  const auto wrong = read({call("Leaky", {"x"}, {"y"}, {test::attr_int("slope", 1)})}, {leaky});
  EXPECT_EQ(code_of(wrong), ErrorCode::kInvalidGraph) << "an int for a float";
}

TEST(Functions, NodesHaveTheVersionsOfTheFunction) {
  const Proto old = function("Old", {"a"}, {"b"}, {}, {node("Neg", {"a"}, {"b"})}, 13);
  const auto model = read({call("Old", {"x"}, {"y"})}, {old});
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_EQ(model->graph.node(NodeId{0}).opset, 13);
  const Proto future =
      function("New", {"a"}, {"b"}, {}, {node("Neg", {"a"}, {"b"})}, kMaxOpset + 1);
  EXPECT_EQ(code_of(read({call("New", {"x"}, {"y"})}, {future})), ErrorCode::kUnsupported);
}

TEST(Functions, ConstantsInBodiesAreFolded) {
  const Proto shift =
      function("Shift", {"a"}, {"b"}, {"by"},
               {node("Constant", {}, {"c"}, {attr_ref("value_float", "by", kFloat)}),
                node("Add", {"a", "c"}, {"b"})});
  const auto model = read({call("Shift", {"x"}, {"y"}, {test::attr_float("by", 3)})}, {shift});
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& graph = model->graph;
  const Tensor* constant = graph.value(graph.node(NodeId{1}).inputs[1]).constant();
  ASSERT_NE(constant, nullptr);
  EXPECT_EQ(constant->elements<float>()[0], 3);
}

TEST(Functions, AbsentInputsAndOutputs) {
  const Proto clip =
      function("Limit", {"a", "low", "high"}, {"b", "spare"}, {},
               {node("Clip", {"a", "low", "high"}, {"b"}), node("Neg", {"a"}, {"spare"})});
  const auto model = read({call("Limit", {"x"}, {"y"})}, {clip});
  ASSERT_EQ(code_of(model), test::kOk);
  const Node& clip_node = model->graph.node(NodeId{0});
  EXPECT_FALSE(clip_node.input(1).valid());
  EXPECT_FALSE(clip_node.input(2).valid());
  EXPECT_TRUE(model->graph.node(NodeId{1}).outputs[0].valid()) << "computed, but nobody asked";
}

TEST(Functions, InputsThatAreOutputsPassThrough) {
  const Proto pass = function("Pass", {"a"}, {"a"}, {}, {});
  const auto model = read({call("Pass", {"x"}, {"y"})}, {pass});
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(model->graph), ElementsAre("Identity"));
  EXPECT_EQ(name(model->graph, model->graph.node(NodeId{0}).inputs[0]), "x");
}

Proto branch_of(const Proto& inner, std::string_view output) {
  GraphParts parts;
  parts.nodes = {inner};
  parts.outputs = {test::value_info(output, 1, {"?"})};
  return graph(parts);
}

TEST(Functions, AreExpandedInSubgraphs) {
  const auto model =
      read({node("If", {"flag"}, {"y"},
                 {test::attr_graph("then_branch", branch_of(call("Twice", {"x"}, {"t"}), "t")),
                  test::attr_graph("else_branch", branch_of(node("Neg", {"x"}, {"e"}), "e"))})},
           {kTwice});
  ASSERT_EQ(code_of(model), test::kOk);
  const Node& holder = model->graph.node(NodeId{0});
  const Graph& inner = *holder.attribute("then_branch")->graphs.at(0);
  EXPECT_THAT(ops(inner), ElementsAre("Neg", "Abs"));
  EXPECT_EQ(inner.node(NodeId{0}).call, 0);
  EXPECT_EQ(holder.captures.size(), 1u);
}

TEST(Functions, SubgraphsOfBodiesSeeTheBodysValuesOnly) {
  const auto chooser = [](std::string_view read_name) {
    return function(
        "Choose", {"f", "a"}, {"b"}, {},
        {node("Neg", {"a"}, {"x"}),  // named as a value of the main graph
         node("If", {"f"}, {"b"},
              {test::attr_graph("then_branch", branch_of(node("Abs", {read_name}, {"t"}), "t")),
               test::attr_graph("else_branch", branch_of(node("Abs", {"a"}, {"t"}), "t"))})});
  };
  const auto model = read({call("Choose", {"flag", "x"}, {"y"})}, {chooser("x")});
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& graph = model->graph;
  const Node& holder = graph.node(NodeId{1});
  EXPECT_THAT(holder.captures, ElementsAre(graph.node(NodeId{0}).outputs[0], graph.find("x")));
  EXPECT_TRUE(holder.attribute("then_branch")->source.empty()) << "its names are others now";
  EXPECT_EQ(code_of(read({call("Choose", {"flag", "x"}, {"y"})}, {chooser("flag")})),
            ErrorCode::kInvalidGraph)
      << "a value of the caller";
}

TEST(Functions, GraphAttributesOfCallsSeeTheCaller) {
  const Proto apply = function(
      "Apply", {"f", "a"}, {"b"}, {"body"},
      {node("If", {"f"}, {"b"},
            {attr_ref("then_branch", "body", kGraph),
             test::attr_graph("else_branch", branch_of(node("Abs", {"a"}, {"t"}), "t"))})});
  const auto model =
      read({node("Neg", {"x"}, {"n"}),
            call("Apply", {"flag", "x"}, {"y"},
                 {test::attr_graph("body", branch_of(node("Abs", {"n"}, {"t"}), "t"))})},
           {apply});
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& graph = model->graph;
  EXPECT_THAT(graph.node(NodeId{1}).captures, ElementsAre(graph.find("n"), graph.find("x")));
}

// Calls hand their graph on through two functions, the inner of which uses it two graphs deep.
TEST(Functions, GraphAttributesOfCallsSeeTheCallerFromGraphsInsideToo) {
  const auto if_of = [](std::string_view condition, const Proto& then_branch,
                        std::string_view result) {
    return node(
        "If", {condition}, {result},
        {then_branch, test::attr_graph("else_branch", branch_of(node("Abs", {"a"}, {"t"}), "t"))});
  };
  // "n" is a value of the caller and, another one, of each body around the use.
  const Proto middle = branch_of(if_of("f", attr_ref("then_branch", "body", kGraph), "n"), "n");
  const Proto apply = function("Apply", {"f", "a"}, {"b"}, {"body"},
                               {if_of("f", test::attr_graph("then_branch", middle), "b")});
  const Proto hand_on =
      function("HandOn", {"f", "a"}, {"b"}, {"it"},
               {node("Neg", {"a"}, {"n"}),
                call("Apply", {"f", "n"}, {"b"}, {attr_ref("body", "it", kGraph)})});
  const auto model =
      read({node("Neg", {"x"}, {"n"}),
            call("HandOn", {"flag", "x"}, {"y"},
                 {test::attr_graph("it", branch_of(node("Abs", {"n"}, {"t"}), "t"))})},
           {apply, hand_on});
  ASSERT_EQ(code_of(model), test::kOk) << model.error().message;
  const Graph& graph = model->graph;
  const Node& outer = graph.node(NodeId{2});
  const ValueId n = graph.find("n");
  EXPECT_TRUE(std::ranges::contains(outer.captures, n));
  const Graph& between = *outer.attribute("then_branch")->graphs.at(0);
  ASSERT_TRUE(between.find("n").valid());
  EXPECT_TRUE(between.value(between.find("n")).is_outer);
  EXPECT_TRUE(std::ranges::contains(between.node(NodeId{0}).captures, between.find("n")));
  const Graph& given = *between.node(NodeId{0}).attribute("then_branch")->graphs.at(0);
  EXPECT_EQ(given.node(NodeId{0}).inputs[0], given.find("n"));
  EXPECT_TRUE(given.value(given.find("n")).is_outer);
}

TEST(Functions, NewNamesInSubgraphsAreNotThoseOfValuesAround) {
  // "f__0/t" is what the value inside of the branch would be called.
  const Proto choose = function(
      "Choose", {"f", "a"}, {"b"}, {},
      {node("If", {"f"}, {"b"},
            {test::attr_graph("then_branch",
                              [] {
                                GraphParts parts;
                                parts.nodes = {node("Neg", {"f"}, {"t"}),
                                               node("Add", {"t", "a"}, {"r"})};
                                parts.outputs = {test::value_info("r", 1, {"?"})};
                                return graph(parts);
                              }()),
             test::attr_graph("else_branch", branch_of(node("Abs", {"a"}, {"t"}), "t"))})});
  const auto model =
      read({node("Neg", {"x"}, {"f__0/t"}), call("Choose", {"flag", "f__0/t"}, {"y"}, {}, "f")},
           {choose});
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& inner = *model->graph.node(NodeId{1}).attribute("then_branch")->graphs.at(0);
  const Node& sum = inner.node(NodeId{1});
  EXPECT_EQ(sum.inputs[0], inner.node(NodeId{0}).outputs[0]);
  EXPECT_EQ(name(inner, sum.inputs[0]), "f__0/t_");
  EXPECT_EQ(name(inner, sum.inputs[1]), "f__0/t");
  EXPECT_TRUE(inner.value(sum.inputs[1]).is_outer);
}

TEST(Functions, BranchesKeepTheTypeThatTheyDeclareForAValueAround) {
  GraphParts parts;
  parts.outputs = {test::value_info("t", 1, {"?"})};
  const Proto choose = function(
      "Choose", {"f", "a"}, {"b"}, {},
      {node("Neg", {"a"}, {"t"}),
       node("If", {"f"}, {"b"},
            {test::attr_graph("then_branch", graph(parts)),
             test::attr_graph("else_branch", branch_of(node("Abs", {"a"}, {"e"}), "e"))})});
  const auto model = read({call("Choose", {"flag", "x"}, {"y"}, {}, "f")}, {choose});
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& inner = *model->graph.node(NodeId{1}).attribute("then_branch")->graphs.at(0);
  const Value& output = inner.value(inner.outputs.front());
  EXPECT_TRUE(output.is_outer);
  EXPECT_EQ(output.type.kind, ValueType::Kind::kTensor);
}

// The other way around: a branch of the text that calls a function and reads such a name.
TEST(Functions, NewNamesInBranchesAreNotThoseThatTheBranchCaptures) {
  GraphParts parts;
  parts.nodes = {call("Twice", {"x"}, {"u"}, {}, "f"), node("Add", {"u", "f__0/t"}, {"r"})};
  parts.outputs = {test::value_info("r", 1, {"?"})};
  const auto model =
      read({node("Neg", {"x"}, {"f__0/t"}),
            node("If", {"flag"}, {"y"},
                 {test::attr_graph("then_branch", graph(parts)),
                  test::attr_graph("else_branch", branch_of(node("Abs", {"x"}, {"e"}), "e"))})},
           {kTwice});
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& inner = *model->graph.node(NodeId{1}).attribute("then_branch")->graphs.at(0);
  const Node& sum = inner.node(NodeId{2});
  EXPECT_NE(sum.inputs[1], inner.node(NodeId{0}).outputs[0]);
  EXPECT_TRUE(inner.value(sum.inputs[1]).is_outer);
}

TEST(Functions, RefusesWhatDoesNotEnd) {
  const Proto self = function("Self", {"a"}, {"b"}, {}, {call("Self", {"a"}, {"b"})});
  EXPECT_EQ(code_of(read({call("Self", {"x"}, {"y"})}, {self})), ErrorCode::kInvalidGraph);
  const Proto ping = function("Ping", {"a"}, {"b"}, {}, {call("Pong", {"a"}, {"b"})});
  const Proto pong = function("Pong", {"a"}, {"b"}, {}, {call("Ping", {"a"}, {"b"})});
  EXPECT_EQ(code_of(read({call("Ping", {"x"}, {"y"})}, {ping, pong})), ErrorCode::kInvalidGraph);
}

TEST(Functions, ExpansionIsBounded) {
  // Each calls the one before ten times: 10^30 nodes in a few kilobytes.
  std::vector<Proto> functions{function("F0", {"a"}, {"b"}, {}, {node("Neg", {"a"}, {"b"})})};
  for (int level = 1; level <= 30; ++level) {
    std::vector<Proto> body;
    std::string last = "a";
    for (int i = 0; i < 10; ++i) {
      const std::string next = i == 9 ? "b" : "t" + std::to_string(i);
      body.push_back(call("F" + std::to_string(level - 1), {last}, {next}));
      last = next;
    }
    functions.push_back(function("F" + std::to_string(level), {"a"}, {"b"}, {}, body));
  }
  EXPECT_EQ(code_of(read({call("F3", {"x"}, {"y"})}, functions)), test::kOk) << "1,000 nodes";
  EXPECT_EQ(code_of(read({call("F30", {"x"}, {"y"})}, functions)), ErrorCode::kResourceLimit);
}

TEST(Functions, RefusesBrokenCallsAndBodies) {
  EXPECT_EQ(code_of(read({call("Twice", {"x", "x"}, {"y"})}, {kTwice})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(read({call("Twice", {"x"}, {"y", "z"})}, {kTwice})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(read({call("Twice", {"late"}, {"y"})}, {kTwice})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(read({call("Twice", {"x"}, {"x"})}, {kTwice})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(read({call("Twice", {"x"}, {"y"})}, {kTwice, kTwice})),
            ErrorCode::kInvalidGraph)
      << "defined twice";
  const Proto hollow = function("Hollow", {"a"}, {"b"}, {}, {});
  EXPECT_EQ(code_of(read({call("Hollow", {"x"}, {"y"})}, {hollow})), ErrorCode::kInvalidGraph);
}

TEST(ExpandNodes, ReplacesNodesByBodies) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Relu", {"x"}, {"r"}, {test::attr_float("limit", 4)}, "", "relu"),
                 node("Neg", {"r"}, {"y"})};
  Model model = read_model(test::model(graph(parts)).blob(), {}).value();
  const Proto text =
      function("Relu", {"a"}, {"b"}, {"limit"},
               {node("Constant", {}, {"c"}, {attr_ref("value_float", "limit", kFloat)}),
                node("Max", {"a", "c"}, {"b"})});
  const auto body_of = [&text](const Graph&,
                               const Node& each) -> Result<std::optional<std::vector<std::byte>>> {
    if (each.op_type != "Relu") return std::nullopt;
    const auto bytes = std::as_bytes(std::span(text.str()));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const SourceRange source = model.graph.node(NodeId{0}).source;
  const auto count = expand_nodes(model, model.graph, body_of);
  ASSERT_EQ(code_of(count), test::kOk);
  EXPECT_EQ(*count, 1u);
  EXPECT_THAT(ops(model.graph), ElementsAre("Constant", "Max", "Neg"));
  const Graph& graph = model.graph;
  EXPECT_EQ(graph.value(graph.node(NodeId{1}).inputs[1]).constant()->elements<float>()[0], 4);
  EXPECT_EQ(graph.node(NodeId{1}).call, 0);
  EXPECT_EQ(graph.calls()[0].source.offset, source.offset);
  EXPECT_EQ(graph.node(NodeId{2}).call, -1);
  EXPECT_FALSE(graph.node(NodeId{2}).source.empty());
  EXPECT_EQ(expand_nodes(model, model.graph, body_of).value(), 0u);
}

TEST(ExpandNodes, NodesOfOneCallGetNamesOfTheirOwn) {
  const Proto many = function(
      "Many", {"a"}, {"b"}, {},
      {node("Relu", {"a"}, {"r"}), node("Relu", {"r"}, {"s"}), node("Relu", {"s"}, {"b"})});
  auto model = read({call("Many", {"x"}, {"y"})}, {many});
  ASSERT_EQ(code_of(model), test::kOk);
  const Proto text =
      function("Relu", {"a"}, {"b"}, {}, {node("Neg", {"a"}, {"t"}), node("Neg", {"t"}, {"b"})});
  const auto body_of = [&text](const Graph&,
                               const Node&) -> Result<std::optional<std::vector<std::byte>>> {
    const auto bytes = std::as_bytes(std::span(text.str()));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(expand_nodes(*model, model->graph, body_of).value(), 3u);
  for (std::uint32_t i = 0; i < model->graph.node_count(); i += 2)
    EXPECT_EQ(name(model->graph, model->graph.node(NodeId{i}).outputs[0]),
              "Relu__" + std::to_string(1 + i / 2) + "/t");
}

}  // namespace
}  // namespace ctxgen
