// Files of another version of oneDNN: stored forms mean the same in all of a major version.
#include <array>
#include <cstdlib>
#include <utility>

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/ctxfile/packed_at_load.h"
#include "ctxgen/onednn/op_kinds.h"

#include "golden.h"
#include "program_maker.h"
#include "reference.h"
#include "sample_context.h"

namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::golden_path;

/// Packed with AVX2 by what says that it is oneDNN 3.0.0.
constexpr std::string_view kGoldenPacked = "v1_packed_avx2.ctx";
constexpr std::string_view kOtherVersion = "format=1;onednn=3.0.0;isa=avx2";

/// A convolution in panels, a depthwise one and a product.
Maker packed_network() {
  Maker maker(77);
  Operand y = maker.input(Dims{1, 8, 9, 9});
  y = maker.op(kind::kConv, {y, maker.weight(Dims{16, 8, 3, 3})}, {ints("pads", {1, 1, 1, 1})},
               {unary("relu")});
  y = maker.op(kind::kConv, {y, maker.weight(Dims{16, 1, 3, 3})},
               {ints("pads", {1, 1, 1, 1}), integer("group", 16)});
  maker.output(y);
  const Operand rows = maker.input(Dims{5, 32});
  maker.output(maker.op(kind::kMatmul, {rows, maker.weight(Dims{32, 40})}));
  return maker;
}

void write_golden() {
  Maker maker = packed_network();
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  ContextContent content{.source = std::string(kSource),
                         .fingerprint = std::string(kOtherVersion),
                         .programs = {packed.program},
                         .blobs = {},
                         .blob_hashes = {},
                         .producer = "ctxgen 0.1.0"};
  for (std::uint32_t i = 0; i < packed.store->size(); ++i) {
    content.blobs.push_back(packed.store->blob(StoreId{i}));
    content.blob_hashes.push_back(packed.store->hash(StoreId{i}));
  }
  auto out = AtomicFile::create(golden_path(kGoldenPacked)).value();
  ASSERT_TRUE(out.write(ctxgen::test::file_of(content)));
  ASSERT_TRUE(out.commit());
}

/// What a file holds is a number: these must never be other tags' in any oneDNN that this is built
/// with. They are those of oneDNN 3.0, and only have been added to since.
TEST(OtherVersion, NumbersOfStoredTagsStay) {
  using Numbered = std::pair<dnnl_format_tag_t, int>;
  for (const auto& [tag, number] : {Numbered{dnnl_ab, 3},
                                    Numbered{dnnl_Acdb8a, 216},
                                    Numbered{dnnl_Acdb16a, 211},
                                    Numbered{dnnl_Acdb32a, 214},
                                    Numbered{dnnl_Acdb48a, 302},
                                    Numbered{dnnl_Acdb64a, 305},
                                    Numbered{dnnl_BA16a16b, 503},
                                    Numbered{dnnl_BA16a32b, 504},
                                    Numbered{dnnl_BA16a48b, 505},
                                    Numbered{dnnl_BA16a64b, 506},
                                    Numbered{dnnl_BA16a64b4a, 388},
                                    Numbered{dnnl_decbA16a, 438},
                                    Numbered{dnnl_decbA8a, 539},
                                    Numbered{dnnl_aBdec8b, 193},
                                    Numbered{dnnl_aBdec16b, 188},
                                    Numbered{dnnl_aBdec32b, 191},
                                    Numbered{dnnl_aBdec48b, 312},
                                    Numbered{dnnl_aBdec64b, 315},
                                    Numbered{dnnl_aBCde4c4b, 137},
                                    Numbered{dnnl_aBCde8c8b, 162},
                                    Numbered{dnnl_aBCde16c16b, 124},
                                    Numbered{dnnl_Acdeb8a, 220},
                                    Numbered{dnnl_Acdeb16a, 217},
                                    Numbered{dnnl_Acdeb32a, 320},
                                    Numbered{dnnl_Acdeb48a, 323},
                                    Numbered{dnnl_Acdeb64a, 326},
                                    Numbered{dnnl_AcdB16a4b, 213},
                                    Numbered{dnnl_AcdB32a4b, 301},
                                    Numbered{dnnl_AcdB48a4b, 304},
                                    Numbered{dnnl_AcdB64a4b, 307}})
    EXPECT_EQ(static_cast<int>(tag), number);
}

// Run with CTXGEN_WRITE_GOLDEN=1 and ONEDNN_MAX_CPU_ISA=AVX2 to write the file anew.
TEST(OtherVersion, AFileIsTakenAsItIsStored) {
  if (std::getenv("CTXGEN_WRITE_GOLDEN") != nullptr && isa_name() == "avx2") write_golden();
  if (!includes(usable_instruction_set(), InstructionSet::kAvx2))
    GTEST_SKIP() << "the file is for AVX2";
  const Blob file = map_file(golden_path(kGoldenPacked)).value();
  const auto reader = ContextReader::open(file, "golden", VerifyBlobs::kAlways).value();
  EXPECT_EQ(reader.info().fingerprint, kOtherVersion);
  const auto verdict = loader().compatibility(reader.info().fingerprint, 2);
  EXPECT_EQ(verdict.verdict,
            isa_name() == "avx2" ? Compatibility::kOptimal : Compatibility::kPreferRecompilation)
      << verdict.reason;
  if (isa_name() == "avx2") {  // the same instruction set, of another release of the library
    const Program* const programs[] = {&reader.programs().front()};
    const auto fitness = fitness_of_programs(reader.info(), programs, loader(), 2).value();
    EXPECT_EQ(fitness.verdict, Compatibility::kOptimal) << fitness.reason;
    EXPECT_TRUE(fitness.reason.contains("onednn=3.0.0")) << fitness.reason;
    EXPECT_TRUE(fitness.reason.contains(library_version())) << fitness.reason;
  }

  const auto program = std::make_shared<const Program>(reader.programs().front());
  const BlobSource blobs = [&](BlobIndex index) { return reader.blob(index); };
  Maker maker = packed_network();
  const auto expected = reference(maker);
  for (const int threads : {1, 2, 64}) {
    const auto loaded = loader().load(program, blobs, LoadOptions{threads}, nullptr).value();
    const Outputs outputs = run(*loaded, maker.inputs()).value();
    ASSERT_EQ(outputs.size(), expected.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      ASSERT_EQ(outputs[i].size(), expected[i].size());
      for (std::size_t j = 0; j < outputs[i].size(); ++j)
        ASSERT_NEAR(outputs[i][j], expected[i][j], 2e-4 * (1 + std::abs(expected[i][j])));
    }
    if (isa_name() == "avx2") {
      EXPECT_EQ(loaded->plan_statistics().repacked_weights, 0U) << threads;
      const auto& predicts = dynamic_cast<const PredictsPacking&>(loader());
      EXPECT_TRUE(predicts.packed_at_load(*program, threads).value().empty());
    }
  }
}

TEST(OtherVersion, PackedAtLoadIsWhatALoadPacks) {
  // Oriented like two groups with more results than channels, which oneDNN's choice is for; the second
  // weight is in its table's form.
  Maker maker(5);
  Operand y = maker.input(Dims{1, 8, 20, 20});
  y = maker.op(kind::kConv, {y, maker.weight(Dims{16, 2, 3, 3})}, {integer("group", 4)});
  maker.output(maker.op(kind::kConv, {y, maker.weight(Dims{32, 16, 3, 3})}));
  Packed packed = pack(maker, {maker.input_dims()}).value();
  const auto& predicts = dynamic_cast<const PredictsPacking&>(loader());
  const auto compare = [&] {
    for (const int threads : {1, 2, 8, 64}) {
      const auto loaded =
          loader().load(packed.shared(), packed.blobs(), LoadOptions{threads}, nullptr).value();
      const PlanStatistics statistics = loaded->plan_statistics();
      const auto predicted = predicts.packed_at_load(packed.program, threads).value();
      std::uint64_t bytes = 0;
      for (const PackedAtLoad& weight : predicted) bytes += weight.bytes;
      EXPECT_EQ(predicted.size(), statistics.repacked_weights) << threads;
      EXPECT_EQ(bytes, statistics.repacked_bytes) << threads;
    }
  };
  compare();
  // The same program with its second weight stored plain only: its choice was the first form.
  const Packed portable = pack(maker, {maker.input_dims()}, true).value();
  packed = portable;
  compare();
  if (includes(usable_instruction_set(), InstructionSet::kAvx2)) {
    EXPECT_FALSE(predicts.packed_at_load(packed.program, 1).value().empty());
  }
}

TEST(OtherVersion, TheTextNamesTheLargest) {
  const std::array packed{PackedAtLoad{"a", 100}, PackedAtLoad{"b", 5 << 20},
                          PackedAtLoad{"c", 3000}, PackedAtLoad{"d", 20}};
  EXPECT_EQ(to_string(packed), "4 weights (5.0 MiB): \"b\", \"c\", \"a\" and 1 more");
  EXPECT_EQ(to_string(std::span(packed).first(1)), "1 weight (100 bytes): \"a\"");
}

}  // namespace
}  // namespace ctxgen::onednn::test
