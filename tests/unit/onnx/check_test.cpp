#include <algorithm>
#include <cctype>
#include <format>

#include <gmock/gmock.h>

#include "ctxgen/onnx/infer.h"

#include "code_of.h"
#include "model_text.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::graph_of;

TEST(Check, AcceptsGoodModels) {
  EXPECT_EQ(
      code_of(check_with_onnx(graph_of("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"))),
      test::kOk);
}

TEST(Check, AcceptsBigConstants) {
  Model model =
      graph_of("g (float[N,512] x) => (float[N,512] y) <float w = {1}> { y = Add(x, w) }");
  Value& w = model.graph.value(model.graph.find("w"));
  w.initializer = Tensor::allocate(DataType::kFloat, {512}).value();
  EXPECT_EQ(code_of(check_with_onnx(model)), test::kOk);
}

TEST(Check, AcceptsBigTensorsOfAttributes) {
  Model model = test::model_of(R"(<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 4]>
      g (int64[N] x) => (int64[N] y) { y = ai.onnx.ml.LabelEncoder<default_int64 = 0>(x) })");
  for (const char* name : {"keys_tensor", "values_tensor"}) {
    Attribute attribute;
    attribute.name = name;
    attribute.kind = AttributeKind::kTensor;
    attribute.tensors = {Tensor::allocate(DataType::kInt64, {200}).value()};
    model.graph.node(NodeId{0}).attributes.push_back(std::move(attribute));
  }
  EXPECT_EQ(code_of(check_with_onnx(model)), test::kOk);
}

TEST(Check, AcceptsWhatRuntimesRun) {
  EXPECT_EQ(code_of(check_with_onnx(graph_of("g (float[] x) => (float[] y) { y = Relu(x) }"))),
            test::kOk)
      << "no shapes";
  EXPECT_EQ(code_of(check_with_onnx(
                graph_of("g (float[N] x) => (float[N] y) { y = custom.domain.Thing(x) }"))),
            test::kOk)
      << "a domain that is not imported";
  EXPECT_EQ(
      code_of(check_with_onnx(graph_of(
          "g (float[N] x, float[N] s) => (float[N] y) { y = LayerNormalization(x, s) }", 11))),
      test::kOk)
      << "an operator that runtimes had before ONNX";
}

TEST(Check, RefusesWhatBreaksTheRules) {
  EXPECT_EQ(code_of(check_with_onnx(graph_of("g (float[N] x) => (float[N] y) { y = Relu(x, x) }"))),
            ErrorCode::kInvalidGraph)
      << "too many inputs";
  EXPECT_EQ(code_of(check_with_onnx(graph_of("g (float[N] x) => (float[N] y) { y = Concat(x) }"))),
            ErrorCode::kInvalidGraph)
      << "a required attribute is missing";
  EXPECT_EQ(code_of(check_with_onnx(
                graph_of("g (float[N] x) => (float[N] y) { y = Relu<shade = 3>(x) }"))),
            ErrorCode::kInvalidGraph)
      << "an attribute that it does not have";
}

TEST(Check, WhatIsExcusedExcusesItsOwnNodeOnly) {
  const auto code = [](std::string_view last, std::string_view inner) {
    return code_of(check_with_onnx(
        graph_of(std::format(R"(g (bool c, float[N] x, float[N] s) => (float[N] y) {{
            a = LayerNormalization(x, s)
            b = If (c) <then_branch = t () => (float[N] p) {{ o = LayerNormalization(x, s) p = {} }},
                        else_branch = e () => (float[N] q) {{ q = Neg(x) }}>
            y = {} }})",
                             inner, last),
                 11)));
  };
  EXPECT_EQ(code("Add(a, b)", "Relu(o)"), test::kOk);
  EXPECT_EQ(code("LayerNormalization(b, s)", "LayerNormalization(o, s)"), test::kOk);
  EXPECT_EQ(code("Relu(a, b)", "Relu(o)"), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code("Add(a, b)", "Relu(o, o)"), ErrorCode::kInvalidGraph);
}

TEST(Check, NamesExcuseNothing) {
  Model model = test::graph_of("g (float[2] x) => (float[] y) { y = Add(x) }");
  EXPECT_EQ(code_of(check_with_onnx(model)), ErrorCode::kInvalidGraph);
  for (const char* name : {"No Op registered for", "this one is deprecated", "Field 'shape'"}) {
    model.graph.node(NodeId{0}).name = name;
    EXPECT_EQ(code_of(check_with_onnx(model)), ErrorCode::kInvalidGraph) << name;
  }
}

TEST(OnnxVersion, IsANumber) {
  const std::string version = onnx_version();
  EXPECT_EQ(std::ranges::count(version, '.'), 2) << version;
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(version.front()))) << version;
}

}  // namespace
}  // namespace ctxgen
