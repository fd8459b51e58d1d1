#include "ctxgen/onednn/provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctxgen/onednn/exec.h"

#include "test_graph.h"

namespace ctxgen::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TestGraph small_network() {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 4, 8, 8});
  const std::string y = g.add("Relu", {g.add("Conv", {x, g.constant({8, 4, 3, 3})})});
  g.output(y);
  return g;
}

Result<std::vector<CompiledPartition>> compile(const TestGraph& g, WeightStore& store,
                                               const ProviderCompileOptions& options = {}) {
  const Partition partition = g.whole();
  return onednn::make_provider()->compile(g.view(), std::span(&partition, 1), options, store);
}

TEST(DnnlProvider, IsTheDnnlExecutionProvider) {
  const auto provider = onednn::make_provider();
  EXPECT_EQ(provider->name(), "dnnl");
  EXPECT_EQ(provider->source(), "CtxgenDnnlExecutionProvider");
  EXPECT_TRUE(provider->compiles());
  ASSERT_NE(provider->loader(), nullptr);
  EXPECT_EQ(provider->loader()->source(), provider->source());
}

TEST(DnnlProvider, FixedShapesArePlannedAhead) {
  const TestGraph g = small_network();
  WeightStore store;
  const auto compiled = compile(g, store);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  const Program& program = (*compiled)[0].program;
  ASSERT_EQ(program.plans.size(), 1U);
  EXPECT_THAT(program.plans[0].input_dims, ElementsAre(Dims{2, 4, 8, 8}));
  EXPECT_EQ(program.source, onednn::kSource);
}

void make_batch_symbolic(TestGraph& g) {
  for (const Value& value : g.model.graph.values()) {
    if (value.type.has_rank() && value.type.rank() == 4 && !value.initializer) {
      g.set_dims(value.name, {"batch"});
    }
  }
}

TEST(DnnlProvider, UnknownShapesAreNotPlannedButRun) {
  TestGraph g = small_network();
  make_batch_symbolic(g);
  WeightStore store;
  auto compiled = compile(g, store);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  Program& program = (*compiled)[0].program;
  program.name = "test";  // the compiler's part
  EXPECT_TRUE(program.plans.empty());
  EXPECT_THAT(program.symbols, ElementsAre("batch"));
  for (const ProgramWeight& weight : program.weights) EXPECT_FALSE(weight.packed.empty());
  const auto results = run_program(g, program, store);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  EXPECT_LE(difference((*results)[0], g.value(program.values[program.outputs[0]].name)), 1e-5);
}

TEST(DnnlProvider, ProfilesArePlannedOnceEach) {
  TestGraph g = small_network();
  make_batch_symbolic(g);
  ProviderCompileOptions options;
  options.profiles.resize(4);
  options.profile_dims = [&](std::size_t profile, ValueId value) -> std::optional<Dims> {
    EXPECT_EQ(value, g.id("x"));
    if (profile == 3) return std::nullopt;  // not known even then: nothing to plan
    return Dims{profile == 2 ? 1 : static_cast<std::int64_t>(profile) + 1, 4, 8, 8};
  };
  WeightStore store;
  const auto compiled = compile(g, store, options);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  const auto& plans = (*compiled)[0].program.plans;
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_THAT(plans[0].input_dims, ElementsAre(Dims{1, 4, 8, 8}));
  EXPECT_THAT(plans[1].input_dims, ElementsAre(Dims{2, 4, 8, 8}));
}

TEST(DnnlProvider, ContextNodesDescribeThePrograms) {
  const TestGraph g = small_network();
  WeightStore store;
  const auto compiled = compile(g, store);
  ASSERT_TRUE(compiled.has_value());
  const Program& program = (*compiled)[0].program;
  const auto nodes = onednn::make_provider()->context_nodes(std::span(&program, 1));
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].source, "CtxgenDnnlExecutionProvider");
  EXPECT_THAT(nodes[0].ep_sdk_version, StartsWith("ctxgen "));
  EXPECT_THAT(nodes[0].ep_sdk_version, HasSubstr("format 1.3 oneDNN " + onednn::library_version()));
  EXPECT_EQ(nodes[0].hardware_architecture, onednn::isa_name());
  EXPECT_EQ(nodes[0].notes, "ops=1;weights=" + std::to_string(8 * 4 * 9 * 4));
  EXPECT_EQ(nodes[0].max_size, static_cast<std::int64_t>(program.plans[0].arena_bytes +
                                                         program.plans[0].scratch_bytes));
}

TEST(DnnlProvider, ConstantsShareTheModelsBytes) {
  TestGraph g(13);
  const std::string x = g.input("x", {3, 5}), c = g.constant({5});
  g.output(g.add("Max", {x, c}));
  WeightStore store;
  const auto compiled = compile(g, store);
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  const auto& weights = (*compiled)[0].program.weights;
  ASSERT_EQ(weights.size(), 1U);
  ASSERT_EQ(weights[0].packed.size(), 1U);
  EXPECT_EQ(store.blob(weights[0].packed[0].blob.store_id()).bytes.data(),
            g.model.graph.value(g.id(c)).initializer->bytes().data());
}

TEST(DnnlProvider, OptionsThatItDoesNotHaveAreRefused) {
  const TestGraph g = small_network();
  WeightStore store;
  ProviderCompileOptions options;
  options.provider_options = {{"precision", "bf15"}};
  const auto compiled = compile(g, store, options);
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kInvalidArgument);
}

TEST(DnnlProvider, ANodeThatItRefusesIsNoPartition) {
  TestGraph g(13);
  const std::string x = g.input("x", {3, 5});
  g.output(g.add_typed("Tan", {x}, x));
  WeightStore store;
  const auto compiled = compile(g, store);
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kInternal);
}

/// Types that contradict each other pass check(), which sees one dim at a time; planning refuses them.
TEST(DnnlProvider, NodesThatFailToCompileAreNamed) {
  TestGraph g(13);
  const std::string x = g.input("x", {3, 5}), y = g.input("y", {3, 5});
  const std::string good = g.add("Relu", {x});
  const std::string bad = g.add("Add", {good, y});
  const NodeId culprit = g.last_node();
  g.output(g.add("Abs", {bad}));
  (*g.model.graph.value(g.id("y")).type.shape)[1] = Dim::fixed(4);
  WeightStore store;
  const Partition partition = g.whole();
  const auto provider = onednn::make_provider();
  const auto compiled = provider->compile(g.view(), std::span(&partition, 1), {}, store);
  ASSERT_FALSE(compiled.has_value());
  EXPECT_EQ(compiled.error().code, ErrorCode::kInvalidGraph);
  const auto refused = provider->refused_after_all(g.view(), std::span(&partition, 1), {});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].node, culprit);
  EXPECT_THAT(refused[0].reason, HasSubstr("do not broadcast"));
}

TEST(DnnlProvider, NothingIsNamedWhereEverythingCompiles) {
  const TestGraph g = small_network();
  const Partition partition = g.whole();
  EXPECT_TRUE(
      onednn::make_provider()->refused_after_all(g.view(), std::span(&partition, 1), {}).empty());
}

}  // namespace
}  // namespace ctxgen::testing
