#include <algorithm>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "reference.h"

// Buffers that several values share: where a wrong life or a wrong overwrite would show.
namespace ctxgen::onednn::test {
namespace {

const std::vector<Param> kSame{ints("pads", {1, 1, 1, 1})};

Operand conv3(Maker& maker, Operand src, std::int64_t in, std::int64_t out,
              std::vector<PostOp> post_ops = {}) {
  return maker.op(kind::kConv, {src, maker.weight(Dims{out, in, 3, 3}), maker.weight(Dims{out})},
                  kSame, std::move(post_ops));
}

std::size_t count_steps(const std::vector<OpTiming>& timings, std::string_view implementation) {
  return static_cast<std::size_t>(std::ranges::count_if(
      timings, [&](const OpTiming& t) { return t.implementation.starts_with(implementation); }));
}

TEST(ExecLayout, ResidualSumRunsInPlace) {
  Maker maker(1);
  const Operand stem = conv3(maker, maker.input(Dims{1, 3, 12, 12}), 3, 16, {unary("relu")});
  const Operand branch = conv3(maker, stem, 16, 16, {unary("relu")});
  const Operand joined = conv3(maker, branch, 16, 16, {binary("add", stem), unary("relu")});
  maker.output(maker.op(kind::kGlobalPool, {joined}, {text("mode", "avg")}));
  expect_matches_reference(maker);
  std::vector<OpTiming> timings;
  ASSERT_TRUE(compile_and_run(maker, &timings));
  // One copy to channels-last at the entry, then primitives only.
  EXPECT_EQ(timings.size(), 5U);
}

TEST(ExecLayout, SumIsNotInPlaceWhenTheOperandLivesOn) {
  Maker maker(2);
  const Operand stem = conv3(maker, maker.input(Dims{1, 3, 9, 9}), 3, 8);
  const Operand first = conv3(maker, stem, 8, 8, {binary("add", stem)});
  const Operand second = conv3(maker, first, 8, 8, {binary("add", stem), unary("relu")});
  maker.output(second);
  maker.output(first);
  expect_matches_reference(maker);
}

TEST(ExecLayout, SumWhoseOperandIsTheSourceItself) {
  Maker maker(3);
  const Operand stem = conv3(maker, maker.input(Dims{1, 4, 9, 9}), 4, 8);
  maker.output(conv3(maker, stem, 8, 8, {binary("add", stem)}));
  expect_matches_reference(maker);
}

TEST(ExecLayout, SumThroughAView) {
  Maker maker(4);
  const Operand a = maker.op(kind::kMatmul, {maker.input(Dims{6, 8}), maker.weight(Dims{8, 12})});
  const Operand view = maker.op(kind::kReshape, {a}, {ints("shape", {2, 3, 12})});
  const Operand back = maker.op(kind::kReshape, {view}, {ints("shape", {6, 12})});
  const Operand b = maker.op(kind::kMatmul, {maker.input(Dims{6, 8}), maker.weight(Dims{8, 12})},
                             {}, {binary("add", back)});
  maker.output(b);
  maker.output(view);
  expect_matches_reference(maker);
}

TEST(ExecLayout, SumOfInputsNeverWritesThem) {
  Maker maker(5);
  const Operand residual = maker.input(Dims{1, 8, 6, 6});
  maker.output(conv3(maker, maker.input(Dims{1, 4, 6, 6}), 4, 8, {binary("add", residual)}));
  const Operand x = maker.input(Dims{5, 7});
  maker.output(maker.op(kind::kBinary, {x, x}, {text("alg", "add")}, {unary("relu")}));
  const std::vector<std::byte> before(maker.inputs()[0].bytes().begin(),
                                      maker.inputs()[0].bytes().end());
  expect_matches_reference(maker);
  EXPECT_TRUE(std::ranges::equal(before, maker.inputs()[0].bytes()));
}

TEST(ExecLayout, BinaryWithItsOwnBroadcastView) {
  Maker maker(6);
  const Operand a = maker.op(kind::kEltwise, {maker.input(Dims{4, 4})}, {text("alg", "exp")});
  const Operand row = maker.op(kind::kReshape, {a}, {ints("shape", {16, 1})});
  maker.output(maker.op(kind::kBinary,
                        {maker.op(kind::kReshape, {a}, {ints("shape", {1, 16})}), row},
                        {text("alg", "sub")}));
  expect_matches_reference(maker);
}

/// DenseNet's block: each layer reads the concatenation of all features so far.
Operand dense_block(Maker& maker, Operand stem, bool nested) {
  std::vector<Operand> features{stem};
  std::int64_t channels = 8;
  Operand all = stem;
  for (int layer = 0; layer < 4; ++layer) {
    const Operand active = maker.op(
        kind::kScaleShift, {all, maker.weight(Dims{channels}), maker.weight(Dims{channels})}, {},
        {unary("relu")});
    features.push_back(conv3(maker, active, channels, 4));
    channels += 4;
    all = maker.op(kind::kConcat, nested ? std::vector<Operand>{all, features.back()} : features,
                   {integer("axis", 1)});
  }
  return maker.op(kind::kScaleShift,
                  {all, maker.weight(Dims{channels}), maker.weight(Dims{channels})});
}

TEST(ExecLayout, GrowingConcatCopiesOnlyWhatIsNew) {
  for (const bool nested : {false, true})
    for (const std::int64_t batch : {1, 2}) {
      Maker maker(7);
      const Operand stem = conv3(maker, maker.input(Dims{batch, 3, 8, 8}), 3, 8);
      maker.output(dense_block(maker, stem, nested));
      expect_matches_reference(maker, 2e-3);
      std::vector<OpTiming> timings;
      ASSERT_TRUE(compile_and_run(maker, &timings));
      // The stem once and four new features.
      EXPECT_EQ(count_steps(timings, "loop:copy"),
                5U + 1U /* small input to channels-last */ + 1U /* output to plain */)
          << "nested " << nested << " batch " << batch;
    }
}

TEST(ExecLayout, ConcatOfMixedLayoutsAndSharedReaders) {
  Maker maker(8);
  const Operand image = maker.input(Dims{1, 6, 8, 8});
  const Operand a = conv3(maker, image, 6, 8);
  const Operand b = maker.op(kind::kEltwise, {image}, {text("alg", "tanh")});
  const Operand one = maker.op(kind::kConcat, {a, b}, {integer("axis", 1)});
  const Operand two = maker.op(kind::kConcat, {a, b, one}, {integer("axis", 1)});
  maker.output(conv3(maker, one, 14, 4));
  maker.output(conv3(maker, two, 28, 4));
  maker.output(one);
  expect_matches_reference(maker);
}

TEST(ExecLayout, ChannelsLastModelsTransposeForFree) {
  Maker maker(9);
  const Operand nhwc = maker.input(Dims{1, 10, 12, 5});
  const Operand nchw = maker.op(kind::kTranspose, {nhwc}, {ints("perm", {0, 3, 1, 2})});
  const Operand conv = conv3(maker, nchw, 5, 7);
  maker.output(maker.op(kind::kTranspose, {conv}, {ints("perm", {0, 2, 3, 1})}));
  expect_matches_reference(maker);
  std::vector<OpTiming> timings;
  ASSERT_TRUE(compile_and_run(maker, &timings));
  EXPECT_EQ(timings.size(), 1U);
}

TEST(ExecLayout, OutputsThatAreInputsWeightsOrRepeated) {
  Maker maker(10);
  const Operand input = maker.input(Dims{2, 3, 4});
  const Operand sum = maker.op(kind::kBinary, {input, maker.weight(Dims{4})}, {text("alg", "add")});
  maker.output(sum);
  maker.output(maker.op(kind::kIdentity, {sum}));
  maker.output(maker.op(kind::kReshape, {sum}, {ints("shape", {24})}));
  maker.output(maker.op(kind::kIdentity, {input}));
  maker.output(maker.op(kind::kIdentity, {maker.weight(Dims{5})}));
  expect_matches_reference(maker);
}

TEST(ExecLayout, OneDimensionalSignalsKeepChannelsLast) {
  Maker maker(11);
  Operand x = maker.input(Dims{2, 3, 40});
  for (const auto& [in, out] : {std::pair{3, 8}, std::pair{8, 8}})
    x = maker.op(kind::kConv, {x, maker.weight(Dims{out, in, 5})}, {ints("pads", {2, 2})},
                 {unary("relu")});
  const Operand wide = maker.op(kind::kUnsqueeze, {x}, {ints("axes", {3})});
  maker.output(
      maker.op(kind::kConv, {wide, maker.weight(Dims{4, 8, 3, 1})}, {ints("pads", {1, 0, 1, 0})}));
  expect_matches_reference(maker);
}

TEST(ExecLayout, EmptyTensorsFlowThrough) {
  Maker maker(12);
  const Operand empty = maker.input(Dims{0, 4});
  maker.output(maker.op(kind::kMatmul, {empty, maker.weight(Dims{4, 3})}));
  maker.output(maker.op(kind::kConcat, {empty, maker.input(Dims{2, 4})}, {integer("axis", 0)}));
  const auto outputs = compile_and_run(maker);
  ASSERT_TRUE(outputs) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].size(), 0U);
  EXPECT_EQ((*outputs)[1].size(), 8U);
}

}  // namespace
}  // namespace ctxgen::onednn::test
