#include <cmath>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "ctxgen/base/half.h"
#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "reference.h"

// Products and convolutions of bf16 values by bf16 weights, and what lies between them.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;
constexpr DataType kBf16 = DataType::kBfloat16;

bool multiplies_bf16() {
  return includes(usable_instruction_set(), InstructionSet::kAvx512CoreBf16);
}

float rounded(float x) { return bfloat16_to_float(float_to_bfloat16(x)); }

void round_floats(Tensor& tensor) {
  Tensor made = Tensor::allocate(DataType::kFloat, tensor.dims()).value();
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    float x = 0;
    std::memcpy(&x, tensor.bytes().data() + 4 * i, 4);
    x = rounded(x);
    std::memcpy(made.mutable_bytes().data() + 4 * i, &x, 4);
  }
  tensor = std::move(made);
}

Tensor as_bf16(const Tensor& tensor) {
  Tensor made = Tensor::allocate(kBf16, tensor.dims()).value();
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    float x = 0;
    std::memcpy(&x, tensor.bytes().data() + 4 * i, 4);
    const std::uint16_t bits = float_to_bfloat16(x);
    std::memcpy(made.mutable_bytes().data() + 2 * i, &bits, 2);
  }
  return made;
}

/// A program over values of bf16: inputs and outputs are f32, `point` ops convert.
class NarrowMaker {
 public:
  explicit NarrowMaker(unsigned seed) : maker_(seed) {}
  Maker& maker() { return maker_; }

  /// An input whose numbers are those of bf16, as f32 and as bf16.
  Operand input(const Dims& dims) {
    const Operand x = maker_.input(dims);
    round_floats(maker_.inputs().back());
    return narrow(maker_.op(kind::kPoint, {x}));
  }
  Operand weight(const Dims& dims) {
    const Operand w = maker_.weight(dims);
    round_floats(maker_.weights()[w.index]);
    narrow_weights_.push_back(w.index);
    return w;
  }
  Operand narrow(const Operand& value) {
    narrow_values_.push_back(value.index);
    return value;
  }

  /// Compares with double precision over the same program in f32 types. `units`: how many roundings to
  /// bf16, half a unit each, an element may differ by.
  void expect_close(double units) {
    const auto expected = reference(maker_);
    for (const std::uint32_t index : narrow_weights_) {
      maker_.weights()[index] = as_bf16(maker_.weights()[index]);
      maker_.program().weights[index].type = kBf16;
    }
    for (const std::uint32_t value : narrow_values_) maker_.program().values[value].type = kBf16;
    const Packed packed = pack(maker_, {maker_.input_dims()}).value();
    const auto loaded =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
    std::vector<OpTiming> timings;
    const auto outputs = run(*loaded, maker_.inputs(), &timings);
    ASSERT_TRUE(outputs) << outputs.error().message;
    for (std::size_t k = 0; k < expected.size(); ++k)
      for (std::size_t i = 0; i < expected[k].size(); ++i)
        ASSERT_LE(std::fabs((*outputs)[k][i] - expected[k][i]),
                  (units * 0x1p-9 + 1e-4) * (1 + std::fabs(expected[k][i])))
            << "output " << k << " element " << i;
    EXPECT_EQ(loaded->plan_statistics().repacked_weights, 0U);
    for (const OpTiming& timing : timings)
      EXPECT_EQ(timing.implementation.find("ref"), std::string::npos) << timing.implementation;
  }

 private:
  Maker maker_;
  std::vector<std::uint32_t> narrow_weights_, narrow_values_;
};

/// f32 sums of products that are exact: only the order of the sums differs.
TEST(NarrowProducts, OfMatricesAreSummedInF32) {
  if (!multiplies_bf16()) GTEST_SKIP() << "no AVX512_BF16";
  for (const std::int64_t rows : {1, 5, 16})
    for (const Dims& matrix :
         {Dims{16, 8}, Dims{300, 66}, Dims{77, 64}, Dims{1100, 17}, Dims{2100, 32}, Dims{7, 5}})
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + to_string(matrix));
        NarrowMaker made(1);
        const Operand x = made.input(Dims{rows, matrix[0]});
        const Operand w = made.weight(transposed ? Dims{matrix[1], matrix[0]} : matrix);
        Maker& maker = made.maker();
        const Operand bias = maker.weight(Dims{matrix[1]});
        const Operand sum = maker.input(Dims{rows, matrix[1]});
        const std::vector<Param> params{integer("trans_b", transposed ? 1 : 0)};
        maker.output(maker.op(kind::kMatmul, {x, w, bias}, params, {unary("relu")}));
        maker.output(maker.op(kind::kMatmul, {x, w}, params, {binary("add", sum), unary("tanh")}));
        made.expect_close(0);
      }
}

TEST(NarrowProducts, MayGiveNarrowResults) {
  if (!multiplies_bf16()) GTEST_SKIP() << "no AVX512_BF16";
  NarrowMaker made(2);
  Maker& maker = made.maker();
  const Operand x = made.input(Dims{2, 3, 40});
  const auto product = [&](Operand a, Dims matrix, std::vector<PostOp> post_ops = {}) {
    return made.narrow(maker.op(kind::kMatmul, {a, made.weight(matrix)}, {}, std::move(post_ops)));
  };
  const Operand a = product(x, Dims{40, 24}, {unary("relu")});
  const Operand b = product(a, Dims{24, 24}, {unary("linear", 0.1F, 0)});
  const Operand c = product(b, Dims{24, 24}, {unary("linear", 0.1F, 0), binary("add", a)});
  const Operand d = product(c, Dims{24, 8}, {unary("linear", 0.1F, 0), unary("gelu_erf")});
  maker.output(maker.op(kind::kPoint, {d}));
  made.expect_close(24);  // a rounding of each value, grown by at most a few terms
}

struct PairedConv {
  Dims src, weights;
  std::vector<std::int64_t> strides, pads;
  std::int64_t group = 1;
};

TEST(NarrowProducts, OfConvolutions) {
  if (!multiplies_bf16()) GTEST_SKIP() << "no AVX512_BF16";
  const std::vector<PairedConv> cases{
      {{2, 16, 9, 11}, {24, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{1, 3, 33, 21}, {64, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}},
      {{2, 40, 7, 5}, {64, 40, 1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{1, 1040, 5, 5}, {64, 1040, 1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{1, 600, 5, 5}, {64, 600, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{3, 48, 8, 8}, {100, 48, 1, 1}, {2, 2}, {0, 0, 0, 0}},
      {{2, 24, 50}, {40, 24, 7}, {2}, {3, 3}},
      {{2, 48, 9, 7}, {96, 24, 3, 3}, {1, 1}, {1, 1, 1, 1}, 2},
  };
  for (const PairedConv& c : cases) {
    SCOPED_TRACE(to_string(c.src) + " " + to_string(c.weights));
    NarrowMaker made(1);
    Maker& maker = made.maker();
    const Operand x = made.input(c.src);
    maker.output(
        maker.op(kind::kConv, {x, made.weight(c.weights), maker.weight(Dims{c.weights[0]})},
                 {ints("strides", c.strides), ints("pads", c.pads), integer("group", c.group)},
                 {unary("clip", -0.5F, 3)}));
    made.expect_close(0);
  }
}

TEST(NarrowProducts, WhatLiesBetweenReadsAndWritesBf16) {
  if (!multiplies_bf16()) GTEST_SKIP() << "no AVX512_BF16";
  NarrowMaker made(3);
  Maker& maker = made.maker();
  const Operand x = made.input(Dims{2, 16, 12, 10});
  const auto scaled = [&](Operand from) {
    return made.narrow(maker.op(kind::kScaleShift,
                                {from, maker.weight(Dims{16}), maker.weight(Dims{16})}, {},
                                {unary("relu")}));
  };
  const Operand a = scaled(x);
  const Operand pooled = made.narrow(
      maker.op(kind::kPool, {a},
               {text("mode", "max"), ints("kernel", {3, 3}), ints("strides", {2, 2}),
                ints("dilations", {1, 1}), ints("pads", {1, 1, 1, 1}), integer("ceil_mode", 0)}));
  const Operand both = made.narrow(maker.op(kind::kConcat, {pooled, pooled}, {integer("axis", 1)}));
  const Operand swapped =
      made.narrow(maker.op(kind::kTranspose, {both}, {ints("perm", {0, 2, 3, 1})}));
  maker.output(
      maker.op(kind::kPoint, {swapped}, {}, {binary("add", swapped), unary("linear", 0.5F, 1)}));
  made.expect_close(4);
}

TEST(NarrowProducts, OtherTypesAreRefused) {
  const auto code = [](DataType source, DataType weight, DataType result) {
    Maker maker(1);
    const Operand x = maker.op(kind::kPoint, {maker.input(Dims{2, 20})});
    const Operand w = maker.weight(Dims{20, 30});
    maker.weights()[w.index] = Tensor::allocate(weight, Dims{20, 30}).value();
    maker.program().weights[w.index].type = weight;
    const Operand y = maker.op(kind::kMatmul, {x, w});
    maker.program().values[x.index].type = source;
    maker.program().values[y.index].type = result;
    maker.output(maker.op(kind::kPoint, {y}));
    return code_of(compile_and_run(maker));
  };
  const DataType f16 = DataType::kFloat16, f32 = DataType::kFloat;
  EXPECT_EQ(code(kBf16, f32, f32), ErrorCode::kUnsupported);
  EXPECT_EQ(code(kBf16, f16, f32), ErrorCode::kUnsupported);
  EXPECT_EQ(code(kBf16, kBf16, f16), ErrorCode::kUnsupported);
  EXPECT_EQ(code(f32, f32, kBf16), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ctxgen::onednn::test
