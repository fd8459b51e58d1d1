#include "ctxgen/compiler/context_builder.h"

#include <gtest/gtest.h>

#include "ctxgen/onnx_lite/read_model.h"

#include "parse_model.h"
#include "toy_provider.h"

namespace ctxgen {
namespace {

Model model_with(const std::string& values, const std::string& input = "x") {
  auto model = read_model(parse_model("<ir_version: 8, opset_import: [\"\" : 17]>\n"
                                      "graph (float[3] " +
                                      input +
                                      ") => (float[3] y)\n"
                                      "<float[3] w = {" +
                                      values +
                                      "}> {\n"
                                      "  b = Abs(" +
                                      input + ")\n  y = Add(b, w)\n}"),
                          {});
  for (std::uint32_t v = 0; v < model->graph.value_count(); ++v) {
    ValueType& type = model->graph.value(ValueId{v}).type;
    type = {ValueType::Kind::kTensor, DataType::kFloat, std::vector<Dim>{Dim::fixed(3)}};
  }
  return std::move(*model);
}

class ContextBuilderTest : public testing::Test {
 protected:
  ToyProvider toy{"toy", {"Abs", "Add"}};
  const Provider* list[1] = {&toy};
  std::vector<ProviderCompileOptions> options = std::vector<ProviderCompileOptions>(1);
  ContextBuilder builder{list};

  std::string add(const Model& model, std::string_view prefix = "") {
    const auto assignment = partition_graph(model, model.graph, list);
    const auto built = builder.add_model(model, model.graph, *assignment, options, prefix);
    return built->at(0).attributes.partition_name;
  }
};

TEST_F(ContextBuilderTest, EqualWeightsAreStoredOnce) {
  add(model_with("1, 2, 3"));
  add(model_with("1, 2, 3", "other"));
  add(model_with("4, 5, 6"));
  const auto content = builder.content(0);
  ASSERT_TRUE(content && *content);
  EXPECT_EQ((*content)->programs.size(), 3U);
  EXPECT_EQ((*content)->blobs.size(), 2U);
  EXPECT_EQ(builder.weight_bytes_added(), 36U);
  EXPECT_EQ(builder.weight_bytes_stored(), 24U);
}

TEST_F(ContextBuilderTest, EqualProgramsAreShared) {
  const std::string first = add(model_with("1, 2, 3"));
  EXPECT_EQ(add(model_with("1, 2, 3")), first);
  EXPECT_EQ((*builder.content(0))->programs.size(), 1U);
}

// The content hash leaves names out, the interface's names do not fit both models: two programs.
TEST_F(ContextBuilderTest, OtherInterfaceNamesGetAProgramOfTheirOwn) {
  const std::string first = add(model_with("1, 2, 3"));
  const std::string second = add(model_with("1, 2, 3", "other"));
  EXPECT_NE(first, second);
  EXPECT_EQ((*builder.content(0))->programs.size(), 2U);
}

// Models are merged and split: what a program is called must not depend on what is in its bin.
TEST_F(ContextBuilderTest, NamesDoNotDependOnWhatIsThereAlready) {
  add(model_with("1, 2, 3"));
  const std::string second = add(model_with("1, 2, 3", "other"));
  ContextBuilder alone{list};
  const Model model = model_with("1, 2, 3", "other");
  const auto assignment = partition_graph(model, model.graph, list);
  const auto built = alone.add_model(model, model.graph, *assignment, options, "");
  EXPECT_EQ(built->at(0).attributes.partition_name, second);
}

TEST_F(ContextBuilderTest, NamesCarryPrefixHashAndOrdinal) {
  const std::string name = add(model_with("1, 2, 3"), "mine_");
  EXPECT_TRUE(name.starts_with("mine_toy_")) << name;
  EXPECT_TRUE(name.ends_with("_0")) << name;
}

TEST_F(ContextBuilderTest, NoProgramNoBin) { EXPECT_FALSE(builder.content(0)->has_value()); }

}  // namespace
}  // namespace ctxgen
