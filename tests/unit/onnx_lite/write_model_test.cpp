#include "ctxgen/onnx_lite/write_model.h"

#include <gmock/gmock.h>

#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "proto_builder.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::GraphParts;
using test::node;
using test::opset;
using test::Proto;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string write(const Model& model, const ModelRewrite& rewrite) {
  std::string out;
  const Status status = write_model(model, rewrite, [&out](auto part) -> Status {
    out += as_text(part);
    return {};
  });
  EXPECT_EQ(code_of(status), test::kOk);
  EXPECT_EQ(model_size(model, rewrite).value(), out.size());
  return out;
}

Model read_text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  auto model = read_model(Blob::own({bytes.begin(), bytes.end()}), {});
  EXPECT_EQ(code_of(model), test::kOk);
  return *std::move(model);
}

Model read(const Proto& proto) { return read_text(proto.str()); }

const Value& value(const Model& model, std::string_view name) {
  return model.graph.value(model.graph.find(name));
}

NodeId node_id(std::uint32_t index) { return NodeId{index}; }

TEST(WriteModel, IdentityKeepsEverything) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Add", {"x", "w"}, {"m"}, {test::attr_int("odd", 1)}).text(6, "doc"),
                 node("Relu", {"m"}, {"y"})};
  parts.initializers = {test::floats("w", {1}, {1}).text(12, "a weight")};
  parts.value_infos = {test::value_info("m", 1, {"n", "4"}).text(3, "middle")};
  parts.more = Proto().text(10, "graph doc").text(99, "unknown graph field");
  Proto proto = test::model(graph(parts));
  proto.text(6, "model doc").message(14, Proto().text(1, "k").text(2, "v")).text(77, "unknown");
  const std::string once = write(read(proto), identity_rewrite(read(proto)));
  for (const std::string_view text : {"doc", "odd", "a weight", "middle", "graph doc", "model doc",
                                      "unknown graph field", "unknown", "maker"})
    EXPECT_THAT(once, HasSubstr(std::string(text)));
  EXPECT_EQ(once.size(), proto.str().size()) << "only the order of fields may differ";
  const Model again = read_text(once);
  EXPECT_EQ(write(again, identity_rewrite(again)), once) << "a fixed point";
}

TEST(WriteModel, EpContextNodesReplaceOthers) {
  Model model = read(test::model(graph(test::relu_graph())));
  ModelRewrite rewrite = identity_rewrite(model);
  EpContextNode context{.name = "part_0",
                        .inputs = {model.graph.find("x")},
                        .outputs = {model.graph.find("y")},
                        .attributes = {},
                        .payload = {}};
  context.attributes.embed_mode = 0;
  context.attributes.ep_cache_context = "model_dnnl.bin";
  context.attributes.source = "CtxgenDnnlExecutionProvider";
  context.attributes.max_size = 4096;
  rewrite.nodes = {
      {.kind = NodeToWrite::Kind::kEpContext, .node = {}, .call = -1, .ep_context = 0}};
  rewrite.ep_contexts = {context};
  rewrite.needs_microsoft_opset = true;
  rewrite.metadata = {{"fingerprint", "abc"}};
  const Model written = read_text(write(model, rewrite));
  ASSERT_EQ(written.graph.node_count(), 1u);
  const Node& read_back = written.graph.node(node_id(0));
  EXPECT_EQ(read_back.name, "part_0");
  EXPECT_EQ(read_back.op_type, "EPContext");
  EXPECT_EQ(read_back.domain, "com.microsoft");
  EXPECT_EQ(read_back.attributes.size(), 10u) << "all are written";
  EXPECT_EQ(read_back.int_or("main_context", -1), 1);
  EXPECT_EQ(read_back.int_or("embed_mode", -1), 0);
  EXPECT_EQ(read_back.int_or("max_size", -1), 4096);
  EXPECT_EQ(read_back.string_or("ep_cache_context", ""), "model_dnnl.bin");
  EXPECT_EQ(read_back.string_or("notes", "absent"), "");
  EXPECT_EQ(written.opset("com.microsoft"), 1);
  EXPECT_EQ(written.opset(""), 18);
  EXPECT_THAT(written.metadata,
              ElementsAre(std::pair<std::string, std::string>("fingerprint", "abc")));

  rewrite.ep_contexts[0].payload = Proto().text(1, "payload").blob();
  const Model embedded = read_text(write(model, rewrite));
  EXPECT_EQ(embedded.graph.node(node_id(0)).string_or("ep_cache_context", ""),
            as_text(rewrite.ep_contexts[0].payload.bytes));
}

TEST(WriteModel, AnImportedMicrosoftDomainIsNotImportedAgain) {
  const Model model =
      read(test::model(graph(test::relu_graph()), {opset("", 18), opset("com.microsoft", 1)}));
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.needs_microsoft_opset = true;
  EXPECT_EQ(read_text(write(model, rewrite)).opset_imports.size(), 2u);
}

TEST(WriteModel, MetadataIsReplacedInPlace) {
  Proto proto = test::model(graph(test::relu_graph()));
  for (const std::string_view key : {"a", "b", "c"})
    proto.message(14, Proto().text(1, key).text(2, "old"));
  const Model model = read(proto);
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.metadata = {{"b", "new"}, {"d", "new"}};
  using Entry = std::pair<std::string, std::string>;
  EXPECT_THAT(
      read_text(write(model, rewrite)).metadata,
      ElementsAre(Entry("a", "old"), Entry("b", "new"), Entry("c", "old"), Entry("d", "new")));
}

TEST(WriteModel, ChangedTypesAreWrittenFromTheGraph) {
  GraphParts parts = test::relu_graph();
  parts.inputs[0].text(3, "input doc");
  Model model = read(test::model(graph(parts)));
  Value& x = model.graph.value(model.graph.find("x"));
  x.type.shape = {{Dim::fixed(8), Dim::fixed(4)}};
  EXPECT_EQ(to_string(value(read_text(write(model, identity_rewrite(model))), "x").type, model),
            "float32[n, 4]")
      << "not marked as changed";
  x.type_changed = true;
  const std::string text = write(model, identity_rewrite(model));
  EXPECT_THAT(text, HasSubstr("input doc"));
  const Model written = read_text(text);
  EXPECT_EQ(to_string(value(written, "x").type, written), "float32[8, 4]");
  EXPECT_EQ(to_string(value(written, "y").type, written), "float32[n, 4]");
}

TEST(WriteModel, ValueInfosComeFromTypesWhereTheFileHasNone) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Neg", {"x"}, {"m"}), node("Relu", {"m"}, {"y"})};
  Model model = read(test::model(graph(parts)));
  const ValueId m = model.graph.find("m");
  model.graph.value(m).type = {.kind = ValueType::Kind::kTensor,
                               .element = DataType::kFloat16,
                               .shape = {{Dim::symbol(model.symbol("n")), Dim(), Dim::fixed(0)}}};
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.value_infos = {m, model.graph.find("y")};
  const Model written = read_text(write(model, rewrite));
  EXPECT_EQ(to_string(value(written, "m").type, written), "float16[n, ?, 0]");
  EXPECT_FALSE(value(written, "m").info_source().empty());
  EXPECT_TRUE(value(written, "y").info_source().empty()) << "an output tells its type already";

  model.graph.value(m).type = {};
  EXPECT_EQ(code_of(model_size(model, rewrite)), ErrorCode::kInvalidGraph) << "no type to write";
}

TEST(WriteModel, InputsAndInitializersMayBeLeftOut) {
  GraphParts parts = test::relu_graph();
  parts.inputs.push_back(test::value_info("w", 1, {"1"}));
  parts.initializers = {test::floats("w", {1}, {1})};
  const Model model = read(test::model(graph(parts)));
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.inputs = {model.graph.find("x")};
  rewrite.initializers.clear();
  const Model written = read_text(write(model, rewrite));
  EXPECT_EQ(written.graph.inputs.size(), 1u);
  EXPECT_FALSE(written.graph.find("w").valid());
}

Proto external_tensor(std::string_view name) {
  const auto entry = [](std::string_view key, std::string_view text) {
    return Proto().text(1, key).text(2, text);
  };
  return test::tensor(name, 1, {1})
      .text(12, "outside")
      .message(13, entry("location", "w.bin"))
      .varint(14, 1);
}

TEST(WriteModel, ExternalTensorsComeInline) {
  const test::TempFolder folder;
  folder.write("w.bin", std::string("\0\0\x80\x3f", 4));
  GraphParts branch;
  branch.nodes = {node("Constant", {}, {"t"}, {test::attr_tensor("value", external_tensor(""))})};
  branch.initializers = {external_tensor("inner"), test::floats("kept", {1}, {3})};
  branch.outputs = {test::value_info("t", 1, {"1"})};
  GraphParts parts = test::relu_graph();
  parts.inputs.push_back(test::value_info("flag", 9, {}));
  parts.initializers = {external_tensor("w")};
  parts.nodes = {node("Constant", {}, {"c"}, {test::attr_tensor("value", external_tensor(""))}),
                 node("If", {"flag"}, {"y"},
                      {test::attr_graph("then_branch", graph(branch)),
                       test::attr_graph("else_branch", graph(branch))})};
  auto model = read_model(test::model(graph(parts)).blob(),
                          {.external_data_folder = folder.path(), .file_name = ""});
  ASSERT_EQ(code_of(model), test::kOk);
  const std::string text = write(*model, identity_rewrite(*model));
  EXPECT_THAT(text, Not(HasSubstr("w.bin")));
  EXPECT_THAT(text, HasSubstr("outside"));
  const Model written = read_text(text);  // without a folder: nothing external is left
  EXPECT_EQ(value(written, "w").constant()->bytes()[3], std::byte{0x3f});
  EXPECT_EQ(value(written, "c").constant()->bytes()[2], std::byte{0x80});
  const Graph& inner = *written.graph.node(node_id(1)).attribute("else_branch")->graphs.at(0);
  EXPECT_EQ(inner.value(inner.find("inner")).constant()->bytes()[3], std::byte{0x3f});
  EXPECT_EQ(inner.value(inner.find("t")).constant()->bytes()[3], std::byte{0x3f});
}

// Readers use such bytes where they are mapped, if their offset in the file is one of their type.
TEST(WriteModel, BigTensorsLieAligned) {
  for (std::size_t length = 1; length <= 9; ++length) {
    GraphParts parts = test::relu_graph();
    for (const char* start : {"a", "b"}) {
      Proto tensor;
      tensor.varint(1, 2048).varint(2, 11).text(8, start + std::string(length, 'n'));
      tensor.text(9, std::string(2048 * 8, *start));
      parts.initializers.push_back(tensor);
    }
    const Model model = read(test::model(graph(parts)));
    const std::string text = write(model, identity_rewrite(model));
    for (const char start : {'a', 'b'}) EXPECT_EQ(text.find(std::string(2048 * 8, start)) % 8, 0u);
    const Model written = read_text(text);
    const Tensor& b = *value(written, "b" + std::string(length, 'n')).constant();
    EXPECT_EQ(b.type(), DataType::kDouble);
    EXPECT_EQ(b.dims(), Dims{2048});
    EXPECT_EQ(as_text(b.bytes()), std::string(2048 * 8, 'b'));
    EXPECT_EQ(write(written, identity_rewrite(written)), text) << "a fixed point";
  }
}

Model function_model() {
  GraphParts branch;
  branch.nodes = {node("Neg", {"a"}, {"t"})};
  branch.outputs = {test::value_info("t", 1, {"?"})};
  GraphParts parts = test::relu_graph();
  parts.inputs.push_back(test::value_info("flag", 9, {}));
  parts.nodes = {
      node("Act", {"x", "flag"}, {"m"}, {test::attr_float("slope", 0.5)}, "local", "act"),
      node("Other", {"m"}, {"y"}, {}, "local")};
  Proto model = test::model(graph(parts), {opset("", 18), opset("local", 1)});
  model.message(
      25, test::function("Act", {"a", "f"}, {"b"}, {"slope"},
                         {node("LeakyRelu", {"a"}, {"t"}, {test::attr_ref("alpha", "slope", 1)}),
                          node("If", {"f"}, {"b"},
                               {test::attr_graph("then_branch", graph(branch)),
                                test::attr_graph("else_branch", graph(branch))})}));
  model.message(
      25, test::function("Other", {"a"}, {"b"}, {}, {node("Deep", {"a"}, {"b"}, {}, "local")}));
  model.message(25, test::function("Deep", {"a"}, {"b"}, {}, {node("Neg", {"a"}, {"b"})}));
  model.message(25, test::function("Unused", {"a"}, {"b"}, {}, {node("Neg", {"a"}, {"b"})}));
  return read(model);
}

TEST(WriteModel, ExpandedCallsMayBeWrittenAsTheyWere) {
  const Model model = function_model();
  ASSERT_EQ(model.graph.node_count(), 3u);
  const ModelRewrite rewrite = identity_rewrite(model);
  EXPECT_EQ(rewrite.nodes.size(), 2u);
  const std::string text = write(model, rewrite);
  const Model again = read_text(text);
  EXPECT_EQ(again.functions.size(), 4u);
  EXPECT_EQ(again.graph.calls().size(), 2u);
  EXPECT_EQ(write(again, identity_rewrite(again)), text);
}

TEST(WriteModel, ExpandedNodesMayBeWrittenOneByOne) {
  const Model model = function_model();
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.functions.clear();
  rewrite.nodes.clear();
  for (std::uint32_t i = 0; i < 3; ++i)
    rewrite.nodes.push_back({.kind = NodeToWrite::Kind::kNode, .node = node_id(i)});
  const Model written = read_text(write(model, rewrite));
  ASSERT_EQ(written.graph.node_count(), 3u);
  const Node& leaky = written.graph.node(node_id(0));
  EXPECT_EQ(leaky.float_or("alpha", 0), 0.5f);
  EXPECT_EQ(leaky.attribute("slope"), nullptr);
  const Node& holder = written.graph.node(node_id(1));
  EXPECT_EQ(holder.attributes.size(), 2u);
  EXPECT_THAT(holder.captures, ElementsAre(written.graph.find("x")));
}

TEST(WriteModel, NodesOfAnotherOpsetCanOnlyBeCalls) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Old", {"x"}, {"y"}, {}, "local")};
  Proto proto = test::model(graph(parts), {opset("", 18), opset("local", 1)});
  proto.message(25, test::function("Old", {"a"}, {"b"}, {}, {node("Neg", {"a"}, {"b"})}, 7));
  const Model model = read(proto);
  EXPECT_EQ(code_of(model_size(model, identity_rewrite(model))), test::kOk);
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.nodes = {{.kind = NodeToWrite::Kind::kNode, .node = node_id(0)}};
  EXPECT_EQ(code_of(model_size(model, rewrite)), ErrorCode::kUnsupported);
}

TEST(WriteModel, KnowsWhichFunctionsAreInUse) {
  const Model model = function_model();
  const ModelRewrite rewrite = identity_rewrite(model);
  EXPECT_THAT(functions_in_use(model, rewrite.nodes), ElementsAre(0, 1, 2));
  EXPECT_THAT(functions_in_use(model, std::span(rewrite.nodes).first(1)), ElementsAre(0));
  EXPECT_THAT(functions_in_use(model, {}), ElementsAre());
}

TEST(WriteModel, RefusesMoreThanProtobufTakesBeforeWriting) {
  Model model = read(test::model(graph(test::relu_graph())));
  const Blob big = Blob::own(std::vector<std::byte>(std::size_t{1} << 20));
  const ValueId id = model.graph.find_or_add("big");
  model.graph.value(id).initializer =
      Tensor::borrow(DataType::kUint8, {1 << 20}, big.owner, big.bytes);
  ModelRewrite rewrite = identity_rewrite(model);
  rewrite.initializers.assign(2049, id);  // the same bytes again and again
  EXPECT_GT(model_size(model, rewrite).value(), std::uint64_t{1} << 31);
  bool called = false;
  const auto sink = [&called](auto) -> Status {
    called = true;
    return {};
  };
  const Status status = write_model(model, rewrite, sink);
  EXPECT_EQ(code_of(status), ErrorCode::kResourceLimit);
  EXPECT_THAT(status.error().message, HasSubstr("external initializers"));
  EXPECT_FALSE(called);
}

TEST(WriteModel, HandsOnTheSinksError) {
  const Model model = read(test::model(graph(test::relu_graph())));
  const Status status = write_model(model, identity_rewrite(model), [](auto) -> Status {
    return fail(ErrorCode::kIoError, "disk full");
  });
  EXPECT_EQ(code_of(status), ErrorCode::kIoError);
}

}  // namespace
}  // namespace ctxgen
