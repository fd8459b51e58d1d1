// Small models with one peculiarity each: compiled, they keep what was not compiled and compute what
// they computed.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/runtime/session.h"

#include "kept_parts.h"

namespace ctxgen {
namespace {

using testing::Contains;
using testing::HasSubstr;

onnx::ModelProto parse(const std::string& text, int ir = 8) {
  onnx::ModelProto model;
  const std::string header = "<ir_version: " + std::to_string(ir) +
                             ", opset_import: [\"\" : 17, \"com.microsoft\" : 1, \"local\" : 1]>\n";
  const auto status = onnx::OnnxParser::Parse(model, (header + text).c_str());
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage());
  return model;
}

Blob blob_of(const onnx::ModelProto& model) {
  const std::string text = model.SerializeAsString();
  const auto bytes = as_bytes(text);
  return Blob::own({bytes.begin(), bytes.end()});
}

CompiledModel compile(const onnx::ModelProto& source, const CompileOptions& options = {}) {
  auto compiled = compile_in_memory({{}, blob_of(source), "corner.onnx"}, options);
  if (!compiled) throw std::runtime_error(compiled.error().message);
  return *std::move(compiled);
}

onnx::ModelProto context_of(const CompiledModel& compiled) {
  onnx::ModelProto model;
  const auto bytes = compiled.model.bytes;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw std::runtime_error("the context model cannot be parsed");
  return model;
}

using Values = std::vector<float>;
using Inputs = std::vector<std::pair<std::string, std::pair<Dims, Values>>>;

/// All outputs, one after the other.
Values run(const Blob& model, const CompiledModel* bins, const Inputs& inputs) {
  SessionOptions options;
  options.threads = 1;
  options.bin_source = [bins](std::string_view name) -> Result<Blob> {
    if (bins != nullptr)
      for (const auto& [bin, bytes] : bins->bins)
        if (bin == name) return bytes;
    return fail(ErrorCode::kIoError, "no bin \"{}\"", name);
  };
  const auto session = Session::open_memory(model, options);
  if (!session) throw std::runtime_error(session.error().message);
  std::vector<NamedTensor> named;
  for (const auto& [name, input] : inputs) {
    Tensor tensor = *Tensor::allocate(DataType::kFloat, input.first);
    std::ranges::copy(input.second, tensor.mutable_elements<float>().begin());
    named.push_back({name, tensor});
  }
  const auto outputs = (*session)->run(named);
  if (!outputs) throw std::runtime_error(outputs.error().message);
  Values all;
  for (const Tensor& output : *outputs)
    for (float each : output.elements<float>()) all.push_back(each);
  return all;
}

/// Compiles, compares what was kept, and what both compute. Returns the context model.
onnx::ModelProto check(const onnx::ModelProto& source, const Inputs& inputs,
                       const CompileOptions& options = {}) {
  const CompiledModel compiled = compile(source, options);
  const onnx::ModelProto context = context_of(compiled);
  if (!options.freeze_initializers) {
    EXPECT_THAT(test::lost_parts(source, context, {}, compiled.report.models.front()),
                testing::IsEmpty());
  }
  const Values expected = run(blob_of(source), nullptr, inputs);
  const Values found = run(compiled.model, &compiled, inputs);
  EXPECT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size() && i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-5F * (1 + std::abs(expected[i]))) << "element " << i;
  return context;
}

std::vector<std::string> ops(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const auto& node : model.graph().node()) names.push_back(node.op_type());
  return names;
}

std::vector<std::string> names_of_inputs(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const auto& input : model.graph().input()) names.push_back(input.name());
  return names;
}

constexpr const char* kMatMulWithInputWeights = R"(
graph (float[2, 2] x, float[2, 2] w) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
  m = MatMul(x, w)
  y = Relu(m)
})";

const Inputs kX{{"x", {{2, 2}, {1, -2, 3, 4}}}};

TEST(CornerModels, InitializersThatAreInputsAreConstantsBeforeIr4) {
  const auto context = check(parse(kMatMulWithInputWeights, 3), kX);
  EXPECT_THAT(ops(context), testing::ElementsAre("EPContext"));
  EXPECT_THAT(names_of_inputs(context), testing::ElementsAre("x"));
}

TEST(CornerModels, InitializersThatAreInputsStayOverridableFromIr4On) {
  const auto source = parse(kMatMulWithInputWeights, 8);
  const auto context = check(source, kX);
  EXPECT_THAT(names_of_inputs(context), testing::ElementsAre("x", "w"));
  Inputs overridden = kX;
  overridden.push_back({"w", {{2, 2}, {-1, 0, 2, 5}}});
  check(source, overridden);
  EXPECT_NE(run(blob_of(source), nullptr, kX), run(blob_of(source), nullptr, overridden));
}

TEST(CornerModels, FreezingBakesOverridableInitializersIn) {
  CompileOptions options;
  options.freeze_initializers = true;
  const auto context = check(parse(kMatMulWithInputWeights, 8), kX, options);
  EXPECT_THAT(names_of_inputs(context), testing::ElementsAre("x"));
  EXPECT_EQ(context.graph().initializer_size(), 0);
}

TEST(CornerModels, InitializersThatOnlySubgraphsReadStay) {
  const auto context = check(parse(R"(
graph (float[2, 2] x) => (float[2, 2] y)
  <float[2, 2] w = {1, 2, 3, 4}, float[2] only_inside = {5, 6}, bool yes = {1}> {
  m = MatMul(x, w)
  r = Relu(m)
  y = If (yes) <
    then_branch = t () => (float[2, 2] a) { a = Add(r, only_inside) },
    else_branch = e () => (float[2, 2] b) { b = Sub(r, only_inside) }
  >
})"),
                             kX);
  EXPECT_THAT(ops(context), Contains("If"));
  ASSERT_GE(context.graph().initializer_size(), 1);
  EXPECT_EQ(context.graph().initializer(0).name(), "only_inside");
}

TEST(CornerModels, OptionalAndDuplicateInputs) {
  const auto context = check(parse(R"(
graph (float[2, 2] x, float top) => (float[2, 2] y, float[2, 2] z) {
  doubled = Add(x, x)
  squared = MatMul(doubled, doubled)
  y = Clip(squared, , top)
  z = Mul(squared, squared)
})"),
                             {{"x", {{2, 2}, {1, -2, 3, 4}}}, {"top", {{}, {7}}}});
  for (const auto& node : context.graph().node()) {
    if (node.op_type() != "EPContext") continue;
    const std::set<std::string> different(node.input().begin(), node.input().end());
    EXPECT_EQ(different.size(), static_cast<std::size_t>(node.input_size()));
  }
}

TEST(CornerModels, OutputsFromInsideOfAPartitionThatOthersReadToo) {
  const auto context = check(parse(R"(
graph (float[2, 2] x) => (float[2, 2] r, float[2, 2] y, float[2, 2] z)
  <float[2, 2] w = {1, 2, 3, 4}> {
  m = MatMul(x, w)
  r = Relu(m)
  c = Tan(r)
  y = Add(c, m)
  z = MatMul(r, w)
})"),
                             kX);
  EXPECT_THAT(ops(context), Contains("Tan"));
  EXPECT_THAT(ops(context), Contains("EPContext"));
}

TEST(CornerModels, OutputsThatAreInputsOrInitializers) {
  const auto context = check(parse(R"(
graph (float[2, 2] x) => (float[2, 2] x, float[2, 2] w, float[2, 2] y)
  <float[2, 2] w = {1, 2, 3, 4}> {
  m = MatMul(x, w)
  y = Relu(m)
})"),
                             kX);
  EXPECT_THAT(ops(context), testing::ElementsAre("EPContext"));
  ASSERT_EQ(context.graph().initializer_size(), 1);
  EXPECT_EQ(context.graph().initializer(0).name(), "w");
}

TEST(CornerModels, OneOutputNamedTwice) {
  check(parse(R"(
graph (float[2, 2] x) => (float[2, 2] y, float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
  y = MatMul(x, w)
})"),
        kX);
}

TEST(CornerModels, SparseInitializers) {
  auto source = parse(R"(
graph (float[2, 2] x) => (float[2, 2] y, float[2, 2] z) {
  y = MatMul(x, sparse_weights)
  s = Tan(x)
  z = Mod <fmod = 1> (sparse_outside, s)
})");
  for (const char* name : {"sparse_weights", "sparse_outside"}) {
    auto* sparse = source.mutable_graph()->add_sparse_initializer();
    sparse->add_dims(2);
    sparse->add_dims(2);
    sparse->mutable_values()->set_name(name);
    sparse->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
    sparse->mutable_values()->add_dims(1);
    sparse->mutable_values()->add_float_data(2.5F);
    sparse->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
    sparse->mutable_indices()->add_dims(1);
    sparse->mutable_indices()->add_int64_data(2);
  }
  const auto context = check(source, kX);
  ASSERT_EQ(context.graph().sparse_initializer_size(), 1);
  EXPECT_EQ(context.graph().sparse_initializer(0).values().name(), "sparse_outside");
}

constexpr const char* kFunctions = R"(
<domain: "local", opset_import: ["" : 17, "local" : 1]> Linear (a, b) => (c) {
  m = MatMul(a, b)
  c = Relu(m)
}
<domain: "local", opset_import: ["" : 17, "local" : 1]> Wave (a) => (c) {
  s = Tan(a)
  c = Atan(s)
}
<domain: "local", opset_import: ["" : 17, "local" : 1]> Waves (a) => (c) {
  s = local.Wave(a)
  c = local.Wave(s)
}
<domain: "local", opset_import: ["" : 17, "local" : 1]> NobodyCalls (a) => (c) { c = Neg(a) })";

TEST(CornerModels, FunctionsStayWhileSomethingCallsThem) {
  const auto context = check(parse(std::string(R"(
graph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
  l = local.Linear(x, w)
  y = local.Waves(l)
})") + kFunctions),
                             kX);
  EXPECT_THAT(ops(context), testing::ElementsAre("EPContext", "Waves"));
  std::vector<std::string> functions;
  for (const auto& function : context.functions()) functions.push_back(function.name());
  // Linear is compiled wherever it was called; NobodyCalls was as useless in the source.
  EXPECT_THAT(functions, testing::ElementsAre("Wave", "Waves", "NobodyCalls"));
}

TEST(CornerModels, OneNode) {
  const auto all = check(parse(R"(
graph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul(x, w) })"),
                         kX);
  EXPECT_THAT(ops(all), testing::ElementsAre("EPContext"));
  const auto none = check(parse("graph (float[2, 2] x) => (float[2, 2] y) { y = Tan(x) }"), kX);
  EXPECT_THAT(ops(none), testing::ElementsAre("Tan"));
}

TEST(CornerModels, NoNode) {
  const auto context = check(parse("graph (float[2, 2] x) => (float[2, 2] x) { }"), kX);
  EXPECT_EQ(context.graph().node_size(), 0);
}

TEST(CornerModels, NodesThatNobodyKnowsStay) {
  const auto source = parse(R"(
graph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
  m = MatMul(x, w)
  f = local.Frobnicate <depth = 3> (m, w)
  y = MatMul(f, w)
})");
  const CompiledModel compiled = compile(source);
  const auto context = context_of(compiled);
  EXPECT_THAT(test::lost_parts(source, context, {}, compiled.report.models.front()),
              testing::IsEmpty());
  EXPECT_THAT(ops(context), Contains("Frobnicate"));
}

TEST(CornerModels, ForeignContextNodesPassThrough) {
  const auto source = parse(R"(
graph (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
  m = MatMul(x, w)
  y = com.microsoft.EPContext <source = "QNNExecutionProvider", embed_mode = 1,
                               ep_cache_context = "payload", main_context = 1> (m)
})");
  const CompiledModel compiled = compile(source);
  const auto context = context_of(compiled);
  EXPECT_THAT(test::lost_parts(source, context, {}, compiled.report.models.front()),
              testing::IsEmpty());
  EXPECT_EQ(context.graph().node(context.graph().node_size() - 1).SerializeAsString(),
            source.graph().node(1).SerializeAsString());
}

// ---- the judge itself ---------------------------------------------------------------------------

class Judge : public testing::Test {
 protected:
  Judge()
      : source(parse(R"(
graph (float[2, 2] x) => (float[2, 2] y)
  <float[2, 2] w = {1, 2, 3, 4}, float[2] bias = {5, 6}, float[2, 2] c> {
  m = MatMul(x, w)
  c = Tan(m)
  y = Sub(c, bias)
})")) {
    source.mutable_graph()->mutable_node(2)->set_op_type("Mod");  // stays outside
    auto* fmod = source.mutable_graph()->mutable_node(2)->add_attribute();
    fmod->set_name("fmod");
    fmod->set_type(onnx::AttributeProto::INT);
    fmod->set_i(1);
    compiled = compile(source);
    context = context_of(compiled);
  }
  std::string said() {
    std::string all;
    for (const auto& lost : test::lost_parts(source, context, {}, compiled.report.models.front()))
      all += lost + "\n";
    return all;
  }
  onnx::ModelProto source, context;
  CompiledModel compiled;
};

TEST_F(Judge, IsContent) { EXPECT_EQ(said(), ""); }

TEST_F(Judge, NoticesChanges) {
  const onnx::ModelProto good = context;
  const auto after = [&](auto change) {
    context = good;
    change(context);
    return said();
  };
  EXPECT_THAT(after([](auto& m) { m.set_producer_name("me"); }), HasSubstr("field of the model"));
  EXPECT_THAT(after([](auto& m) { m.mutable_graph()->set_name("g2"); }),
              HasSubstr("field of the graph"));
  EXPECT_THAT(after([](auto& m) { m.mutable_graph()->mutable_node(1)->set_name("n"); }),
              HasSubstr("is not the source's"));
  EXPECT_THAT(after([](auto& m) { m.mutable_graph()->clear_initializer(); }),
              HasSubstr("\"bias\" is gone"));
  EXPECT_THAT(after([](auto& m) { m.mutable_graph()->clear_value_info(); }),
              HasSubstr("value_info \"c\" is gone"));
  EXPECT_THAT(after([](auto& m) { m.mutable_graph()->mutable_node()->SwapElements(0, 1); }),
              HasSubstr("before it exists"));
  EXPECT_THAT(after([](auto& m) { m.mutable_graph()->clear_input(); }), HasSubstr("inputs differ"));
  EXPECT_THAT(after([](auto& m) { m.add_opset_import()->set_domain("x"); }),
              HasSubstr("opset import"));
}

}  // namespace
}  // namespace ctxgen
