#include "kinds/own/own_product.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/op_kinds.h"

#include "layout/weight_layout.h"
#include "plan/reorder_weight.h"
#include "reference.h"
#include "rules/spatial.h"

// Convolutions whose weights the file has in panels: where oneDNN would have chosen others, they run by
// kernels::multiply_panels().
namespace ctxgen::onednn::test {
namespace {

using Tag = dnnl::memory::format_tag;
const auto kF32 = dnnl::memory::data_type::f32;

bool has_own_products() { return simd_level() >= SimdLevel::kAvx2; }

struct PanelTags {
  std::int64_t columns;
  Tag one, grouped;
};
const std::vector<PanelTags> kPanelTags{{16, Tag::Acdb16a, Tag::aBdec16b},
                                        {32, Tag::Acdb32a, Tag::aBdec32b},
                                        {48, Tag::Acdb48a, Tag::aBdec48b},
                                        {64, Tag::Acdb64a, Tag::aBdec64b}};

/// The program with the weights of all convolutions in panels, as of a file without plans.
Packed in_panels(Maker& maker, const PanelTags& tags) {
  Packed packed = pack(maker, {maker.input_dims()}).value();
  packed.program.plans.clear();
  for (const ProgramOp& op : packed.program.ops) {
    if (op.kind != kind::kConv) continue;
    const std::uint32_t index = op.inputs[1].index;
    std::int64_t group = 1;
    for (const ProgramParam& param : op.params)
      if (param.name == "group") group = std::get<std::int64_t>(param.value);
    const Dims dims = weight_dims(maker.weights()[index].dims(), group);
    const dnnl::memory::desc wanted(to_dnnl(dims), kF32, group == 1 ? tags.one : tags.grouped);
    auto bytes = std::make_shared<const AlignedBytes>(
        reorder_weight(maker.weights()[index].bytes().data(), make_md(dims, plain_strides(dims)),
                       wanted)
            .value());
    const std::span<const std::byte> view(bytes->data(), wanted.get_size());
    packed.program.weights[index].packed = {
        {encode_layout(wanted, false).value(),
         BlobIndex{packed.store->add(Blob{std::move(bytes), view}).value().value}}};
  }
  return packed;
}

void expect_close(const Outputs& actual, const std::vector<std::vector<double>>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    ASSERT_EQ(actual[k].size(), expected[k].size());
    for (std::size_t i = 0; i < expected[k].size(); ++i)
      ASSERT_LE(std::fabs(actual[k][i] - expected[k][i]), 2e-4 * (1 + std::fabs(expected[k][i])))
          << "output " << k << " element " << i;
  }
}

/// Compares with the reference for all panels; returns how many steps were products of our own.
std::size_t run_in_panels(Maker& maker) {
  const auto expected = reference(maker);
  std::size_t own = 0;
  for (const PanelTags& tags : kPanelTags) {
    SCOPED_TRACE(tags.columns);
    const Packed packed = in_panels(maker, tags);
    const auto loaded =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, nullptr).value();
    std::vector<OpTiming> timings;
    const auto outputs = run(*loaded, maker.inputs(), &timings);
    EXPECT_TRUE(outputs) << outputs.error().message;
    if (outputs) expect_close(*outputs, expected);
    if (has_own_products()) {
      EXPECT_EQ(loaded->plan_statistics().repacked_weights, 0U);
    }
    own += static_cast<std::size_t>(std::ranges::count_if(
        timings, [](const OpTiming& t) { return t.implementation == "loop:product"; }));
  }
  return own;
}

struct ConvCase {
  Dims src, weights;
  std::vector<std::int64_t> strides, dilations, pads;
  std::int64_t group = 1;
};

TEST(OwnProduct, ConvolutionsOfEveryWindow) {
  const std::vector<ConvCase> cases{
      {{2, 16, 9, 11}, {24, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {{1, 32, 14, 13}, {70, 32, 3, 3}, {2, 2}, {1, 1}, {1, 0, 0, 1}},
      {{1, 20, 17, 6}, {33, 20, 5, 2}, {1, 3}, {2, 3}, {4, 1, 4, 2}},
      {{3, 48, 8, 8}, {100, 48, 1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
      {{2, 40, 7, 5}, {64, 40, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{1, 16, 2, 3}, {16, 16, 1, 1}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
      {{2, 24, 50}, {40, 24, 7}, {2}, {1}, {3, 3}},
      {{1, 17, 1, 1}, {9, 17, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {{1, 3, 33, 21}, {24, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3, 3, 3}},
      {{1, 1, 9, 9}, {12, 1, 2, 3}, {1, 1}, {3, 2}, {1, 1, 1, 1}},
      {{2, 48, 9, 7}, {72, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3},
      {{1, 40, 30}, {80, 20, 5}, {2}, {1}, {2, 2}, 2},
      {{2, 24, 50, 1}, {40, 24, 7, 1}, {2, 1}, {1, 1}, {3, 0, 3, 0}},
      {{1, 16, 30, 1}, {24, 16, 5, 1}, {1, 2}, {2, 1}, {4, 0, 0, 0}},
      {{1, 16, 30, 1}, {24, 16, 5, 1}, {1, 1}, {1, 1}, {0, 1, 2, 1}},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(to_string(c.src) + " " + to_string(c.weights));
    Maker maker(1);
    const Operand x = maker.input(c.src);
    maker.output(maker.op(kind::kConv,
                          {x, maker.weight(c.weights), maker.weight(Dims{c.weights[0]})},
                          {ints("strides", c.strides), ints("dilations", c.dilations),
                           ints("pads", c.pads), integer("group", c.group)}));
    const std::size_t own = run_in_panels(maker);
    EXPECT_EQ(own > 0, has_own_products());
  }
}

/// Whatever number of threads takes the parts, each with scratch of its own.
TEST(OwnProduct, WinogradIsTheSameWithAnyThreads) {
  if (!has_own_products()) GTEST_SKIP() << "own products need avx2";
  Maker maker(2);
  const Operand x = maker.input(Dims{2, 40, 27, 31});
  const Operand sum = maker.input(Dims{2, 72, 27, 31});
  maker.output(maker.op(kind::kConv, {x, maker.weight(Dims{72, 40, 3, 3}), maker.weight(Dims{72})},
                        {ints("pads", {1, 1, 1, 1})}, {binary("add", sum), unary("gelu_tanh")}));
  const auto expected = reference(maker);
  const Packed packed = in_panels(maker, kPanelTags[0]);
  std::vector<Outputs> found;
  for (const int threads : {1, 3, 8}) {
    const auto loaded =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{threads}, nullptr).value();
    std::vector<OpTiming> timings;
    found.push_back(run(*loaded, maker.inputs(), &timings).value());
    EXPECT_TRUE(std::ranges::any_of(
        timings, [](const OpTiming& t) { return t.implementation == "loop:winograd"; }));
    expect_close(found.back(), expected);
    EXPECT_EQ(found.back(), found.front());
  }
}

/// Threads have rows of all groups.
TEST(OwnProduct, GroupsAreTheSameWithAnyThreads) {
  if (!has_own_products()) GTEST_SKIP() << "own products need avx2";
  Maker maker(8);
  const Operand x = maker.input(Dims{1, 68, 27, 31});
  maker.output(maker.op(kind::kConv, {x, maker.weight(Dims{272, 17, 1, 1})}, {integer("group", 4)},
                        {unary("gelu_tanh")}));
  const auto expected = reference(maker);
  const Packed packed = in_panels(maker, kPanelTags[0]);
  std::vector<Outputs> found;
  for (const int threads : {1, 2, 3, 8}) {
    const auto loaded =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{threads}, nullptr).value();
    found.push_back(run(*loaded, maker.inputs()).value());
    expect_close(found.back(), expected);
    EXPECT_EQ(found.back(), found.front());
  }
}

/// Both lie in memory alike.
TEST(OwnProduct, ColumnsOfPixelsAreMultipliedAsLines) {
  if (!has_own_products()) GTEST_SKIP() << "own products need avx2";
  const auto outcome = [](const Dims& src, const Dims& weights, std::vector<std::int64_t> pads) {
    Maker maker(5);
    const Operand x = maker.input(src);
    maker.output(
        maker.op(kind::kConv, {x, maker.weight(weights)}, {ints("pads", std::move(pads))}));
    const Packed packed = in_panels(maker, kPanelTags[0]);
    const auto loaded =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
    std::vector<OpTiming> timings;
    const Outputs found = run(*loaded, maker.inputs(), &timings).value();
    expect_close(found, reference(maker));
    return std::pair(found, std::ranges::count_if(timings, [](const OpTiming& t) {
                       return t.implementation == "loop:product";
                     }));
  };
  const auto line = outcome({1, 256, 400}, {64, 256, 5}, {2, 2});
  EXPECT_EQ(line.second, 1);
  EXPECT_EQ(outcome({1, 256, 1, 400}, {64, 256, 1, 5}, {0, 2, 0, 2}), line);
  EXPECT_EQ(outcome({1, 256, 400, 1}, {64, 256, 5, 1}, {2, 0, 2, 0}), line);
}

/// One chain per kind of place that a post-op can take.
TEST(OwnProduct, TakesPostOps) {
  for (const std::int64_t images : {1, 2})
    for (const std::int64_t width : {1, 6})
      for (const std::int64_t channels : {24, 300}) {  // one part across, several
        SCOPED_TRACE(std::to_string(images) + " " + std::to_string(width));
        Maker maker(3);
        const Operand x = maker.input(Dims{images, 16, width, width});
        const auto conv = [&](std::vector<PostOp> post_ops, std::int64_t groups = 1) {
          const Operand w = maker.weight(Dims{channels, 16 / groups, 1, 1});
          return maker.op(kind::kConv, {x, w}, {integer("group", groups)}, std::move(post_ops));
        };
        const Operand gates = maker.input(Dims{images, channels, 1, 1});
        const Operand full = maker.input(Dims{images, channels, width, width});
        const Operand vector = maker.weight(Dims{channels, 1, 1});
        const Operand a = conv({unary("clip", -0.5F, 0.25F), binary("mul", maker.weight(Dims{1}))});
        const Operand b = conv({unary("swish", 1), binary("add", a), unary("relu")});
        const Operand c = conv({binary("add", a), unary("relu"), unary("elu", 1)});
        const Operand d = conv({binary("mul", gates), binary("min", vector)});
        const Operand e = conv({binary("add", full), unary("relu", 0.1F), binary("max", d)});
        const Operand f = conv({binary("add", vector), unary("swish", 1), binary("mul", full)}, 2);
        for (const Operand& result : {b, c, e, f}) maker.output(result);
        EXPECT_EQ(run_in_panels(maker) > 0, has_own_products());
      }
}

TEST(OwnProduct, AddsInPlace) {
  for (const std::int64_t width : {1, 9}) {
    Maker maker(4);
    const auto conv = [&](std::vector<PostOp> post_ops) {
      const Operand x = maker.input(Dims{1, 32, width, width});
      return maker.op(kind::kConv, {x, maker.weight(Dims{96, 32, 1, 1})}, {}, std::move(post_ops));
    };
    const Operand x = conv({});
    const Operand y = conv({binary("add", x), unary("tanh")});
    maker.output(conv({binary("add", y), unary("relu")}));
    EXPECT_EQ(run_in_panels(maker) > 0, has_own_products());
  }
}

/// Constant matrices times few rows, as the table packs them; the steps that ran by streams.
std::size_t streams_of(Maker& maker) {
  std::vector<OpTiming> timings;
  const Outputs outputs = compile_and_run(maker, &timings).value();
  expect_close(outputs, reference(maker));
  return static_cast<std::size_t>(std::ranges::count_if(timings, [](const OpTiming& timing) {
    return timing.implementation == "loop:product" && timing.bytes > 16 * 8 * sizeof(float);
  }));
}

TEST(OwnProduct, FewRowsAndSmallMatricesComeFirst) {
  for (const std::int64_t rows : {1, 2, 3, 5, 7, 40})
    for (const std::int64_t columns : {8, 16, 50, 96, 130})
      for (const bool trans_b : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns");
        Maker maker(static_cast<unsigned>(rows * 1000 + columns));
        const Operand x = maker.input(Dims{1, rows, 70});
        const Operand seventy = maker.weight(trans_b ? Dims{columns, 70} : Dims{70, columns});
        const Operand y = maker.op(kind::kMatmul, {x, seventy, maker.weight(Dims{columns})},
                                   {integer("trans_b", trans_b)}, {unary("gelu_erf")});
        const Operand more = maker.input(Dims{1, rows, columns});
        maker.output(maker.op(kind::kMatmul, {y, maker.weight(Dims{columns, columns})}, {},
                              {binary("add", more), unary("relu")}));
        const auto is_own = [&](std::int64_t depth) {
          return has_own_products() &&
                 (rows <= kernels::most_stream_rows() || rows * depth * columns <= 1 << 18);
        };
        // The second matrix is too small to be packed where its rows are fewer than 16.
        EXPECT_EQ(streams_of(maker), (is_own(70) ? 1U : 0U) + (columns >= 16 && is_own(columns)));
      }
}

TEST(OwnProduct, ComesFirstForDeepMatricesWithAvx512) {
  Maker maker(12);
  const Operand x = maker.input(Dims{2, 60, 300});
  const Operand y = maker.op(kind::kMatmul, {x, maker.weight(Dims{300, 70})});
  maker.output(maker.op(kind::kMatmul, {y, maker.weight(Dims{70, 40})}));
  EXPECT_EQ(streams_of(maker), simd_level() >= SimdLevel::kAvx512 ? 1U : 0U);
}

/// Not in this way: a transposed source, and a batch of matrices.
TEST(OwnProduct, StreamsAreForRowsOnly) {
  Maker transposed(8);
  const Operand x = transposed.input(Dims{64, 2});
  transposed.output(
      transposed.op(kind::kMatmul, {x, transposed.weight(Dims{64, 40})}, {integer("trans_a", 1)}));
  EXPECT_EQ(streams_of(transposed), 0U);
  Maker batch(9);
  const Operand b = batch.input(Dims{3, 1, 64});
  batch.output(batch.op(kind::kMatmul, {b, batch.weight(Dims{3, 64, 40})}));
  EXPECT_EQ(streams_of(batch), 0U);
}

/// oneDNN takes the packing with a kernel for AVX2 where it has none for AVX-512.
TEST(OwnProduct, NoConvolutionHasNarrowVectors) {
  if (!includes(usable_instruction_set(), InstructionSet::kAvx512Core))
    GTEST_SKIP() << "no wider vectors than AVX2's";
  for (const std::int64_t pixels : {15, 28, 41})
    for (const std::int64_t channels : {64, 256, 512})
      for (const std::int64_t kernel : {1, 3}) {
        SCOPED_TRACE(std::to_string(pixels) + " pixels, " + std::to_string(channels) +
                     " channels, " + std::to_string(kernel));
        Maker maker(13);
        const Operand x = maker.input(Dims{1, channels, pixels, pixels});
        maker.output(maker.op(kind::kConv,
                              {x, maker.weight(Dims{2 * channels, channels, kernel, kernel})},
                              {ints("strides", {2, 2})}, {unary("relu")}));
        std::vector<OpTiming> timings;
        ASSERT_TRUE(compile_and_run(maker, &timings));
        for (const OpTiming& timing : timings)
          EXPECT_FALSE(timing.implementation.ends_with(":avx2")) << timing.implementation;
      }
}

TEST(OwnProduct, PanelColumns) {
  EXPECT_EQ(panel_columns({{40, 100, 3, 3}, kF32, Tag::Acdb32a}), 32);
  EXPECT_EQ(panel_columns({{2, 40, 100, 3, 3}, kF32, Tag::aBdec64b}), 64);
  EXPECT_EQ(panel_columns({{40, 100}, kF32, Tag::BA16a48b}), 48);
  EXPECT_EQ(panel_columns({{40, 100}, kF32, Tag::BA8a8b}), std::nullopt);
  EXPECT_EQ(panel_columns({{40, 100}, kF32, Tag::ab}), std::nullopt);
  EXPECT_EQ(panel_columns({{40, 100}, kF32, Tag::any}), std::nullopt);
  EXPECT_EQ(panel_columns({{40, 100, 3, 3}, kF32, Tag::ABcd16b16a}), std::nullopt);
  EXPECT_EQ(panel_columns({{40, 100, 3}, kF32, Tag::Acb32a}), std::nullopt);
  const dnnl::memory::desc half({40, 100, 3, 3}, dnnl::memory::data_type::f16, Tag::Acdb32a);
  EXPECT_EQ(panel_columns(half), 32);
  const dnnl::memory::desc bytes({40, 100, 3, 3}, dnnl::memory::data_type::s8, Tag::Acdb32a);
  EXPECT_EQ(panel_columns(bytes), std::nullopt);
}

}  // namespace
}  // namespace ctxgen::onednn::test
