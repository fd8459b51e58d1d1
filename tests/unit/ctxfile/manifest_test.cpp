#include "manifest.h"

#include <random>

#include <gtest/gtest.h>

#include "code_of.h"
#include "manifest.pb.h"
#include "manifest_fields.h"
#include "sample_context.h"

namespace ctxgen {
namespace {

using test::code_of;

const std::vector<Program>& sample_programs() {
  static const std::vector<Program> programs{test::sample_dense(), test::sample_scalar()};
  return programs;
}
const std::vector<Hash128> kHashes{{.high = 1, .low = 2}, {.high = 3, .low = ~std::uint64_t{0}}};
const std::vector<ManifestBlob> kBlobs{{0, 32, {5, 6}, 0}, {64, 1, {7, 8}, 0}, {128, 0, {}, 0}};

std::vector<std::byte> sample_bytes() {
  return encode_manifest(sample_programs(), kHashes, kBlobs).value();
}

TEST(Manifest, ComesBack) {
  const Manifest manifest = decode_manifest(sample_bytes()).value();
  EXPECT_EQ(manifest.programs, sample_programs());
  EXPECT_EQ(manifest.program_hashes, kHashes);
  EXPECT_EQ(manifest.blobs, kBlobs);
}

TEST(Manifest, OfNothingIsEmpty) {
  EXPECT_TRUE(encode_manifest({}, {}, {})->empty());
  EXPECT_TRUE(decode_manifest({})->programs.empty());
}

// manifest.proto is the contract: libprotobuf must read the same and write the same bytes.
TEST(Manifest, IsWhatProtobufWrites) {
  const auto bytes = sample_bytes();
  manifest::Manifest message;
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(as_text(bytes), message.SerializeAsString());
  ASSERT_EQ(message.programs_size(), 2);
  const manifest::Program& program = message.programs(0);
  EXPECT_EQ(program.name(), "dnnl_sample_0");
  EXPECT_EQ(program.symbols(1), "steps");
  EXPECT_EQ(program.values(0).dims(0).symbol(), 0U);
  EXPECT_EQ(program.values(0).dims(0).kind_case(), manifest::Dim::kSymbol);
  EXPECT_EQ(program.values(0).dims(1).value(), 4U);
  EXPECT_EQ(program.values(2).dims(0).kind_case(), manifest::Dim::KIND_NOT_SET);
  EXPECT_TRUE(program.values(3).unknown_rank());
  EXPECT_EQ(program.outputs(1), 3U);
  EXPECT_EQ(program.weights(0).packed(0).layout(), "packed ab");
  EXPECT_EQ(program.weights(0).dims(0), 4U);
  EXPECT_EQ(program.ops(0).inputs(2).kind_case(), manifest::Operand::KIND_NOT_SET);
  EXPECT_EQ(program.ops(0).params(0).integer(), -1);
  EXPECT_EQ(program.ops(0).params(1).real(), 0.5);
  EXPECT_EQ(program.ops(0).params(3).integers().values(1), -2);
  EXPECT_EQ(program.ops(0).params(5).value_case(), manifest::Param::kIntegers);
  EXPECT_EQ(program.ops(0).post_ops(1).operand().value(), 0U);
  EXPECT_EQ(program.plans(1).input_dims(0).dims(0), 8U);
  EXPECT_EQ(program.plans(1).payload(), "plan eight");
  EXPECT_EQ(message.programs(1).hash_low(), ~std::uint64_t{0});
  EXPECT_EQ(message.blobs(1).offset(), 64U);
}

TEST(Manifest, IsWhatProtobufWritesOf1_1) {
  const ContextContent content = test::sample_content_1_1();
  const std::vector<Hash128> hashes(content.programs.size());
  std::vector<ManifestBlob> blobs = kBlobs;
  blobs.push_back({192, 20, {9, 9}, 1, 300});
  const auto bytes = encode_manifest(content.programs, hashes, blobs).value();
  manifest::Manifest message;
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(as_text(bytes), message.SerializeAsString());
  EXPECT_EQ(message.programs(0).isa(), "avx2");
  EXPECT_EQ(message.programs(2).isa(), "avx512_core");
  EXPECT_EQ(message.programs(2).variant_of(), "dnnl_sample_0");
  EXPECT_EQ(message.blobs(3).encoding(), 1U);
  EXPECT_EQ(message.blobs(3).content_size(), 300U);
  const Manifest back = decode_manifest(bytes).value();
  EXPECT_EQ(back.programs, content.programs);
  EXPECT_EQ(back.blobs, blobs);
}

TEST(Manifest, IsWhatProtobufWritesOf1_3) {
  const ContextContent content = test::sample_content_1_3();
  const std::vector<Hash128> hashes(content.programs.size());
  const auto bytes = encode_manifest(content.programs, hashes, kBlobs).value();
  manifest::Manifest message;
  ASSERT_TRUE(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  EXPECT_EQ(as_text(bytes), message.SerializeAsString());
  const manifest::Certificate& certificate = message.programs(0).certificate();
  EXPECT_EQ(certificate.bound(), 0.01);
  EXPECT_EQ(certificate.norm(), "max");
  EXPECT_EQ(certificate.samples_low(), 2U);
  EXPECT_EQ(certificate.held_out(), 1U);
  EXPECT_EQ(certificate.choices(1).choice(), "weights=s4:32");
  EXPECT_EQ(certificate.programs_size(), 4);
  EXPECT_EQ(decode_manifest(bytes)->programs, content.programs);
}

TEST(Manifest, PassesOverFieldsOfNewerVersions) {
  auto bytes = sample_bytes();
  ManifestWriter unknown;
  unknown.varint(1000, 5);
  unknown.text(1001, "something");
  unknown.f32(1002, 1.0F);
  unknown.fixed64(1003, 1);
  bytes.insert(bytes.end(), unknown.data().begin(), unknown.data().end());
  EXPECT_EQ(decode_manifest(bytes)->programs, sample_programs());
}

TEST(Manifest, RefusesNumbersThatItsTypesCannotHold) {
  const auto refused = [](auto&& change) {
    manifest::Manifest message;
    manifest::Program& program = *message.add_programs();
    change(program);
    const std::string text = message.SerializeAsString();
    return code_of(decode_manifest(as_bytes(text)));
  };
  constexpr auto kHuge = ~std::uint64_t{0};
  EXPECT_EQ(refused([](auto&) {}), test::kOk);
  EXPECT_EQ(refused([](auto& p) { p.add_values()->set_type(27); }), ErrorCode::kCorruptContext);
  EXPECT_EQ(refused([](auto& p) { p.add_values()->set_type(~0U); }), ErrorCode::kCorruptContext);
  EXPECT_EQ(refused([](auto& p) { p.add_values()->add_dims()->set_value(kHuge); }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(refused([](auto& p) { p.add_values()->add_dims()->set_symbol(1U << 31); }),
            ErrorCode::kCorruptContext);
  EXPECT_EQ(refused([](auto& p) { p.add_weights()->add_dims(kHuge); }), ErrorCode::kCorruptContext);
  EXPECT_EQ(refused([](auto& p) { p.add_ops()->add_params()->set_name("x"); }),
            ErrorCode::kCorruptContext);
}

TEST(Manifest, RefusesRanksAboveTheLimit) {
  const auto with_rank = [](std::size_t value_rank, std::size_t weight_rank,
                            std::size_t plan_rank) {
    manifest::Manifest message;
    manifest::Program& program = *message.add_programs();
    auto& value = *program.add_values();
    for (std::size_t i = 0; i < value_rank; ++i) value.add_dims()->set_value(1);
    auto& weight = *program.add_weights();
    for (std::size_t i = 0; i < weight_rank; ++i) weight.add_dims(1);
    auto& shape = *program.add_plans()->add_input_dims();
    for (std::size_t i = 0; i < plan_rank; ++i) shape.add_dims(1);
    const std::string text = message.SerializeAsString();
    return code_of(decode_manifest(as_bytes(text)));
  };
  EXPECT_EQ(with_rank(kMaxRank, kMaxRank, kMaxRank), test::kOk);
  EXPECT_EQ(with_rank(kMaxRank + 1, 1, 1), ErrorCode::kCorruptContext);
  EXPECT_EQ(with_rank(1, kMaxRank + 1, 1), ErrorCode::kCorruptContext);
  EXPECT_EQ(with_rank(1, 1, kMaxRank + 1), ErrorCode::kCorruptContext);
}

TEST(Manifest, BoundsTheNumberOfItems) {
  // Two bytes each in the file, many times that in memory.
  const auto with_values = [](std::uint64_t count) {
    ManifestWriter program;
    for (std::uint64_t i = 0; i < count; ++i) program.message(4, ManifestWriter());
    ManifestWriter out;
    out.message(1, program);
    return code_of(decode_manifest(out.data(), {.messages = 1000}));
  };
  EXPECT_EQ(with_values(999), test::kOk);  // and the program itself
  EXPECT_EQ(with_values(1000), ErrorCode::kCorruptContext);
}

// The writer counts as the reader does: what it writes is read, what would not be read is refused.
TEST(Manifest, WriterAndReaderAgreeOnTheLimits) {
  const auto bytes = sample_bytes();
  const auto written = [&](ManifestLimits limits) {
    return code_of(encode_manifest(sample_programs(), kHashes, kBlobs, limits));
  };
  const auto read = [&](ManifestLimits limits) { return code_of(decode_manifest(bytes, limits)); };
  EXPECT_EQ(written({.bytes = bytes.size()}), test::kOk);
  EXPECT_EQ(read({.bytes = bytes.size()}), test::kOk);
  EXPECT_EQ(written({.bytes = bytes.size() - 1}), ErrorCode::kResourceLimit);
  EXPECT_EQ(read({.bytes = bytes.size() - 1}), ErrorCode::kCorruptContext);
  std::uint64_t least = 0;
  while (written({.messages = least}) == ErrorCode::kResourceLimit) {
    EXPECT_EQ(read({.messages = least}), ErrorCode::kCorruptContext) << least;
    ++least;
  }
  EXPECT_EQ(written({.messages = least}), test::kOk);
  EXPECT_EQ(read({.messages = least}), test::kOk);
  EXPECT_GT(least, 40U);
}

TEST(Manifest, EveryTruncationIsRefusedOrAShorterManifest) {
  const auto bytes = sample_bytes();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto manifest = decode_manifest(std::span(bytes).first(n));
    if (manifest)
      EXPECT_TRUE(manifest->programs.size() < 2 || manifest->blobs.size() < 3) << n << " bytes";
    else
      EXPECT_EQ(code_of(manifest), ErrorCode::kCorruptContext) << n << " bytes";
  }
}

// Without the checksums in front of it: whatever decodes must stand validate() and hash_program().
TEST(Manifest, DamageNeverCrashesItsReaders) {
  constexpr unsigned kSeed = 20250117;
  std::mt19937 random(kSeed);
  const auto original = sample_bytes();
  for (int round = 0; round < 20000; ++round) {
    auto bytes = original;
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int e = 0; e < edits; ++e)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto manifest = decode_manifest(bytes);
    if (!manifest) {
      ASSERT_EQ(code_of(manifest), ErrorCode::kCorruptContext) << "seed " << kSeed << " " << round;
      continue;
    }
    for (const Program& program : manifest->programs) {
      const Status status = validate(program, manifest->blobs.size());
      if (!status) continue;
      static_cast<void>(hash_program(
          program, [&](BlobRef blob) { return manifest->blobs.at(blob.bin_index().value).hash; }));
      // What passes can be written and read again.
      const auto again = encode_manifest({&program, 1}, {{Hash128{}}}, {});
      ASSERT_TRUE(again);
      ASSERT_TRUE(decode_manifest(*again)) << "seed " << kSeed << " round " << round;
    }
  }
}

}  // namespace
}  // namespace ctxgen
