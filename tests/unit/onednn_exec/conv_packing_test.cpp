#include "layout/conv_packing.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "plan/omp_workers.h"
#include "plan/planner.h"
#include "program_maker.h"
#include "reference.h"

// One file serves every image and number of threads: the stored form of a convolution's weights
// depends on the weights and the instruction set.
namespace ctxgen::onednn::test {
namespace {

using Tag = dnnl::memory::format_tag;
constexpr auto kAvx2 = InstructionSet::kAvx2;
constexpr auto kAvx512 = InstructionSet::kAvx512Core;

std::optional<Tag> of_results(std::int64_t m, InstructionSet usable) {
  return conv_packing({.dims = Dims{m, 24, 3, 3}}, usable);
}

std::optional<Tag> of_groups(const Dims& dims, InstructionSet usable) {
  return conv_packing({.dims = dims, .grouped = true}, usable);
}

TEST(ConvPacking, IsInPanels) {
  EXPECT_EQ(of_results(12, kAvx512), Tag::Acdb16a);
  EXPECT_EQ(of_results(24, kAvx512), Tag::Acdb32a);
  EXPECT_EQ(of_results(40, kAvx512), Tag::Acdb48a);  // others would store 64 channels
  EXPECT_EQ(of_results(64, kAvx512), Tag::Acdb64a);
  EXPECT_EQ(of_results(80, kAvx512), Tag::Acdb32a);
  EXPECT_EQ(of_results(128, kAvx512), Tag::Acdb64a);
  EXPECT_EQ(of_results(192, kAvx512), Tag::Acdb48a);
  EXPECT_EQ(of_results(256, kAvx512), Tag::Acdb32a);
  for (const std::int64_t m : {8, 12, 24, 64, 256})
    EXPECT_EQ(of_results(m, kAvx2), Tag::Acdb16a) << m;
  const ConvWeights short_windows{.dims = Dims{32, 3, 3, 3}};
  EXPECT_EQ(conv_packing(short_windows, kAvx2), Tag::Acdb32a);
  EXPECT_EQ(of_groups(Dims{2, 64, 32, 3, 3}, kAvx512), Tag::aBdec64b);
  EXPECT_EQ(of_groups(Dims{2, 64, 32, 3, 3}, kAvx2), Tag::aBdec16b);
  EXPECT_EQ(of_results(64, InstructionSet::kSse41), std::nullopt);
}

TEST(ConvPacking, IsOneDnnsWhereThereAreNoPanels) {
  EXPECT_EQ(of_results(3, kAvx512), Tag::Acdb16a);
  EXPECT_EQ(of_results(3, kAvx2), Tag::Acdb8a);
  EXPECT_EQ(of_groups(Dims{72, 1, 1, 5, 5}, kAvx512), Tag::decbA16a);
  EXPECT_EQ(of_groups(Dims{72, 1, 1, 5, 5}, kAvx2), Tag::decbA8a);
  EXPECT_EQ(of_groups(Dims{32, 4, 4, 3, 3}, kAvx512), Tag::aBCde4c4b);
  EXPECT_EQ(of_groups(Dims{32, 8, 8, 3, 3}, kAvx512), Tag::aBCde8c8b);
  EXPECT_EQ(of_groups(Dims{32, 12, 12, 3, 3}, kAvx512), Tag::aBCde16c16b);
  EXPECT_EQ(of_groups(Dims{32, 8, 8, 3, 3}, kAvx2), Tag::aBdec8b);
  EXPECT_EQ(of_groups(Dims{32, 12, 12, 3, 3}, kAvx2), Tag::aBdec16b);
  EXPECT_EQ(of_groups(Dims{32, 2, 1, 3, 3}, kAvx2), std::nullopt);  // more results than channels
  EXPECT_EQ(conv_packing({.dims = Dims{64, 16, 3, 3, 3}}, kAvx512), Tag::Acdeb64a);
  EXPECT_EQ(conv_packing({.dims = Dims{64, 16, 3, 3, 3}}, kAvx2), Tag::Acdeb32a);
  const auto transposed = [](std::int64_t m, InstructionSet usable) {
    return conv_packing({.dims = Dims{m, 16, 2, 2}, .transposed = true}, usable);
  };
  EXPECT_EQ(transposed(3, kAvx2), Tag::Acdb8a);
  EXPECT_EQ(transposed(64, kAvx2), Tag::Acdb32a);
  EXPECT_EQ(transposed(64, kAvx512), Tag::Acdb64a);
}

TEST(ConvPacking, OfBytes) {
  const auto bytes = [](std::int64_t m, InstructionSet usable) {
    return conv_packing(
        {.dims = Dims{m, 16, 3, 3}, .type = DataType::kInt8, .source = DataType::kUint8}, usable);
  };
  EXPECT_EQ(bytes(12, kAvx512), Tag::AcdB16a4b);
  EXPECT_EQ(bytes(96, kAvx512), Tag::AcdB48a4b);
  EXPECT_EQ(bytes(512, kAvx512), Tag::AcdB64a4b);
  EXPECT_EQ(bytes(144, InstructionSet::kAvx2Vnni), Tag::AcdB24a4b);
  EXPECT_EQ(bytes(512, InstructionSet::kAvx2Vnni), Tag::AcdB32a4b);
  EXPECT_EQ(
      conv_packing({.dims = Dims{16, 16, 3, 3}, .type = DataType::kInt8, .source = DataType::kInt8},
                   kAvx512),
      std::nullopt);  // sums of the weights go with them
}

TEST(ConvPacking, IsInTilesWithAmx) {
  const auto tiles = [](DataType type, const Dims& dims) {
    const DataType source = type == DataType::kInt8 ? DataType::kUint8 : type;
    return conv_packing({.dims = dims, .type = type, .source = source},
                        InstructionSet::kAvx512CoreAmx);
  };
  constexpr auto kBytes = DataType::kInt8, kPairs = DataType::kBfloat16;
  EXPECT_EQ(tiles(kBytes, Dims{256, 64, 1, 1}), Tag::AcdB64a4b);  // as many channels as a tile
  EXPECT_EQ(tiles(kBytes, Dims{256, 128, 1, 1}), Tag::AcdB16b64a4b);
  EXPECT_EQ(tiles(kBytes, Dims{96, 384, 1, 1}), Tag::AcdB16b48a4b);
  EXPECT_EQ(tiles(kBytes, Dims{16, 32, 1, 1}), Tag::AcdB16a4b);
  EXPECT_EQ(tiles(kBytes, Dims{128, 128, 3, 3}), Tag::AcdB16b32a4b);
  EXPECT_EQ(tiles(kPairs, Dims{64, 32, 1, 1}), Tag::AcdB64a2b);
  EXPECT_EQ(tiles(kPairs, Dims{512, 256, 1, 1}), Tag::AcdB16b64a2b);
  EXPECT_EQ(tiles(kPairs, Dims{64, 64, 3, 3}), Tag::AcdB16b16a2b);
  EXPECT_EQ(tiles(kPairs, Dims{256, 256, 3, 3}), Tag::AcdB16b32a2b);
  EXPECT_EQ(tiles(DataType::kFloat, Dims{128, 128, 3, 3}), Tag::Acdb64a);  // not of tiles
}

/// Convolutions of every row of the table that serves all numbers of threads.
Maker network(std::int64_t size) {
  Maker maker(6);
  const std::vector<Param> same{ints("pads", {1, 1, 1, 1})};
  const auto grouped = [&](std::int64_t group) {
    return std::vector<Param>{ints("pads", {1, 1, 1, 1}), integer("group", group)};
  };
  Operand y = maker.input(Dims{1, 3, size, size});
  y = maker.op(kind::kConv, {y, maker.weight(Dims{64, 3, 7, 7})},
               {ints("pads", {3, 3, 3, 3}), ints("strides", {2, 2})});
  y = maker.op(kind::kConv, {y, maker.weight(Dims{80, 64, 3, 3})}, same, {unary("relu")});
  y = maker.op(kind::kConv, {y, maker.weight(Dims{128, 40, 3, 3})}, grouped(2));
  y = maker.op(kind::kConv, {y, maker.weight(Dims{128, 1, 3, 3})}, grouped(128));
  y = maker.op(kind::kConv, {y, maker.weight(Dims{128, 8, 3, 3})}, grouped(16));
  y = maker.op(kind::kConv, {y, maker.weight(Dims{24, 128, 1, 1})});
  maker.output(maker.op(kind::kConv, {y, maker.weight(Dims{3, 24, 3, 3})}, same));
  return maker;
}

std::vector<std::vector<std::byte>> layouts_of(const Program& program) {
  std::vector<std::vector<std::byte>> layouts;
  for (const ProgramWeight& weight : program.weights) {
    EXPECT_EQ(weight.packed.size(), 1U);
    layouts.push_back(weight.packed.front().layout);
  }
  return layouts;
}

TEST(ConvPacking, OneFormServesEverySizeAndNumberOfThreads) {
  std::vector<std::vector<std::byte>> first;
  for (const std::int64_t size : {7, 28, 80}) {
    Maker maker = network(size);
    const Packed packed = pack(maker, {maker.input_dims()}).value();
    const auto layouts = layouts_of(packed.program);
    if (first.empty()) first = layouts;
    EXPECT_EQ(layouts, first) << size << " pixels";
    for (const int threads : {1, 2, 16, 64}) {
      const auto loaded =
          loader().load(packed.shared(), packed.blobs(), LoadOptions{threads}, nullptr).value();
      Maker larger = network(size + 6);
      ASSERT_TRUE(run(*loaded, larger.inputs()));  // a size that was not planned
      EXPECT_EQ(loaded->plan_statistics().repacked_weights, 0U) << threads << " threads";
    }
  }
}

/// What oneDNN is left to choose would depend on the machine that compiles.
TEST(ConvPacking, LeavesNothingToOneDnn) {
  if (!includes(usable_instruction_set(), InstructionSet::kAvx2))
    GTEST_SKIP() << "tables begin at AVX2";
  for (const int threads : {1, 3, 64}) {
    Maker maker = network(56);
    const OmpThreads scope(threads);
    const std::vector<Dims> dims = maker.input_dims();
    const Plan plan = make_plan({.program = maker.program(),
                                 .input_dims = dims,
                                 .forms = nullptr,
                                 .choices = {},
                                 .threads = threads,
                                 .create_primitives = false})
                          .value();
    ASSERT_EQ(plan.packed.size(), 7U);
    for (const PackedUse& use : plan.packed) EXPECT_FALSE(use.library_choice) << use.op;
  }
}

TEST(ConvPacking, AgreesWithTheReference) {
  Maker maker = network(15);
  expect_matches_reference(maker);
}

}  // namespace
}  // namespace ctxgen::onednn::test
