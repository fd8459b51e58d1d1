#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/ctxfile/needs.h"
#include "ctxgen/ctxfile/op_rounding.h"
#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "layout/weight_layout.h"
#include "program_maker.h"

// Kinds byte_matmul and dynamic_quantize. tests/unit/kernels has the numbers.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;
using kernels::ByteMatrix;

Tensor bytes_tensor(DataType type, const Dims& dims, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor = Tensor::allocate(type, dims).value();
  for (std::byte& byte : tensor.mutable_bytes()) byte = static_cast<std::byte>(random());
  return tensor;
}

constexpr std::int64_t kRowsK = 70, kColumns = 37;
const ByteMatrix kMatrix{.k = kRowsK, .n = kColumns, .zeros = true};

/// The elements and zero points of the matrix of all tests.
Tensor elements() { return bytes_tensor(DataType::kInt8, {kRowsK, kColumns}, 3); }
Tensor zeros() { return bytes_tensor(DataType::kInt8, {kColumns}, 4); }

Tensor packed_matrix(const ByteMatrix& matrix = kMatrix) {
  const Tensor values = elements(), zero = zeros();
  Tensor packed =
      Tensor::allocate(DataType::kUint8, {static_cast<std::int64_t>(packed_bytes(matrix))}).value();
  kernels::pack(matrix,
                {.is_signed = true,
                 .values = reinterpret_cast<const std::uint8_t*>(values.bytes().data()),
                 .zeros = reinterpret_cast<const std::uint8_t*>(zero.bytes().data()),
                 .zero_per_column = true},
                packed.mutable_bytes().data());
  return packed;
}

struct Form {
  Dims a = {2, 3, kRowsK};
  DataType type = DataType::kUint8;
  bool real = true;
  Dims zero = {}, scale = {}, scales = {kColumns}, bias = {kColumns};
  std::int64_t k = kRowsK, n = kColumns, zeros = 1;
  std::vector<PostOp> post_ops = {};
  DataType stored = DataType::kFloat;  // bytes: of these steps
  double out_scale = 0.5;
  std::int64_t out_zero = 100;
  bool limits = false;
};

Tensor real_tensor(const Dims& dims, float low) {
  Tensor tensor = Tensor::allocate(DataType::kFloat, dims).value();
  float next = low;
  for (float& x : tensor.mutable_elements<float>()) x = next += 0.013F;
  return tensor;
}

Maker product(const Form& form, const std::optional<Tensor>& packed = std::nullopt) {
  Maker maker(1);
  std::vector<Operand> inputs{maker.input(bytes_tensor(form.type, form.a, 9)),
                              maker.weight(packed ? *packed : packed_matrix()),
                              maker.input(bytes_tensor(form.type, form.zero, 12))};
  if (form.real) {
    inputs.push_back(maker.input(real_tensor(form.scale, 0.3F)));
    inputs.push_back(maker.weight(real_tensor(form.scales, 0.1F)));
    inputs.push_back(maker.weight(real_tensor(form.bias, -2.0F)));
  }
  std::vector<Param> params{integer("k", form.k), integer("n", form.n),
                            integer("zeros", form.zeros)};
  if (form.limits) params.push_back(integer("limits", 1));
  if (form.stored != DataType::kFloat) {
    params.push_back(real("out_scale", form.out_scale));
    params.push_back(integer("out_zero", form.out_zero));
  }
  const Operand y = maker.op(kind::kByteMatmul, inputs, params, form.post_ops);
  maker.program().values[y.index].type = form.stored;
  if (!form.real) maker.program().values[y.index].type = DataType::kInt32;
  maker.output(y);
  return maker;
}

std::int64_t byte_at(const Tensor& tensor, std::int64_t i) {
  const auto byte = static_cast<std::uint8_t>(tensor.bytes()[static_cast<std::size_t>(i)]);
  return tensor.type() == DataType::kInt8 ? static_cast<std::int8_t>(byte) : byte;
}

std::int64_t sum_at(const Tensor& a, const Tensor& zero, std::int64_t i) {
  const Tensor values = elements(), column_zeros = zeros();
  const std::int64_t row = i / kColumns, column = i % kColumns;
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < kRowsK; ++k)
    sum += (byte_at(a, row * kRowsK + k) - byte_at(zero, 0)) *
           (byte_at(values, k * kColumns + column) - byte_at(column_zeros, column));
  return sum;
}

TEST(ExecByteMatmul, SumsExactly) {
  for (const DataType type : {DataType::kUint8, DataType::kInt8})
    for (const Dims& a : {Dims{kRowsK}, Dims{1, kRowsK}, Dims{20, kRowsK}, Dims{2, 1, 2, kRowsK}}) {
      Maker maker = product({.a = a, .type = type, .real = false});
      const auto results = compile_and_run_typed(maker);
      ASSERT_TRUE(results) << results.error().message;
      Dims expected = a;
      expected[expected.size() - 1] = kColumns;
      ASSERT_EQ(results->front().dims(), expected);
      const auto y = results->front().elements<std::int32_t>();
      for (std::int64_t i = 0; i < std::ssize(y); ++i)
        ASSERT_EQ(y[static_cast<std::size_t>(i)], sum_at(maker.inputs()[0], maker.inputs()[1], i));
    }
}

/// Scales of one element or one per column, and a step after the product.
TEST(ExecByteMatmul, MakesRealNumbers) {
  for (const Dims& scales : {Dims{}, Dims{1}, Dims{kColumns}})
    for (const bool relu : {false, true}) {
      Form form{.scale = {1}, .scales = scales};
      if (relu) form.post_ops = {unary("relu")};
      Maker maker = product(form);
      const auto results = compile_and_run(maker);
      ASSERT_TRUE(results) << results.error().message;
      const auto& y = results->front();
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t column = i % kColumns;
        const auto weights = maker.weights()[1].elements<float>();
        const float scale =
            maker.inputs()[2].elements<float>()[0] * weights[weights.size() > 1 ? column : 0];
        const volatile float scaled =
            static_cast<float>(
                sum_at(maker.inputs()[0], maker.inputs()[1], static_cast<std::int64_t>(i))) *
            scale;
        const float expected = scaled + maker.weights()[2].elements<float>()[column];
        ASSERT_EQ(y[i], relu ? std::max(expected, 0.0F) : expected) << i;
      }
    }
}

auto code_of_form(const Form& form, const std::optional<Tensor>& packed = std::nullopt) {
  Maker maker = product(form, packed);
  return code_of(compile_and_run_typed(maker));
}

/// Results that are stored as bytes are those in real numbers, held, rounded and held again.
TEST(ExecByteMatmul, StoresBytes) {
  struct Bounds {
    std::vector<PostOp> post_ops;
    float least, most;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const Bounds all[] = {{{}, -infinity, infinity},
                        {{unary("relu")}, 0, infinity},
                        {{unary("clip", -20, 6)}, -20, 6},
                        {{unary("relu"), unary("clip", -3, 30)}, 0, 30},
                        {{unary("clip", 1e9F, 2e9F)}, 1e9F, 2e9F}};
  for (const DataType type : {DataType::kUint8, DataType::kInt8})
    for (const Bounds& bounds : all) {
      Form form{.post_ops = bounds.post_ops, .stored = type, .out_scale = 9.5};
      form.out_zero = type == DataType::kInt8 ? -7 : 100;
      Maker bytes = product(form), reals = product({});
      const auto stored = compile_and_run_typed(bytes);
      ASSERT_TRUE(stored) << stored.error().message;
      const std::vector<float> real = compile_and_run(reals).value().front();
      const int low = type == DataType::kInt8 ? -128 : 0;
      for (std::size_t i = 0; i < real.size(); ++i) {
        const float held = std::clamp(real[i], bounds.least, bounds.most);
        const auto whole = std::nearbyint(held / 9.5F) + static_cast<float>(form.out_zero);
        const auto expected =
            std::clamp(whole, static_cast<float>(low), static_cast<float>(low + 255));
        ASSERT_EQ(byte_at(stored->front(), static_cast<std::int64_t>(i)), expected) << i;
      }
    }
}

TEST(ExecByteMatmul, RefusesStepsThatAreNone) {
  const auto u8 = DataType::kUint8;
  EXPECT_EQ(code_of_form({.stored = u8}), ctxgen::test::kOk);
  for (const double scale : {0.0, -1.0, 1e-60, 1e300, std::nan(""), HUGE_VAL})
    EXPECT_EQ(code_of_form({.stored = u8, .out_scale = scale}), ErrorCode::kInvalidGraph) << scale;
  for (const std::int64_t zero : {-1, 256})
    EXPECT_EQ(code_of_form({.stored = u8, .out_zero = zero}), ErrorCode::kInvalidGraph) << zero;
  EXPECT_EQ(code_of_form({.stored = DataType::kInt8, .out_zero = 128}), ErrorCode::kInvalidGraph);
  for (const PostOp& post : {unary("tanh"), unary("relu", 0.1F), unary("clip", 2, 1)})
    EXPECT_EQ(code_of_form({.post_ops = {post}, .stored = u8}), ErrorCode::kUnsupported)
        << post.kind;
  EXPECT_EQ(code_of_form({.stored = DataType::kInt64}), ErrorCode::kUnsupported);
}

TEST(ExecByteMatmul, OfNoRowsIsEmpty) {
  Maker maker = product({.a = {2, 0, kRowsK}});
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->front().dims(), (Dims{2, 0, kColumns}));
}

/// One stored form for all shapes, instruction sets and portable contexts, read where it is.
TEST(ExecByteMatmul, StoresItsMatrixOnceAndRepacksNothing) {
  for (const bool portable : {false, true}) {
    Maker maker = product({});
    const Packed packed =
        pack(maker, {{{1, kRowsK}, {}, {}}, {{4, 64, kRowsK}, {}, {}}}, portable).value();
    for (const ProgramWeight& weight : packed.program.weights) EXPECT_EQ(weight.packed.size(), 1U);
    LoadStatistics statistics;
    const auto executable =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, &statistics).value();
    ASSERT_TRUE(run(*executable, maker.inputs()));  // a third shape
    EXPECT_EQ(executable->plan_statistics().repacked_bytes, 0U);
    EXPECT_EQ(statistics.repacked_bytes, 0U);
  }
}

/// Those with limits are a packing of their own, which older releases do not know.
TEST(ExecByteMatmul, OfAMatrixWithLimitsIsTheSame) {
  ByteMatrix limited = kMatrix;
  limited.limits = true;
  Maker with = product({.a = {50, kRowsK}, .limits = true}, packed_matrix(limited));
  Maker without = product({.a = {50, kRowsK}});
  EXPECT_EQ(compile_and_run(with).value(), compile_and_run(without).value());
  const Need need{Need::kPacking, kLimitedBytes};
  const auto needs_packing = [&](const Program& program) {
    const std::vector<Need> needs = needs_of(loader(), std::span(&program, 1));
    return std::ranges::contains(needs, need);
  };
  EXPECT_TRUE(needs_packing(with.program()));
  EXPECT_FALSE(needs_packing(without.program()));
  EXPECT_TRUE(dynamic_cast<const KnowsNeeds&>(loader()).knows(need));
  EXPECT_EQ(code_of_form({.limits = true}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({}, packed_matrix(limited)), ErrorCode::kInvalidGraph);
}

TEST(ExecByteMatmul, RefusesWhatItHasNoKernelFor) {
  EXPECT_EQ(code_of_form({}), ctxgen::test::kOk);
  for (const std::int64_t size :
       {std::int64_t{-1}, std::int64_t{0}, std::int64_t{75}, std::int64_t{1} << 31}) {
    EXPECT_EQ(code_of_form({.k = size}), ErrorCode::kInvalidGraph) << size;
    EXPECT_EQ(code_of_form({.n = size}), ErrorCode::kInvalidGraph) << size;
  }
  EXPECT_EQ(code_of_form({.k = std::int64_t{1} << 40}), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of_form({.zeros = 0}), ErrorCode::kInvalidGraph);  // more bytes than that has
  EXPECT_EQ(code_of_form({.a = {2, 71}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({.a = {}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({.zero = {2}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({.scale = {2}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({.scales = {36}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({.bias = {1}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({}, Tensor::allocate(DataType::kUint8, {64}).value()),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_form({}, Tensor::allocate(DataType::kInt8, packed_matrix().dims()).value()),
            ErrorCode::kUnsupported);
  Maker sums = product({});  // with scales
  sums.program().values[sums.program().outputs[0]].type = DataType::kInt32;
  EXPECT_EQ(code_of(compile_and_run_typed(sums)), ErrorCode::kUnsupported);
  Maker other = product({});  // a zero point of another type than what it is subtracted from
  other.program().values[other.program().inputs[1]].type = DataType::kInt8;
  other.inputs()[1] = bytes_tensor(DataType::kInt8, {}, 1);
  EXPECT_EQ(code_of(compile_and_run_typed(other)), ErrorCode::kUnsupported);
}

// ---- dynamic_quantize ----

/// Outputs: scale, zero point, bytes.
Maker quantizing(Tensor x, std::size_t outputs = 3) {
  Maker maker(1);
  const Operand first = maker.op(kind::kDynamicQuantize, {maker.input(std::move(x))});
  Program& program = maker.program();
  program.ops[0].outputs = {first.index};
  for (std::size_t i = 1; i < outputs; ++i) {
    program.ops[0].outputs.push_back(static_cast<std::uint32_t>(program.values.size()));
    program.values.push_back({.name = i == 1 ? "zero" : "bytes",
                              .type = DataType::kUint8,
                              .dims = {},
                              .has_rank = false});
  }
  for (const std::uint32_t value : program.ops[0].outputs) maker.output(Operand::value(value));
  return maker;
}

TEST(ExecDynamicQuantize, RoundsByTheRangeOfItsSource) {
  Tensor x = Tensor::allocate(DataType::kFloat, {2, 3}).value();
  float next = -1;
  for (float& value : x.mutable_elements<float>()) value = next++;
  Maker maker = quantizing(std::move(x));
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ((*results)[0].dims(), Dims{});
  EXPECT_EQ((*results)[0].elements<float>()[0], 5.0F / 255.0F);
  EXPECT_EQ((*results)[1].elements<std::uint8_t>()[0], 51);
  EXPECT_EQ((*results)[2].dims(), (Dims{2, 3}));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ((*results)[2].elements<std::uint8_t>()[i], 51 * i);
}

TEST(ExecDynamicQuantize, OfNothingHasAScale) {
  Maker maker = quantizing(Tensor::allocate(DataType::kFloat, {0, 3}).value());
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ((*results)[0].elements<float>()[0], 1.0F);
  EXPECT_EQ((*results)[1].elements<std::uint8_t>()[0], 0);
  EXPECT_EQ((*results)[2].dims(), (Dims{0, 3}));
}

TEST(ExecDynamicQuantize, HasThreeOutputs) {
  for (const std::size_t outputs : {1, 2, 4}) {
    Maker maker = quantizing(Tensor::allocate(DataType::kFloat, {4}).value(), outputs);
    EXPECT_NE(code_of(compile_and_run_typed(maker)), ctxgen::test::kOk) << outputs;
  }
}

TEST(ExecDynamicQuantize, CountsAsQuantising) {
  const auto* rounds = dynamic_cast<const KnowsRounding*>(&loader());
  ASSERT_NE(rounds, nullptr);
  Maker quantize = quantizing(Tensor::allocate(DataType::kFloat, {4}).value());
  EXPECT_TRUE(rounds->rounding_of(quantize.program(), quantize.program().ops[0]).quantises);
  for (const bool real : {false, true}) {
    Maker maker = product({.real = real});
    const OpRounding rounding = rounds->rounding_of(maker.program(), maker.program().ops[0]);
    EXPECT_FALSE(rounding.quantises);
    EXPECT_EQ(rounding.roundings, real ? 4 : 0);
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
