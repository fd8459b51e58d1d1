#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctxgen/base/file.h"
#include "ctxgen/cpu/fold.h"
#include "ctxgen/onednn/provider.h"
#include "ctxgen/onnx/infer.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/partition/partitioner.h"

#include "test_graph.h"

// The nine networks of libonnx-testdata, whole: every convolution is claimed, few ops are left, and
// the outputs are the published ones.
namespace ctxgen::testing {
namespace {

const std::filesystem::path kFolder = "/usr/share/libonnx-testdata/data/light";

struct Network {
  const char* name;
  std::size_t relus = 0;  // that follow nothing which could take them: a Concat
};

class LightModel : public ::testing::TestWithParam<Network> {};

Result<Model> read_and_fold(const std::filesystem::path& path) {
  Model model = CTXGEN_TRY(read_model_file(path));
  CTXGEN_CHECK(infer_shapes(model));
  while (CTXGEN_TRY(cpu::fold_constants(model, std::uint64_t{4} << 30)) != 0) {
    CTXGEN_CHECK(infer_shapes(model));
  }
  return model;
}

Tensor arange(const Dims& dims) {
  Tensor tensor = *Tensor::allocate(DataType::kFloat, dims);
  const auto count = static_cast<float>(tensor.element_count());
  float next = 0.0F;
  for (float& f : tensor.mutable_elements<float>()) f = next++ / count;
  return tensor;
}

TEST_P(LightModel, IsOnePartitionWithThePublishedOutput) {
  const std::string stem = std::string("light_") + GetParam().name;
  if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << kFolder << " is not there";
  auto model = read_and_fold(kFolder / (stem + ".onnx"));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const auto provider = onednn::make_provider();
  const Provider* const list[] = {provider.get()};
  const auto assignment = partition_graph(*model, model->graph, list);
  ASSERT_TRUE(assignment.has_value()) << assignment.error().message;
  for (std::uint32_t i = 0; i < model->graph.node_count(); ++i) {
    const Node& node = model->graph.node(NodeId{i});
    const bool constant = model->graph.value(node.outputs[0]).constant() != nullptr;
    EXPECT_TRUE(constant || assignment->nodes[i].provider == 0)
        << node.describe() << ": " << ::testing::PrintToString(assignment->nodes[i].reasons);
  }
  ASSERT_EQ(assignment->partitions[0].size(), 1U);

  WeightStore store;
  const GraphView view(*model, model->graph);
  auto compiled = provider->compile(view, assignment->partitions[0], {}, store);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  Program& program = (*compiled)[0].program;
  program.name = stem;
  const std::vector<std::string> ops = summary(program);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(ops, "eltwise:relu")), GetParam().relus);
  EXPECT_EQ(std::ranges::count(ops, "identity"), 0);
  ASSERT_EQ(program.inputs.size(), 1U);
  const std::vector<Tensor> inputs = {arange(program.plans.at(0).input_dims[0])};
  const auto results = run_program(inputs, program, store);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  const auto file = map_file(kFolder / (stem + "_output_0.pb"));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto in_file = read_tensor(*file);
  ASSERT_TRUE(in_file.has_value()) << in_file.error().message;
  const auto expected = in_file->aligned();
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  ASSERT_EQ(results->at(0).dims(), expected->dims());
  for (std::size_t i = 0; i < static_cast<std::size_t>(expected->element_count()); ++i) {
    const float e = expected->elements<float>()[i];
    ASSERT_NEAR(results->at(0).elements<float>()[i], e, 1e-3 * std::abs(e) + 1e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LightModel,
                         ::testing::Values(Network{"bvlc_alexnet"}, Network{"densenet121"},
                                           Network{"inception_v1"}, Network{"inception_v2"},
                                           Network{"resnet50"}, Network{"shufflenet", 3},
                                           Network{"squeezenet"}, Network{"vgg19"},
                                           Network{"zfnet512"}),
                         [](const auto& model) { return std::string(model.param.name); });

}  // namespace
}  // namespace ctxgen::testing
