#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

// Kind byte_lstm: what a load refuses. tests/ops/dnnl has the numbers.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

struct LstmForm {
  std::string direction = "forward";
  std::int64_t inputs = 5, units = 6, zeros = 0;  // as the parameters say
  Dims x = {3, 2, 5};
  std::int64_t directions = 1;
  std::int64_t more_bytes = 0;  // of the matrices
  Dims scales = {1, 24}, bias = {1, 24}, state = {1, 2, 6};
  DataType matrix = DataType::kUint8;
  bool weights = true;
  std::size_t outputs = 3;
};

/// Random bytes are as good as any: sums wrap around.
Tensor packed_of(const LstmForm& form, std::int64_t k) {
  const kernels::ByteMatrix matrix{.k = k, .n = 24, .zeros = false};
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(matrix)) + form.more_bytes;
  Tensor packed = Tensor::allocate(form.matrix, {form.directions, bytes}).value();
  std::mt19937 random(5);
  for (std::byte& byte : packed.mutable_bytes()) byte = static_cast<std::byte>(random());
  return packed;
}

Maker lstm(const LstmForm& form) {
  Maker maker(1);
  const auto matrix = [&](std::int64_t k) {
    return form.weights ? maker.weight(packed_of(form, k)) : maker.input(packed_of(form, k));
  };
  const Operand x = maker.input(form.x), w = matrix(5), r = matrix(6);
  std::vector<Operand> inputs{x,
                              w,
                              r,
                              maker.weight(form.scales),
                              maker.weight(form.scales),
                              maker.weight(form.bias),
                              maker.input(form.state)};
  ProgramOp op{std::string(kind::kByteLstm),
               "lstm",
               {},
               {},
               {integer("inputs", form.inputs), integer("units", form.units),
                integer("weight_zeros", form.zeros), integer("recurrent_zeros", form.zeros),
                text("direction", form.direction)},
               {}};
  for (const Operand& input : inputs) op.inputs.push_back(input);
  for (std::size_t i = 0; i < form.outputs; ++i) {
    op.outputs.push_back(static_cast<std::uint32_t>(maker.program().values.size()));
    maker.program().values.push_back({"r" + std::to_string(i), DataType::kFloat, {}, false});
    maker.program().outputs.push_back(op.outputs.back());
  }
  maker.program().ops.push_back(std::move(op));
  return maker;
}

auto code_of_lstm(const LstmForm& form) {
  Maker maker = lstm(form);
  return code_of(compile_and_run_typed(maker));
}

TEST(ExecByteLstm, HasThreeResults) {
  Maker maker = lstm({});
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ((*results)[0].dims(), (Dims{3, 2, 6}));
  EXPECT_EQ((*results)[1].dims(), (Dims{1, 2, 6}));
  EXPECT_EQ((*results)[2].dims(), (Dims{1, 2, 6}));
  // The last step's state is the last row of the sequence.
  const auto y = (*results)[0].elements<float>(), state = (*results)[1].elements<float>();
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(y[24 + i], state[i]);
  EXPECT_EQ(code_of_lstm({.direction = "reverse"}), ctxgen::test::kOk);
  EXPECT_EQ(code_of_lstm({.scales = {1, 1}}), ctxgen::test::kOk);
  EXPECT_EQ(code_of_lstm({.direction = "bidirectional",
                          .directions = 2,
                          .scales = {2, 24},
                          .bias = {2, 24},
                          .state = {2, 2, 6}}),
            ctxgen::test::kOk);
}

TEST(ExecByteLstm, OfNoSequencesIsEmpty) {
  EXPECT_EQ(code_of_lstm({.x = {0, 2, 5}}), ErrorCode::kUnsupported);  // states of no steps
  EXPECT_EQ(code_of_lstm({.x = {3, 0, 5}, .state = {1, 0, 6}}), ctxgen::test::kOk);
}

TEST(ExecByteLstm, RefusesWhatDoesNotFit) {
  for (const std::int64_t size : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{7},
                                  std::int64_t{1} << 29, std::int64_t{1} << 31}) {
    EXPECT_EQ(code_of_lstm({.inputs = size}), ErrorCode::kInvalidGraph) << size;
    EXPECT_EQ(code_of_lstm({.units = size}), ErrorCode::kInvalidGraph) << size;
  }
  EXPECT_EQ(code_of_lstm({.inputs = std::int64_t{1} << 40}), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of_lstm({.direction = "both"}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_lstm({.direction = "bidirectional"}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.zeros = 1}), ErrorCode::kInvalidGraph);  // more bytes than there are
  EXPECT_EQ(code_of_lstm({.x = {3, 2}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.x = {3, 2, 4}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.more_bytes = -1}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.more_bytes = 64}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.scales = {24}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.scales = {2, 1}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.bias = {1, 23}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.bias = {1, 1}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.state = {1, 1, 6}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_lstm({.matrix = DataType::kInt8}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_lstm({.weights = false}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_lstm({.outputs = 2}), ErrorCode::kInvalidGraph);
}

}  // namespace
}  // namespace ctxgen::onednn::test
