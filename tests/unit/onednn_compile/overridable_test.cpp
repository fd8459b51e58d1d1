#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctxgen/onednn/provider.h"

#include "fused.h"

// Initializers that callers may override: one program with two ways (ctxgen/onednn/defaults.h).
namespace ctxgen::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

void make_overridable(TestGraph& g) {
  for (std::uint32_t v = 0; v < g.model.graph.value_count(); ++v) {
    Value& value = g.model.graph.value(ValueId{v});
    if (!value.initializer) continue;
    value.is_overridable = value.is_input = true;
    g.model.graph.inputs.push_back(ValueId{v});
  }
}

/// relu(batch_norm(conv(x, w))), the weights multiplied by `factor`. Two of the same seed differ in that
/// alone.
TestGraph network(float factor, std::int64_t channels = 4) {
  TestGraph g(13, 7);
  const std::string x = g.input("x", {1, channels, 6, 6});
  const std::string w = g.constant({8, channels, 3, 3}, -factor, factor);
  const std::string y =
      g.add("BatchNormalization",
            {g.add("Conv", {x, w}, {attr("pads", std::vector<std::int64_t>{1, 1, 1, 1})}),
             g.constant({8}), g.constant({8}), g.constant({8}), g.constant({8}, 0.5F, 1.5F)});
  g.output(g.add("Relu", {y}));
  return g;
}

Program compiled(const TestGraph& g, WeightStore& store) {
  const Partition partition = g.whole();
  auto made =
      onednn::make_provider()->compile(g.view(), std::span(&partition, 1), {}, store).value();
  made[0].program.name = "test";
  return std::move(made[0].program);
}

TEST(DnnlOverridable, DefaultsAreFoldedAndPackedBesidesTheGeneralWay) {
  TestGraph g = network(1.0F);
  make_overridable(g);
  Program program;
  const std::vector<Tensor> results = compiled_results(g, &program);
  expect_same(g);
  const std::vector<std::string> lines = summary(program);
  EXPECT_EQ(lines.front(), "conv(bias) +relu");
  EXPECT_THAT(lines, Contains("computed_conv +mul(value) +add(value) +relu"));
  EXPECT_EQ(lines.back(), "defaults");
  ASSERT_EQ(program.plans.size(), 1U);
  EXPECT_EQ(program.inputs.size(), 6U);
}

TEST(DnnlOverridable, AnOverrideIsComputedWith) {
  TestGraph g = network(1.0F);
  const TestGraph other = network(2.0F);
  make_overridable(g);
  WeightStore store;
  const Program program = compiled(g, store);
  std::vector<Tensor> inputs, overridden;
  for (const std::uint32_t input : program.inputs) {
    const std::string& name = program.values[input].name;
    inputs.push_back(g.value(name));
    overridden.push_back(name == "x" ? g.value("x") : other.value(name));
  }
  const auto result_of = [](const TestGraph& graph) {
    return graph.value(graph.model.graph.value(graph.model.graph.outputs[0]).name);
  };
  EXPECT_LE(difference(run_program(inputs, program, store).value()[0], result_of(g)), 1e-5);
  // The two graphs draw x alike, and then w: all else is the same, too.
  EXPECT_LE(difference(run_program(overridden, program, store).value()[0], result_of(other)), 1e-5);
  EXPECT_GT(difference(result_of(g), result_of(other)), 1e-2);
}

/// What folding found to follow from defaults is a constant of their way, and computed in the other.
TEST(DnnlOverridable, WhatFollowsFromDefaultsIsFoldedToo) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 4, 6, 6});
  const std::string w = g.add("Transpose", {g.constant({4, 8, 1, 1})},
                              {attr("perm", std::vector<std::int64_t>{1, 0, 2, 3})});
  g.output(g.add("Conv", {x, w}));
  make_overridable(g);
  g.model.graph.value(g.id(w)).by_default = g.value(w);
  Program program;
  (void)compiled_results(g, &program);
  expect_same(g);
  EXPECT_THAT(summary(program), ElementsAre("conv", "transpose", "computed_conv", "defaults"));
}

TEST(DnnlOverridable, WhereTheyCannotBeConstantsThereIsOneWay) {
  {
    SCOPED_TRACE("a node of constants that was not folded");
    TestGraph g(13);
    const std::string w = g.add("Neg", {g.constant({8, 4, 1, 1})});
    g.output(g.add("Conv", {g.input("x", {1, 4, 6, 6}), w}));
    make_overridable(g);
    Program program;
    (void)compiled_results(g, &program);
    expect_same(g);
    EXPECT_THAT(summary(program), Not(Contains("defaults")));
  }
  {
    SCOPED_TRACE("an output that follows from defaults");
    TestGraph g(13);
    const std::string w = g.add("Neg", {g.constant({8, 4, 1, 1})});
    g.output(g.add("Conv", {g.input("x", {1, 4, 6, 6}), w}));
    g.output(w);
    make_overridable(g);
    g.model.graph.value(g.id(w)).by_default = g.value(w);
    Program program;
    (void)compiled_results(g, &program);
    expect_same(g);
    EXPECT_THAT(summary(program), Not(Contains("defaults")));
  }
  {
    SCOPED_TRACE("dims that a caller may change");
    TestGraph g(13);
    const std::string b = g.constant({3, 4});
    g.output(g.add("Add", {g.input("x", {3, 4}), b}));
    make_overridable(g);
    g.set_dims(b, {"rows"});
    Program program;
    (void)compiled_results(g, &program);
    EXPECT_THAT(summary(program), ElementsAre("binary:add"));
  }
}

}  // namespace
}  // namespace ctxgen::testing
