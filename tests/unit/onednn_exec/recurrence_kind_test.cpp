#include <algorithm>
#include <cmath>
#include <format>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

// Kinds linear_attention and causal_conv: their inputs, what they refuse. tests/unit/kernels has the numbers.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

/// An op whose inputs have these dims, {} where one is absent, and `outputs` outputs.
Maker maker_of(std::string_view kind, const std::vector<Dims>& dims, std::vector<Param> params,
               std::size_t outputs) {
  Maker maker(1);
  std::vector<Operand> inputs;
  for (const Dims& each : dims) inputs.push_back(each.empty() ? Operand{} : maker.input(each));
  const Operand first = maker.op(kind, inputs, std::move(params));
  maker.output(first);
  for (std::size_t i = 1; i < outputs; ++i) {
    const auto value = static_cast<std::uint32_t>(maker.program().values.size());
    maker.program().values.push_back(maker.program().values[first.index]);
    maker.program().ops.back().outputs.push_back(value);
    maker.output(Operand::value(value));
  }
  return maker;
}

/// Two images, three steps, four queries over two states [5, 6].
struct Linear {
  Dims q = {2, 3, 20}, k = {2, 3, 10}, v = {2, 3, 12};
  Dims past = {2, 2, 5, 6}, decay = {2, 3, 2}, rate = {2, 3, 2};
  std::int64_t heads = 4, states = 2;
  std::size_t outputs = 2;
};

Maker linear(const Linear& form) {
  return maker_of(kind::kLinearAttention,
                  {form.q, form.k, form.v, form.past, form.decay, form.rate},
                  {integer("heads", form.heads), integer("states", form.states)}, form.outputs);
}

auto code_of_linear(const Linear& form) {
  Maker maker = linear(form);
  return code_of(compile_and_run(maker));
}

TEST(ExecLinearAttention, GivesResultsAndStates) {
  Maker maker = linear({});
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ((*results)[0].dims(), (Dims{2, 3, 24}));
  ASSERT_EQ((*results)[1].dims(), (Dims{2, 2, 5, 6}));
  const auto at = [&](std::size_t input, std::size_t i) {
    return double{maker.inputs()[input].elements<float>()[i]};
  };
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t s = 0; s < 2; ++s)
      for (std::size_t j = 0; j < 6; ++j) {
        std::vector<double> state(5);
        for (std::size_t i = 0; i < 5; ++i) state[i] = at(3, ((b * 2 + s) * 5 + i) * 6 + j);
        for (std::size_t t = 0; t < 3; ++t) {
          const std::size_t step = b * 3 + t;
          const double factor = std::exp(at(4, step * 2 + s));
          double seen = 0;
          for (std::size_t i = 0; i < 5; ++i) {
            state[i] *= factor;
            seen += state[i] * at(1, step * 10 + s * 5 + i);
          }
          const double added = at(5, step * 2 + s) * (at(2, step * 12 + s * 6 + j) - seen);
          for (std::size_t i = 0; i < 5; ++i) state[i] += at(1, step * 10 + s * 5 + i) * added;
          for (std::size_t h = s * 2; h < s * 2 + 2; ++h) {
            double sum = 0;
            for (std::size_t i = 0; i < 5; ++i) sum += state[i] * at(0, step * 20 + h * 5 + i);
            EXPECT_NEAR(double{(*results)[0].elements<float>()[step * 24 + h * 6 + j]},
                        sum / std::sqrt(5.0), 2e-6);
          }
        }
        for (std::size_t i = 0; i < 5; ++i)
          EXPECT_NEAR(double{(*results)[1].elements<float>()[((b * 2 + s) * 5 + i) * 6 + j]},
                      state[i], 2e-6);
      }
}

TEST(ExecLinearAttention, GivesTheSameOnSeveralThreads) {
  for (const std::int64_t steps : {1, 20}) {
    Maker maker = linear({.q = {1, steps, 512},
                          .k = {1, steps, 512},
                          .v = {1, steps, 512},
                          .past = {1, 8, 64, 64},
                          .decay = {1, steps, 8},
                          .rate = {1, steps, 1},
                          .heads = 8,
                          .states = 8});
    const Outputs one = compile_and_run(maker).value();
    const Packed packed = pack(maker, {maker.input_dims()}).value();
    const auto executable =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
    EXPECT_EQ(run(*executable, maker.inputs()).value(), one);
  }
}

TEST(ExecLinearAttention, TakesOtherFormsOfItsInputs) {
  for (const Linear& form :
       {Linear{.past = {}}, Linear{.decay = {}}, Linear{.rate = {}}, Linear{.decay = {2, 3, 10}},
        Linear{.rate = {2, 3, 1}}, Linear{.k = {2, 3, 5}},
        Linear{.past = {}, .decay = {}, .rate = {}}, Linear{.q = {2, 3, 5}, .heads = 1},
        Linear{.q = {2, 0, 20}, .k = {2, 0, 10}, .v = {2, 0, 12}, .decay = {2, 0, 2}, .rate = {}},
        Linear{.v = {2, 3, 0}, .past = {}}, Linear{.q = {2, 3, 0}, .k = {2, 3, 0}, .past = {}}})
    EXPECT_EQ(code_of_linear(form), ctxgen::test::kOk)
        << to_string(form.q) << to_string(form.decay) << to_string(form.rate);
}

TEST(ExecLinearAttention, OfNoStepsLeavesTheState) {
  Maker maker = linear(
      {.q = {2, 0, 20}, .k = {2, 0, 10}, .v = {2, 0, 12}, .decay = {2, 0, 2}, .rate = {2, 0, 2}});
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ((*results)[0].dims(), (Dims{2, 0, 24}));
  EXPECT_TRUE(
      std::ranges::equal((*results)[1].elements<float>(), maker.inputs()[3].elements<float>()));
}

TEST(ExecLinearAttention, RefusesWhatDoesNotFit) {
  const std::int64_t huge = std::int64_t{1} << 30;
  for (const Linear& form :
       {Linear{.q = {2, 3, 21}}, Linear{.q = {6, 20}}, Linear{.k = {2, 3, 15}},
        Linear{.k = {2, 2, 10}}, Linear{.k = {2, 3, 9}}, Linear{.v = {2, 3, 13}},
        Linear{.v = {1, 3, 12}}, Linear{.past = {2, 2, 6, 5}}, Linear{.past = {2, 60}},
        Linear{.decay = {2, 3, 3}}, Linear{.decay = {2, 3}}, Linear{.rate = {2, 3, 4}},
        Linear{.rate = {6}}, Linear{.heads = 0}, Linear{.heads = 3}, Linear{.states = -2},
        Linear{.heads = huge}, Linear{.outputs = 1}, Linear{.outputs = 3}})
    EXPECT_EQ(code_of_linear(form), ErrorCode::kInvalidGraph)
        << to_string(form.q) << to_string(form.k) << to_string(form.v) << form.heads;
}

struct Causal {
  Dims x = {2, 70, 5}, weights = {70, 1, 4}, bias = {70}, past = {2, 70, 3};
  std::size_t outputs = 2;
};

auto code_of_causal(const Causal& form) {
  Maker maker = maker_of(kind::kCausalConv, {form.x, form.weights, form.bias, form.past},
                         {integer("swish", 1)}, form.outputs);
  return code_of(compile_and_run(maker));
}

TEST(ExecCausalConv, GivesResultsAndStates) {
  for (const bool swish : {false, true}) {
    const Causal form;
    Maker maker = maker_of(kind::kCausalConv, {form.x, form.weights, form.bias, form.past},
                           {integer("swish", swish ? 1 : 0)}, 2);
    const auto results = compile_and_run_typed(maker);
    ASSERT_TRUE(results) << results.error().message;
    ASSERT_EQ((*results)[0].dims(), form.x);
    ASSERT_EQ((*results)[1].dims(), form.past);
    for (std::size_t row = 0; row < 140; ++row) {
      const auto at = [&](std::size_t p) {  // of the past and what follows it
        return double{p < 3 ? maker.inputs()[3].elements<float>()[row * 3 + p]
                            : maker.inputs()[0].elements<float>()[row * 5 + p - 3]};
      };
      for (std::size_t i = 0; i < 5; ++i) {
        double sum = double{maker.inputs()[2].elements<float>()[row % 70]};
        for (std::size_t k = 0; k < 4; ++k)
          sum += double{maker.inputs()[1].elements<float>()[row % 70 * 4 + k]} * at(i + k);
        if (swish) sum /= 1 + std::exp(-sum);
        EXPECT_NEAR(double{(*results)[0].elements<float>()[row * 5 + i]}, sum, 2e-6);
      }
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(double{(*results)[1].elements<float>()[row * 3 + i]}, at(5 + i));
    }
  }
}

TEST(ExecCausalConv, OfNoPositionsLeavesTheState) {
  Maker maker = maker_of(kind::kCausalConv, {{2, 70, 0}, {70, 1, 4}, {70}, {2, 70, 3}},
                         {integer("swish", 1)}, 2);
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_TRUE(
      std::ranges::equal((*results)[1].elements<float>(), maker.inputs()[3].elements<float>()));
}

TEST(ExecCausalConv, TakesWhatFitsOnly) {
  for (const Causal& form :
       {Causal{}, Causal{.bias = {}}, Causal{.past = {}}, Causal{.x = {2, 70, 1}},
        Causal{.x = {2, 70, 0}}, Causal{.weights = {70, 1, 1}, .past = {}},
        Causal{.x = {2, 0, 5}, .weights = {0, 1, 4}, .bias = {}, .past = {}}})
    EXPECT_EQ(code_of_causal(form), ctxgen::test::kOk) << to_string(form.x);
  for (const Causal& form :
       {Causal{.x = {140, 5}}, Causal{.weights = {70, 4}}, Causal{.weights = {70, 2, 4}},
        Causal{.weights = {71, 1, 4}}, Causal{.weights = {70, 1, 0}}, Causal{.bias = {1}},
        Causal{.past = {2, 70, 4}}, Causal{.past = {1, 70, 3}}, Causal{.outputs = 1}})
    EXPECT_EQ(code_of_causal(form), ErrorCode::kInvalidGraph) << to_string(form.weights);
}

}  // namespace
}  // namespace ctxgen::onednn::test
