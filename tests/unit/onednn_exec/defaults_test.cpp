#include "ctxgen/onednn/defaults.h"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

// Programs with overridable initializers: which of the two ways a run goes, and what load() refuses.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

constexpr std::uint32_t kWeightInput = 1;

/// y = relu(conv(x, w)) and w passed through, with w an input that has a default.
struct Example {
  Tensor x, w;
  std::shared_ptr<WeightStore> store;
  Program program;
  [[nodiscard]] Packed packed() const { return {program, store}; }
};

Operand convolve(Maker& maker, Operand x, Operand w, std::string_view kind) {
  return maker.op(kind, {x, w}, {ints("pads", {1, 1, 1, 1})}, {unary("relu")});
}

/// The way of the defaults doubles its result, so that a run shows which way it went.
Example make_example(std::vector<std::vector<Dims>> profiles = {
                         {Dims{1, 4, 8, 8}, Dims{8, 4, 3, 3}}}) {
  Maker packed(1), general(1);
  Example example;
  example.x = random_tensor(Dims{1, 4, 8, 8}, packed.random());
  example.w = random_tensor(Dims{8, 4, 3, 3}, packed.random());
  const Operand x = packed.input(example.x);
  packed.input(example.w);
  Operand y = convolve(packed, x, packed.weight(example.w), kind::kConv);
  packed.output(packed.op(kind::kEltwise, {y},
                          {text("alg", "linear"), real("alpha", 2.0), real("beta", 0.0)}));
  const Operand other = general.input(example.x), w = general.input(example.w);
  general.output(convolve(general, other, w, kind::kComputedConv));
  Packed first = pack(packed, profiles).value();
  const Packed second = pack(general, {}).value();
  example.store = first.store;
  const DefaultInput defaults{kWeightInput, hash_bytes(example.w.bytes())};
  example.program = join_defaults(std::move(first.program), second.program, {&defaults, 1});
  return example;
}

std::unique_ptr<Executable> loaded(const Packed& packed) {
  return loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
}

/// The first output of a run with these inputs.
std::vector<float> first_of(const Executable& executable, const Tensor& x, const Tensor& w,
                            std::vector<std::uint8_t> constant_inputs = {}) {
  const auto state = executable.make_state().value();
  VectorOutputs outputs;
  const std::vector<TensorView> views{x.view(), w.view()};
  const Status status =
      executable.run(*state, views, outputs, {.constant_inputs = constant_inputs});
  EXPECT_TRUE(status) << status.error().message;
  return outputs.data[0];
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy = Tensor::allocate(tensor.type(), tensor.dims()).value();
  std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
  return copy;
}

std::vector<float> expected(const Example& example, const Tensor& w, float factor) {
  Maker maker(1);
  const Operand x = maker.input(example.x);
  maker.output(convolve(maker, x, maker.weight(w), kind::kConv));
  std::vector<float> values = compile_and_run(maker).value()[0];
  for (float& value : values) value *= factor;
  return values;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& wanted) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(actual[i], wanted[i], 1e-4) << i;
}

TEST(ExecDefaults, ContentDecidesWhichWayARunGoes) {
  for (const bool planned : {true, false}) {
    const Example example = planned ? make_example() : make_example({});
    const auto executable = loaded(example.packed());
    Tensor w = copy_of(example.w);
    const std::vector<float> by_default = expected(example, w, 2.0F);
    expect_near(first_of(*executable, example.x, example.w), by_default);
    expect_near(first_of(*executable, example.x, w), by_default);  // elsewhere, but the same
    w.mutable_elements<float>()[287] += 1.0F;                      // in place
    expect_near(first_of(*executable, example.x, w), expected(example, w, 1.0F));
    w.mutable_elements<float>()[287] -= 2.0F;
    expect_near(first_of(*executable, example.x, w), expected(example, w, 1.0F));
    std::ranges::copy(example.w.bytes(), w.mutable_bytes().begin());
    expect_near(first_of(*executable, example.x, w), by_default);
  }
}

/// Where the caller vouches for an input, it is read once; where not, its verdict counts for nothing.
TEST(ExecDefaults, ConstantInputsAreLookedAtOnce) {
  const Example example = make_example();
  const auto executable = loaded(example.packed());
  Tensor w = copy_of(example.w);
  const std::vector<float> by_default = expected(example, w, 2.0F);
  const std::vector<std::uint8_t> constant{0, 1};
  expect_near(first_of(*executable, example.x, w, constant), by_default);
  w.mutable_elements<float>()[0] += 1.0F;  // a broken promise shows that nothing is read again
  expect_near(first_of(*executable, example.x, w, constant), by_default);
  expect_near(first_of(*executable, example.x, w, {0, 0}), expected(example, w, 1.0F));
  expect_near(first_of(*executable, example.x, w, {1}), expected(example, w, 1.0F));
  const auto other = loaded(example.packed());  // whose constant is not the default
  expect_near(first_of(*other, example.x, w, constant), expected(example, w, 1.0F));
  expect_near(first_of(*other, example.x, example.w), by_default);
}

TEST(ExecDefaults, ThreadsGoTheirOwnWays) {
  const Example example = make_example();
  const auto executable = loaded(example.packed());
  Tensor w = copy_of(example.w);
  w.mutable_elements<float>()[5] = 3.0F;
  const std::vector<float> by_default = expected(example, example.w, 2.0F);
  const std::vector<float> overridden = expected(example, w, 1.0F);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const bool overrides = (i + t) % 2 != 0;
        expect_near(first_of(*executable, example.x, overrides ? w : example.w,
                             {0, static_cast<std::uint8_t>(overrides ? 0 : 1)}),
                    overrides ? overridden : by_default);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(ExecDefaults, WrongInputsAreErrorsAsEver) {
  const Example example = make_example();
  const auto executable = loaded(example.packed());
  const auto code = [&](const std::vector<Tensor>& inputs) {
    return code_of(run(*executable, inputs));
  };
  std::mt19937 random(1);
  EXPECT_EQ(code({example.x}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({example.x, example.w, example.w}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({example.x, Tensor::allocate(DataType::kInt32, example.w.dims()).value()}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({example.x, random_tensor(Dims{8, 5, 3, 3}, random)}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code({example.x, random_tensor(Dims{8, 0, 3, 3}, random)}), ErrorCode::kInvalidGraph);
}

TEST(ExecDefaults, AreSplitAsTheyWereJoined) {
  const Example example = make_example();
  const auto split = split_defaults(example.program).value();
  ASSERT_TRUE(split.has_value());
  ASSERT_EQ(split->defaults.size(), 1U);
  EXPECT_EQ(split->defaults[0], (DefaultInput{kWeightInput, hash_bytes(example.w.bytes())}));
  const auto kinds = [](const Program& program) {
    std::vector<std::string> list;
    for (const ProgramOp& op : program.ops) list.push_back(op.kind.str());
    return list;
  };
  EXPECT_EQ(kinds(split->by_default), (std::vector<std::string>{"conv", "eltwise"}));
  EXPECT_EQ(kinds(split->general), (std::vector<std::string>{"computed_conv"}));
  EXPECT_EQ(split->by_default.plans.size(), 1U);
  EXPECT_TRUE(split->general.plans.empty());
  EXPECT_FALSE(split_defaults(split->general).value().has_value());
  EXPECT_TRUE(validate(example.program, UINT64_MAX));
}

/// Whatever is changed in the op is refused, or means another choice between the two ways.
TEST(ExecDefaults, DamagedOpsAreRefused) {
  const Example good = make_example();
  const auto code = [&](const std::function<void(Program&, ProgramOp&)>& damage) {
    Packed packed = good.packed();
    damage(packed.program, packed.program.ops.back());
    return code_of(loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr));
  };
  const auto list = [](ProgramOp& op, std::size_t param) -> SmallList<std::int64_t>& {
    return std::get<SmallList<std::int64_t>>(op.params[param].value);
  };
  EXPECT_EQ(code([](Program&, ProgramOp&) {}), ctxgen::test::kOk);
  for (const std::int64_t input : {std::int64_t{-1}, std::int64_t{2}, INT64_MAX, INT64_MIN})
    EXPECT_EQ(code([&](Program&, ProgramOp& op) { list(op, 0)[0] = input; }),
              ErrorCode::kCorruptContext);
  for (std::size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(code([&](Program&, ProgramOp& op) { list(op, p).push_back(0); }),
              ErrorCode::kCorruptContext);
    EXPECT_EQ(code([&](Program&, ProgramOp& op) { list(op, p) = {}; }), ErrorCode::kCorruptContext);
    EXPECT_EQ(code([&](Program&, ProgramOp& op) { op.params[p].value = std::int64_t{1}; }),
              ErrorCode::kCorruptContext);
  }
  EXPECT_EQ(code([](Program&, ProgramOp& op) { op.params.clear(); }), ErrorCode::kCorruptContext);
  EXPECT_EQ(code([](Program&, ProgramOp& op) { op.inputs.pop_back(); }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(code([](Program&, ProgramOp& op) { op.inputs[1] = Operand::weight(0); }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(code([](Program&, ProgramOp& op) { op.inputs[0] = {}; }), ErrorCode::kCorruptContext);
  EXPECT_EQ(code([](Program& program, ProgramOp&) { program.ops.push_back(program.ops[0]); }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(code([](Program& program, ProgramOp&) { program.outputs.push_back(0); }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(code([](Program& program, ProgramOp& op) {
              program.values[op.inputs[1].index].type = DataType::kFloat16;
            }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(code([](Program& program, ProgramOp&) { program.plans[0].payload.pop_back(); }),
            ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen::onednn::test
