// Each limit of ModelLimits with a model that has just as much as it allows, and one that has more.
#include <gtest/gtest.h>

#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "proto_builder.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::node;
using test::Proto;

test::Outcome read_with(const Proto& model, const ModelLimits& limits,
                        const std::filesystem::path& folder = {}) {
  ReadModelOptions options;
  options.limits = limits;
  options.external_data_folder = folder;
  return code_of(read_model(model.blob(), options));
}

/// x -> Relu -> ... -> y, `count` nodes.
Proto chain(int count) {
  auto parts = test::relu_graph();
  parts.nodes.clear();
  for (int i = 0; i < count; ++i)
    parts.nodes.push_back(node("Relu", {i == 0 ? std::string("x") : "v" + std::to_string(i)},
                               {i + 1 == count ? std::string("y") : "v" + std::to_string(i + 1)}));
  return test::model(test::graph(parts));
}

Proto named(std::string_view name) {
  auto parts = test::relu_graph();
  parts.nodes = {node("Relu", {"x"}, {"y"}, {}, "", name)};
  return test::model(test::graph(parts));
}

TEST(Limits, Nodes) {
  EXPECT_EQ(read_with(chain(10), {.nodes = 10}), test::kOk);
  EXPECT_EQ(read_with(chain(11), {.nodes = 10}), ErrorCode::kResourceLimit);
}

TEST(Limits, Items) {
  const ModelLimits limits{.items = 40};
  EXPECT_EQ(read_with(chain(30), limits), test::kOk);
  EXPECT_EQ(read_with(chain(60), limits), ErrorCode::kResourceLimit);
  Proto header = chain(1), in_graph;
  for (int i = 0; i < 60; ++i) header.text(6, "doc");
  EXPECT_EQ(read_with(header, limits), ErrorCode::kResourceLimit) << "fields beside the graph";
  auto parts = test::relu_graph();
  for (int i = 0; i < 60; ++i) parts.more.text(10, "doc");
  EXPECT_EQ(read_with(test::model(test::graph(parts)), limits), ErrorCode::kResourceLimit)
      << "fields of the graph";
}

TEST(Limits, NameOfANode) {
  EXPECT_EQ(read_with(named(std::string(100, 'n')), {.name_bytes = 100}), test::kOk);
  EXPECT_EQ(read_with(named(std::string(101, 'n')), {.name_bytes = 100}),
            ErrorCode::kResourceLimit);
  EXPECT_EQ(read_with(named(std::string(65'536, 'n')), {}), test::kOk);
  const auto outcome = read_with(named(std::string(65'537, 'n')), {});
  EXPECT_EQ(outcome, ErrorCode::kResourceLimit);
  EXPECT_LT(outcome.message.size(), 300U) << "the message does not repeat it";
}

TEST(Limits, NamesOfEverythingElse) {
  const std::string longer(101, 'n');
  const ModelLimits limits{.name_bytes = 100};
  const auto with = [&](auto change) {
    auto parts = test::relu_graph();
    change(parts);
    return read_with(
        test::model(test::graph(parts), {test::opset("", 18), test::opset("local", 1)}), limits);
  };
  const auto kTooMuch = ErrorCode::kResourceLimit;
  EXPECT_EQ(with([&](auto& p) { p.nodes = {node(longer, {"x"}, {"y"})}; }), kTooMuch);
  EXPECT_EQ(with([&](auto& p) { p.nodes = {node("Relu", {"x"}, {"y"}, {}, longer)}; }), kTooMuch);
  EXPECT_EQ(with([&](auto& p) { p.nodes.push_back(node("Relu", {"x"}, {longer})); }), kTooMuch);
  EXPECT_EQ(
      with([&](auto& p) { p.nodes[0] = node("Relu", {"x"}, {"y"}, {test::attr_int(longer, 1)}); }),
      kTooMuch);
  EXPECT_EQ(with([&](auto& p) { p.inputs.push_back(test::value_info(longer, 1, {})); }), kTooMuch);
  EXPECT_EQ(with([&](auto& p) { p.outputs.push_back(test::value_info(longer, 1, {})); }), kTooMuch);
  EXPECT_EQ(with([&](auto& p) { p.value_infos.push_back(test::value_info(longer, 1, {})); }),
            kTooMuch);
  EXPECT_EQ(with([&](auto& p) { p.initializers.push_back(test::floats(longer, {1}, {1})); }),
            kTooMuch);
}

TEST(Limits, NamesTogether) {
  EXPECT_EQ(read_with(named(std::string(900, 'n')), {.names_bytes = 1000}), test::kOk);
  EXPECT_EQ(read_with(named(std::string(1000, 'n')), {.names_bytes = 1000}),
            ErrorCode::kResourceLimit);
}

TEST(Limits, OpsetImports) {
  std::vector<Proto> imports{test::opset("", 18)};
  for (int i = 1; i < 1024; ++i) imports.push_back(test::opset("d" + std::to_string(i), 1));
  EXPECT_EQ(read_with(test::model(test::graph(test::relu_graph()), imports), {}), test::kOk);
  imports.push_back(test::opset("one more", 1));
  EXPECT_EQ(read_with(test::model(test::graph(test::relu_graph()), imports), {}),
            ErrorCode::kResourceLimit);
}

TEST(Limits, ExpandedFunctions) {
  auto parts = test::relu_graph();
  parts.nodes = {node("Same", {"x"}, {"y"}, {}, "local")};
  Proto model = test::model(test::graph(parts), {test::opset("", 18), test::opset("local", 1)});
  model.message(25, test::function("Same", {"a"}, {"b"}, {},
                                   {node("Neg", {"a"}, {"t"}), node("Neg", {"t"}, {"b"})}));
  EXPECT_EQ(read_with(model, {.expanded_bytes = 2000}), test::kOk);
  EXPECT_EQ(read_with(model, {.expanded_bytes = 1000}), ErrorCode::kResourceLimit)
      << "512 for each node";
  Proto wide = test::model(test::graph(parts), {test::opset("", 18), test::opset("local", 1)});
  wide.message(25, test::function("Same", {"a", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l",
                                           "m", "n", "o", "p", "q", "r", "s", "t", "u", "v", "w"},
                                  {"b"}, {}, {node("Neg", {"a"}, {"b"})}));
  EXPECT_EQ(read_with(wide, {.expanded_bytes = 3000}), test::kOk);
  EXPECT_EQ(read_with(wide, {.expanded_bytes = 1300}), ErrorCode::kResourceLimit)
      << "64 for each input";
}

TEST(Limits, DepthOfCalls) {
  const auto calling = [](int depth) {
    auto parts = test::relu_graph();
    parts.nodes = {node("F" + std::to_string(depth), {"x"}, {"y"}, {}, "local")};
    Proto model = test::model(test::graph(parts), {test::opset("", 18), test::opset("local", 1)});
    model.message(25, test::function("F1", {"a"}, {"b"}, {}, {node("Neg", {"a"}, {"b"})}));
    for (int i = 2; i <= depth; ++i)
      model.message(25,
                    test::function("F" + std::to_string(i), {"a"}, {"b"}, {},
                                   {node("F" + std::to_string(i - 1), {"a"}, {"b"}, {}, "local")}));
    return model;
  };
  EXPECT_EQ(read_with(calling(static_cast<int>(kMaxCallDepth)), {}), test::kOk);
  EXPECT_EQ(read_with(calling(static_cast<int>(kMaxCallDepth) + 1), {}), ErrorCode::kResourceLimit);
}

TEST(Limits, AttributesOfANode) {
  const auto with = [](int count) {
    Proto relu = node("Relu", {"x"}, {"y"});
    for (int i = 0; i < count; ++i) relu.message(5, test::attr_int("a" + std::to_string(i), i));
    auto parts = test::relu_graph();
    parts.nodes = {relu};
    return read_with(test::model(test::graph(parts)), {});
  };
  EXPECT_EQ(with(1024), test::kOk);
  EXPECT_EQ(with(1025), ErrorCode::kResourceLimit);
}

TEST(Limits, RankOfTensorsAndTypes) {
  const auto with = [](std::size_t rank) {
    auto parts = test::relu_graph();
    parts.initializers = {test::floats("w", std::vector<std::int64_t>(rank, 1), {1})};
    return read_with(test::model(test::graph(parts)), {});
  };
  EXPECT_EQ(with(kMaxRank), test::kOk);
  EXPECT_EQ(with(kMaxRank + 1), ErrorCode::kUnsupported);
}

TEST(Limits, FilesOfExternalData) {
  const test::TempFolder folder;
  auto parts = test::relu_graph();
  for (int i = 0; i < 4; ++i) {
    const std::string name = "w" + std::to_string(i);
    folder.write(name, "abcd");
    parts.initializers.push_back(test::tensor(name, 1, {1})
                                     .message(13, Proto().text(1, "location").text(2, name))
                                     .varint(14, 1));
  }
  const Proto model = test::model(test::graph(parts));
  EXPECT_EQ(read_with(model, {.external_files = 4}, folder.path()), test::kOk);
  EXPECT_EQ(read_with(model, {.external_files = 3}, folder.path()), ErrorCode::kResourceLimit);
}

TEST(Limits, StandInTheDocument) {
  const std::string text = test::read_text(SECURITY_DOCUMENT);
  const ModelLimits limits;
  for (const std::uint64_t number :
       {limits.nodes, limits.items, limits.name_bytes, limits.names_bytes, limits.opset_imports,
        limits.expanded_bytes, limits.external_files, kMaxSubgraphDepth, kMaxCallDepth,
        std::uint64_t{kMaxRank}, kMaxTensorBytes, static_cast<std::uint64_t>(kMaxOpset)})
    EXPECT_NE(text.find("| " + std::to_string(number)), std::string::npos) << number;
}

}  // namespace
}  // namespace ctxgen
