#include <gmock/gmock.h>

#include "ctxgen/onnx/infer.h"

#include "code_of.h"
#include "model_text.h"

namespace ctxgen {
namespace {

using test::code_of;

Model sample() {
  return test::graph_of(R"(g (float[N,3,H,W] x, float[N,3] s, float[8,3,3,3] w)
      => (float[] y, float[] z) { c = Conv(x, w) y = Relu(c) z = com.microsoft.Thing(s) })");
}

std::optional<Dims> dims_of(const Model& model, const std::vector<std::optional<Dims>>& dims,
                            std::string_view name) {
  return dims.at(model.graph.find(name).index);
}

TEST(ProfileDims, SymbolsGetNumbers) {
  const Model model = sample();
  const auto dims = infer_dims_with(model, {{"N", 2}, {"H", 8}, {"W", 10}}, {});
  ASSERT_EQ(code_of(dims), test::kOk);
  EXPECT_EQ(dims_of(model, *dims, "x"), (Dims{2, 3, 8, 10}));
  EXPECT_EQ(dims_of(model, *dims, "s"), (Dims{2, 3}));
  EXPECT_EQ(dims_of(model, *dims, "w"), (Dims{8, 3, 3, 3}));
  EXPECT_EQ(dims_of(model, *dims, "y"), (Dims{2, 8, 6, 8}));
  EXPECT_EQ(dims_of(model, *dims, "z"), std::nullopt);
  EXPECT_EQ(test::type_of(model, "x"), "float32[N, 3, H, W]") << "the model is not changed";
}

TEST(ProfileDims, AnInputsDimsNameSymbols) {
  const Model model = sample();
  const auto dims = infer_dims_with(model, {}, {{"x", Dims{2, 3, 8, 10}}});
  ASSERT_EQ(code_of(dims), test::kOk);
  EXPECT_EQ(dims_of(model, *dims, "y"), (Dims{2, 8, 6, 8}));
  EXPECT_EQ(dims_of(model, *dims, "s"), (Dims{2, 3}));
}

TEST(ProfileDims, UnknownDimsOfInputsGetNumbers) {
  const Model model = test::graph_of(
      "g (float[?,3] x, float[] r) => (float[] y, float[] q) "
      "{ y = Relu(x) q = Relu(r) }");
  const auto dims = infer_dims_with(model, {}, {{"x", Dims{2, 3}}, {"r", Dims{5}}});
  ASSERT_EQ(code_of(dims), test::kOk);
  EXPECT_EQ(dims_of(model, *dims, "y"), (Dims{2, 3}));
  EXPECT_EQ(dims_of(model, *dims, "q"), Dims{5});
}

TEST(ProfileDims, SomeMayStayOpen) {
  const Model model = sample();
  const auto dims = infer_dims_with(model, {{"N", 2}}, {});
  ASSERT_EQ(code_of(dims), test::kOk);
  EXPECT_EQ(dims_of(model, *dims, "s"), (Dims{2, 3}));
  EXPECT_EQ(dims_of(model, *dims, "y"), std::nullopt);
}

TEST(ProfileDims, RefusesWhatTheModelDoesNotHave) {
  const Model model = sample();
  const auto code = [&model](auto symbols, auto inputs) {
    return code_of(infer_dims_with(model, symbols, inputs));
  };
  using Symbols = std::vector<std::pair<std::string, std::int64_t>>;
  using Inputs = std::vector<std::pair<std::string, Dims>>;
  EXPECT_EQ(code(Symbols{{"batch", 2}}, Inputs{}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Symbols{{"N", -1}}, Inputs{}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Symbols{}, Inputs{{"y", Dims{1}}}), ErrorCode::kInvalidArgument) << "no input";
  EXPECT_EQ(code(Symbols{}, Inputs{{"s", Dims{1}}}), ErrorCode::kInvalidArgument) << "rank";
  EXPECT_EQ(code(Symbols{}, Inputs{{"s", Dims{1, 4}}}), ErrorCode::kInvalidArgument) << "3, not 4";
  EXPECT_EQ(code(Symbols{{"N", 2}}, Inputs{{"s", Dims{1, 3}}}), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ctxgen
