#include "ctxgen/onnx_lite/read_model.h"

#include <cstring>

#include <gmock/gmock.h>

#include "code_of.h"
#include "proto_builder.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::GraphParts;
using test::Names;
using test::node;
using test::opset;
using test::Proto;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const Proto& proto) { return read_model(proto.blob(), {}); }
Result<Model> read_graph_of(const GraphParts& parts) { return read(test::model(graph(parts))); }

std::vector<std::string> names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> out;
  for (const ValueId id : ids) out.push_back(id.valid() ? graph.value(id).name : "-");
  return out;
}

float first_float(const Tensor& tensor) {
  float value = 0;
  std::memcpy(&value, tensor.bytes().data(), sizeof value);
  return value;
}

TEST(ReadModel, ReadsAGraph) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Clip", {"x", "", "high"}, {"c"}, {test::attr_int("dummy", 3)}, "", "clip"),
                 node("Relu", {"c"}, {"y"}, {}, "ai.onnx")};
  parts.initializers = {test::floats("high", {}, {6})};
  const auto model = read(test::model(graph(parts), {opset("ai.onnx", 18)}));
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& graph = model->graph;
  EXPECT_EQ(model->ir_version, 9);
  EXPECT_EQ(model->producer_name, "maker");
  EXPECT_EQ(model->opset(""), 18) << "ai.onnx is the default domain";
  EXPECT_EQ(graph.name, "g");
  EXPECT_THAT(names(graph, graph.inputs), ElementsAre("x"));
  EXPECT_THAT(names(graph, graph.outputs), ElementsAre("y"));
  ASSERT_EQ(graph.node_count(), 2u);
  EXPECT_THAT(names(graph, graph.node(NodeId{0}).inputs), ElementsAre("x", "-", "high"));
  EXPECT_EQ(graph.node(NodeId{0}).name, "clip");
  EXPECT_EQ(graph.node(NodeId{0}).int_or("dummy", 0), 3);
  EXPECT_EQ(graph.node(NodeId{1}).domain, "");
  EXPECT_EQ(graph.node(NodeId{1}).opset, 18);
  EXPECT_EQ(graph.value(graph.find("c")).producer, NodeId{0});
  EXPECT_EQ(to_string(graph.value(graph.find("x")).type, *model), "float32[n, 4]");
  const Value& high = graph.value(graph.find("high"));
  ASSERT_NE(high.constant(), nullptr);
  EXPECT_EQ(first_float(*high.constant()), 6);
  EXPECT_EQ(to_string(high.type, *model), "float32[]");
}

TEST(ReadModel, ReadsAllKindsOfAttributes) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node(
      "Thing", {"x"}, {"y"},
      {test::attr_float("f", 0.5), test::attr_int("i", -3),
       Proto().text(1, "s").text(4, "abc").varint(20, 3),
       test::attr_tensor("t", test::floats("", {1}, {2})),
       Proto().text(1, "fs").raw<float>(7, {1, 2}).real(7, 3).varint(20, 6),
       Proto().text(1, "is").packed(8, {4, -5}).varint(20, 7),
       Proto().text(1, "ss").text(9, "a").text(9, "").varint(20, 8),
       Proto().text(1, "tp").message(14, Proto().message(1, Proto().varint(1, 7))).varint(20, 13),
       Proto().text(1, "old").varint(8, 7).varint(8, 8)},
      "custom")};
  const auto model = read(test::model(graph(parts), {opset("", 18), opset("custom", 2)}));
  ASSERT_EQ(code_of(model), test::kOk);
  const Node& read_node = model->graph.node(NodeId{0});
  EXPECT_EQ(read_node.opset, 2);
  EXPECT_EQ(read_node.float_or("f", 0), 0.5f);
  EXPECT_EQ(read_node.int_or("i", 0), -3);
  EXPECT_EQ(read_node.string_or("s", ""), "abc");
  EXPECT_EQ(as_text(model->bytes(read_node.attribute("s")->s_source)), "abc");
  EXPECT_EQ(first_float(read_node.attribute("t")->tensors.at(0)), 2);
  EXPECT_THAT(read_node.attribute("fs")->floats, ElementsAre(1, 2, 3));
  EXPECT_THAT(*read_node.ints("is"), ElementsAre(4, -5));
  EXPECT_THAT(read_node.attribute("ss")->strings, ElementsAre("a", ""));
  EXPECT_EQ(read_node.attribute("tp")->types.at(0).element, DataType::kInt64);
  EXPECT_THAT(*read_node.ints("old"), ElementsAre(7, 8)) << "a model that does not write the type";
}

TEST(ReadModel, SourceRangesNameTheBytes) {
  const Proto relu = node("Relu", {"x"}, {"y"}, {test::attr_int("a", 1)});
  GraphParts parts = test::relu_graph();
  parts.nodes = {relu};
  const auto model = read(test::model(graph(parts)));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_EQ(as_text(model->bytes(model->graph.node(NodeId{0}).source)), relu.str());
  const Value& x = model->graph.value(model->graph.find("x"));
  EXPECT_EQ(as_text(model->bytes(x.input_source())), parts.inputs[0].str());
}

TEST(ReadModel, InitializersThatAreInputs) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Add", {"x", "w"}, {"y"})};
  parts.inputs.push_back(test::value_info("w", 1, {"4"}));
  parts.initializers = {test::floats("w", {4}, {1, 2, 3, 4})};
  const auto value_of = [&parts](std::int64_t ir_version) {
    const auto model = read(test::model(graph(parts), {opset("", 8)}, ir_version)).value();
    return model.graph.value(model.graph.find("w"));
  };
  EXPECT_FALSE(value_of(3).is_overridable);
  EXPECT_NE(value_of(3).constant(), nullptr);
  EXPECT_TRUE(value_of(4).is_overridable);
  EXPECT_EQ(value_of(4).constant(), nullptr);
  EXPECT_TRUE(value_of(4).initializer.has_value());
}

TEST(ReadModel, ConstantNodesStayAndAreFolded) {
  GraphParts parts = test::relu_graph();
  const auto constant = [](std::string_view name, const Proto& attribute) {
    return node("Constant", {}, {name}, {attribute});
  };
  const Proto sparse = Proto()
                           .message(1, test::floats("", {1}, {7}))
                           .message(2, test::int64s("", {1}, {2}))
                           .varint(3, 4);
  parts.nodes = {constant("t", test::attr_tensor("value", test::floats("", {2}, {1, 2}))),
                 constant("f", test::attr_float("value_float", 3)),
                 constant("i", test::attr_int("value_int", 4)),
                 constant("is", test::attr_ints("value_ints", {5, 6})),
                 constant("s", Proto().text(1, "value_string").text(4, "abc").varint(20, 3)),
                 constant("sp", Proto().text(1, "sparse_value").message(22, sparse).varint(20, 11)),
                 node("Relu", {"x"}, {"y"})};
  const auto model = read_graph_of(parts);
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_EQ(model->graph.node_count(), 7u);
  const auto of = [&model](std::string_view name) {
    return *model->graph.value(model->graph.find(name)).constant();
  };
  EXPECT_EQ(first_float(of("t")), 1);
  EXPECT_EQ(of("t").dims(), Dims{2});
  EXPECT_EQ(first_float(of("f")), 3);
  EXPECT_EQ(of("i").elements<std::int64_t>()[0], 4);
  EXPECT_THAT(of("is").elements<std::int64_t>(), ElementsAre(5, 6));
  EXPECT_EQ(of("s").strings()[0], "abc");
  EXPECT_THAT(of("sp").elements<float>(), ElementsAre(0, 0, 7, 0));
  EXPECT_EQ(to_string(model->graph.value(model->graph.find("is")).type, *model), "int64[2]");

  parts.nodes[0] = node("Constant", {}, {"t"});
  EXPECT_EQ(code_of(read_graph_of(parts)), ErrorCode::kInvalidGraph);
}

Proto sparse_initializer(std::vector<std::int64_t> index_dims, std::vector<std::int64_t> indices,
                         std::vector<std::int64_t> dims) {
  Proto out;
  out.message(1, test::floats("w", {2}, {7, 8})).message(2, test::int64s("", index_dims, indices));
  for (const std::int64_t dim : dims) out.varint(3, dim);
  return Proto().message(15, out);
}

TEST(ReadModel, SparseInitializersAreDensified) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Add", {"x", "w"}, {"y"})};
  const auto dense = [&parts](const Proto& sparse) {
    parts.more = sparse;
    return read_graph_of(parts);
  };
  for (const Proto& sparse : {sparse_initializer({2}, {1, 5}, {2, 3}),
                              sparse_initializer({2, 2}, {0, 1, 1, 2}, {2, 3})}) {
    const auto model = dense(sparse);
    ASSERT_EQ(code_of(model), test::kOk);
    const Value& value = model->graph.value(model->graph.find("w"));
    EXPECT_TRUE(value.is_sparse);
    EXPECT_THAT(value.constant()->elements<float>(), ElementsAre(0, 7, 0, 0, 0, 8));
  }
  EXPECT_EQ(code_of(dense(sparse_initializer({2}, {1, 6}, {2, 3}))), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(dense(sparse_initializer({2}, {-1, 5}, {2, 3}))), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(dense(sparse_initializer({3}, {1, 2, 3}, {2, 3}))), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(dense(sparse_initializer({2}, {1, 5}, {1 << 20, 1 << 20}))),
            ErrorCode::kResourceLimit);
}

TEST(ReadModel, ExternalDataIsMappedAndListed) {
  const test::TempFolder folder;
  folder.write("w.bin", std::string("\0\0\0\0\0\0\x80\x3f", 8));
  const auto external = [](std::string_view location) {
    const auto entry = [](std::string_view key, std::string_view value) {
      return Proto().text(1, key).text(2, value);
    };
    return test::tensor("w", 1, {1})
        .message(13, entry("location", location))
        .message(13, entry("offset", "4"))
        .message(13, entry("length", "4"))
        .varint(14, 1);
  };
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Add", {"x", "w"}, {"y"})};
  parts.initializers = {external("w.bin")};
  const Blob bytes = test::model(graph(parts)).blob();
  const auto model = read_model(bytes, {.external_data_folder = folder.path(), .file_name = ""});
  ASSERT_EQ(code_of(model), test::kOk);
  const Value& value = model->graph.value(model->graph.find("w"));
  EXPECT_TRUE(value.initializer_is_external);
  EXPECT_EQ(first_float(*value.constant()), 1);
  EXPECT_THAT(model->files_read, ElementsAre(folder / "w.bin"));

  EXPECT_EQ(code_of(read_model(bytes, {})), ErrorCode::kInvalidGraph) << "no folder given";
  const auto refused = [&](std::string_view location) {
    parts.initializers = {external(location)};
    return code_of(read_model(test::model(graph(parts)).blob(),
                              {.external_data_folder = folder.path(), .file_name = ""}));
  };
  EXPECT_EQ(refused("missing.bin"), ErrorCode::kIoError);
  EXPECT_EQ(refused("../w.bin"), ErrorCode::kInvalidGraph);
  EXPECT_EQ(refused("/etc/passwd"), ErrorCode::kInvalidGraph);
}

TEST(ReadModel, AFilesFolderHoldsItsExternalData) {
  const test::TempFolder folder;
  const auto path = folder.write("m.onnx", test::model(graph(test::relu_graph())).str());
  const auto model = read_model_file(path);
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_EQ(model->file_name, "m.onnx");
  EXPECT_EQ(model->folder, folder.path());
  EXPECT_EQ(code_of(read_model_file(folder / "none.onnx")), ErrorCode::kIoError);
}

TEST(ReadModel, ChecksVersions) {
  const Proto main = graph(test::relu_graph());
  const auto with_ir = [&main](std::int64_t ir) {
    return code_of(read(test::model(main, {opset("", 18)}, ir)));
  };
  EXPECT_EQ(with_ir(0), ErrorCode::kInvalidGraph);
  EXPECT_EQ(with_ir(-1), ErrorCode::kUnsupported);
  EXPECT_EQ(with_ir(1), test::kOk);
  EXPECT_EQ(with_ir(13), test::kOk);
  EXPECT_EQ(with_ir(14), ErrorCode::kUnsupported);
  const auto with_opset = [&main](std::vector<Proto> imports) {
    return code_of(read(test::model(main, std::move(imports))));
  };
  EXPECT_EQ(with_opset({opset("", kMaxOpset)}), test::kOk);
  EXPECT_EQ(with_opset({opset("", kMaxOpset + 1)}), ErrorCode::kUnsupported);
  EXPECT_EQ(with_opset({opset("ai.onnx", kMaxOpset + 1)}), ErrorCode::kUnsupported);
  EXPECT_EQ(with_opset({opset("", 0)}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(with_opset({opset("", 18), opset("other", 99)}), test::kOk);
  EXPECT_EQ(with_opset({}), ErrorCode::kInvalidGraph) << "the default domain is used";
}

TEST(ReadModel, OfADomainThatIsImportedTwiceTheLastVersionCounts) {
  const auto model =
      read(test::model(graph(test::relu_graph()), {opset("", 18), opset("ai.onnx", 13)}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(model->opset_imports, SizeIs(1));
  EXPECT_EQ(model->graph.node(NodeId{0}).opset, 13);
}

TEST(ReadModel, DomainsThatAreNotImportedHaveTheirNewestVersion) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Scaler", {"x"}, {"s"}, {}, "ai.onnx.ml"), node("Relu", {"s"}, {"y"})};
  const auto model = read(test::model(graph(parts), {opset("com.microsoft", 1)}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_EQ(model->graph.node(NodeId{0}).opset, kMaxMlOpset);
  EXPECT_EQ(model->graph.node(NodeId{1}).opset, kMaxOpset);
  EXPECT_THAT(model->implied_opsets, SizeIs(2)) << "what is written says so";
}

TEST(ReadModel, ADomainThatIsNotImportedHasOpset1) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Gelu", {"x"}, {"y"}, {}, "com.microsoft")};
  const auto model = read(test::model(graph(parts), {}));
  ASSERT_EQ(code_of(model), test::kOk) << "nothing uses the default domain";
  EXPECT_EQ(model->graph.node(NodeId{0}).opset, 1);
}

TEST(ReadModel, RefusesBrokenGraphs) {
  const auto nodes = [](std::vector<Proto> list) {
    GraphParts parts = test::relu_graph();
    parts.nodes = std::move(list);
    return read_graph_of(parts);
  };
  const auto missing = nodes({node("Relu", {"a"}, {"y"}, {}, "", "late")});
  EXPECT_EQ(code_of(missing), ErrorCode::kInvalidGraph);
  EXPECT_THAT(missing.error().message, HasSubstr("node \"late\" (Relu): input \"a\""));
  EXPECT_EQ(code_of(nodes({node("Relu", {"y"}, {"y"})})), ErrorCode::kInvalidGraph) << "cycle";
  EXPECT_EQ(code_of(nodes({node("Relu", {"none"}, {"y"})})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(nodes({node("Relu", {"x"}, {"y"}), node("Neg", {"x"}, {"y"})})),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(nodes({node("Split", {"x"}, {"y", "y"})})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(nodes({node("Relu", {"x"}, {"x"})})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(nodes({node("", {"x"}, {"y"})})), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(nodes({})), ErrorCode::kInvalidGraph) << "an output without source";
  EXPECT_EQ(code_of(nodes(
                {node("Relu", {"x"}, {"y"}, {test::attr_int("a", 1), test::attr_int("a", 2)})})),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of(nodes({node("Relu", {"x"}, {"y"}, {Proto().text(1, "t").varint(20, 4)})})),
            ErrorCode::kInvalidGraph)
      << "a tensor attribute without tensor";
}

TEST(ReadModel, RefusesNamesDefinedTwice) {
  GraphParts parts = test::relu_graph();
  parts.inputs.push_back(parts.inputs[0]);
  EXPECT_EQ(code_of(read_graph_of(parts)), ErrorCode::kInvalidGraph);
}

TEST(ReadModel, OfInitializersOfOneNameTheLastCounts) {
  GraphParts parts = test::relu_graph();
  parts.nodes = {node("Add", {"x", "w"}, {"y"})};
  parts.initializers = {test::floats("w", {1}, {1}), test::floats("", {1}, {5}),
                        test::floats("w", {}, {2})};
  const auto model = read_graph_of(parts);
  ASSERT_EQ(code_of(model), test::kOk);
  const Value& w = model->graph.value(model->graph.find("w"));
  EXPECT_EQ(first_float(*w.constant()), 2);
  EXPECT_EQ(to_string(w.type, *model), "float32[]");
  EXPECT_EQ(as_text(model->bytes(w.initializer_source())), parts.initializers[2].str());
}

TEST(ReadModel, AnOutputMayBeThereTwiceOrBeAnInput) {
  GraphParts parts = test::relu_graph();
  parts.outputs.push_back(parts.outputs[0]);
  parts.outputs.push_back(test::value_info("x", 1, {"n", "4"}));
  const auto model = read_graph_of(parts);
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(names(model->graph, model->graph.outputs), ElementsAre("y", "y", "x"));
}

TEST(ReadModel, RefusesWhatIsNoModel) {
  EXPECT_EQ(code_of(read_model(Blob{}, {})), ErrorCode::kInvalidGraph) << "empty";
  EXPECT_EQ(code_of(read(Proto().varint(1, 9))), ErrorCode::kInvalidGraph) << "no graph";
  Proto two = test::model(graph(test::relu_graph()));
  two.message(7, graph(test::relu_graph()));
  EXPECT_EQ(code_of(read(two)), ErrorCode::kInvalidGraph) << "two graphs";
  const std::string_view text = "ONNX is a format\nfor models\n";
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  EXPECT_EQ(code_of(read_model(Blob::own(bytes), {})), ErrorCode::kInvalidGraph);
}

TEST(ReadModel, RefusesLargeRanksOfValues) {
  GraphParts parts = test::relu_graph();
  parts.value_infos = {
      test::value_info("t", 1, {"1", "1", "1", "1", "1", "1", "1", "1", "1", "1", "1", "1", "1"})};
  EXPECT_EQ(code_of(read_graph_of(parts)), ErrorCode::kUnsupported);
}

TEST(ReadModel, ReadsSequenceAndOptionalTypes) {
  const auto of = [](std::uint32_t number) {
    const Proto tensor = Proto().message(1, Proto().varint(1, 7));
    return Proto().text(1, "v").message(2, Proto().message(number, Proto().message(1, tensor)));
  };
  GraphParts parts = test::relu_graph();
  parts.value_infos = {of(4)};
  auto model = read_graph_of(parts).value();
  EXPECT_EQ(to_string(model.graph.value(model.graph.find("v")).type, model),
            "sequence(int64[...])");
  parts.value_infos = {of(9)};
  model = read_graph_of(parts).value();
  EXPECT_EQ(model.graph.value(model.graph.find("v")).type.kind, ValueType::Kind::kOptional);
}

TEST(ReadModel, KeepsMetadataAndHeader) {
  Proto proto = test::model(graph(test::relu_graph()));
  proto.message(14, Proto().text(1, "key").text(2, "value")).text(6, "doc").text(77, "unknown");
  const auto model = read(proto);
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(model->metadata, ElementsAre(std::pair<std::string, std::string>("key", "value")));
  EXPECT_THAT(model->header_sources, SizeIs(4))
      << "IR version, producer, doc string, unknown field";
  EXPECT_THAT(model->opset_sources, SizeIs(1));
}

}  // namespace
}  // namespace ctxgen
