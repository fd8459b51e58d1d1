// Files of published format versions, which every later version must go on reading.
#include "golden.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "code_of.h"
#include "sample_context.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::golden;
using test::kGoldenV1;

Blob borrowed(std::span<const std::byte> bytes) { return {nullptr, bytes}; }

// Run with CTXGEN_WRITE_GOLDEN=1 to write the file anew, where the format changes on purpose.
TEST(Golden, IsWhatTheWriterWrites) {
  const auto file = test::file_of(test::sample_content());
  if (std::getenv("CTXGEN_WRITE_GOLDEN") != nullptr) {
    auto out = AtomicFile::create(test::golden_path(kGoldenV1)).value();
    ASSERT_EQ(code_of(out.write(file)), test::kOk);
    ASSERT_EQ(code_of(out.commit()), test::kOk);
  }
  EXPECT_TRUE(golden(kGoldenV1) == file) << "the format's bytes have changed";
}

TEST(Golden, HasItsContent) {
  const auto file = golden(kGoldenV1);
  const auto reader = ContextReader::open(borrowed(file), "golden", VerifyBlobs::kAlways);
  ASSERT_EQ(code_of(reader), test::kOk);
  const ContextContent content = test::sample_content();
  EXPECT_EQ(reader->info().format_major, 1);
  EXPECT_EQ(reader->info().source, content.source);
  EXPECT_EQ(reader->info().fingerprint, content.fingerprint);
  EXPECT_EQ(reader->info().producer, content.producer);
  ASSERT_EQ(reader->programs().size(), 2U);
  EXPECT_EQ(reader->programs()[0], content.programs[0]);
  EXPECT_EQ(reader->programs()[1], content.programs[1]);
  ASSERT_EQ(reader->blobs().size(), content.blobs.size());
  for (std::uint32_t i = 0; i < content.blobs.size(); ++i)
    EXPECT_EQ(as_text(reader->blob(BlobIndex{i})->bytes), as_text(content.blobs[i].bytes));
}

TEST(Golden, ProgramHashesStayTheSame) {
  const auto file = golden(kGoldenV1);
  const auto reader = ContextReader::open(borrowed(file), "golden");
  ASSERT_EQ(code_of(reader), test::kOk);
  EXPECT_EQ(reader->program_hash(0).hex(), "244e7498c1bf08c5a7230512068a76de");
  EXPECT_EQ(reader->program_hash(1).hex(), "4d9385ea172c3fe5998e8593dc08bb70");
}

TEST(Golden, EveryTruncationIsRefused) {
  const auto file = golden(kGoldenV1);
  for (std::size_t n = 0; n < file.size(); ++n) {
    // Bytes of their own, so that a sanitizer sees a read behind the end.
    const std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
    ASSERT_EQ(code_of(ContextReader::open(borrowed(cut), "cut", VerifyBlobs::kAlways)),
              ErrorCode::kCorruptContext)
        << n << " bytes";
    ASSERT_EQ(code_of(ContextReader::open(borrowed(cut), "cut", VerifyBlobs::kNever)),
              ErrorCode::kCorruptContext)
        << n << " bytes";
  }
}

TEST(Golden, EveryAppendedByteIsRefused) {
  auto file = golden(kGoldenV1);
  file.push_back(std::byte{0});
  EXPECT_EQ(code_of(ContextReader::open(borrowed(file), "long", VerifyBlobs::kNever)),
            ErrorCode::kCorruptContext);
}

TEST(Golden, EveryFlipIsRefused) {
  auto file = golden(kGoldenV1);
  const unsigned char masks[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
  for (std::size_t at = 0; at < file.size(); ++at)
    for (unsigned char mask : masks) {
      file[at] ^= std::byte{mask};
      const bool in_major = at == 8 || at == 9;
      ASSERT_EQ(code_of(ContextReader::open(borrowed(file), "flipped", VerifyBlobs::kAlways)),
                in_major ? ErrorCode::kVersionMismatch : ErrorCode::kCorruptContext)
          << "byte " << at << " xor " << int{mask};
      file[at] ^= std::byte{mask};
    }
}

// Written once (CTXGEN_WRITE_GOLDEN=1): the bytes of a frame are zstd's, which may change with its version.
TEST(Golden, Of1_1HasItsContent) {
  ContextContent content = test::sample_content_1_1();
  ASSERT_EQ(code_of(compress_blobs(content, 9, 1)), test::kOk);
  const auto written = test::file_of(content);
  if (std::getenv("CTXGEN_WRITE_GOLDEN") != nullptr) {
    auto out = AtomicFile::create(test::golden_path(test::kGoldenV1_1)).value();
    ASSERT_EQ(code_of(out.write(written)), test::kOk);
    ASSERT_EQ(code_of(out.commit()), test::kOk);
  }
  for (const auto& file : {golden(test::kGoldenV1_1), written}) {
    const auto reader = ContextReader::open(borrowed(file), "golden", VerifyBlobs::kAlways);
    ASSERT_EQ(code_of(reader), test::kOk);
    EXPECT_EQ(reader->info().format_minor, 1);
    EXPECT_EQ(reader->info().fingerprint, content.fingerprint);
    ASSERT_EQ(reader->programs().size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(reader->programs()[i], content.programs[i]) << i;
    const std::size_t base = reader->find("dnnl_sample_0").value();
    EXPECT_EQ(reader->variants(base), (std::vector<std::size_t>{0, 2}));
    EXPECT_EQ(reader->variants(1), (std::vector<std::size_t>{1}));
    EXPECT_EQ(code_of(reader->find("dnnl_sample_0@avx512_core")), ErrorCode::kCorruptContext);
    EXPECT_EQ(reader->blobs()[3].encoding, BlobEncoding::kZstd);
    EXPECT_LT(reader->blobs()[3].stored, 100U);
    for (std::uint32_t i = 0; i < 4; ++i)
      EXPECT_EQ(as_text(reader->blob(BlobIndex{i})->bytes), as_text(content.blobs[i].bytes)) << i;
    // The hash of a program for the smallest instruction set is that of the same program alone.
    EXPECT_EQ(reader->program_hash(0).hex(), "244e7498c1bf08c5a7230512068a76de");
  }
}

TEST(Golden, Of1_2IsWhatTheWriterWrites) {
  const ContextContent content = test::sample_content_1_2();
  const auto written = test::file_of(content);
  if (std::getenv("CTXGEN_WRITE_GOLDEN") != nullptr) {
    auto out = AtomicFile::create(test::golden_path(test::kGoldenV1_2)).value();
    ASSERT_EQ(code_of(out.write(written)), test::kOk);
    ASSERT_EQ(code_of(out.commit()), test::kOk);
  }
  EXPECT_TRUE(golden(test::kGoldenV1_2) == written) << "the format's bytes have changed";
  const auto reader = ContextReader::open(borrowed(written), "golden", VerifyBlobs::kAlways);
  ASSERT_EQ(code_of(reader), test::kOk);
  EXPECT_EQ(reader->info().format_minor, 2);
  EXPECT_EQ(reader->info().needs, content.needs);
  EXPECT_EQ(reader->programs()[0], content.programs[0]);
  EXPECT_EQ(reader->program_hash(0).hex(), "244e7498c1bf08c5a7230512068a76de");
}

TEST(Golden, Of1_3IsWhatTheWriterWrites) {
  const ContextContent content = test::sample_content_1_3();
  const auto written = test::file_of(content);
  if (std::getenv("CTXGEN_WRITE_GOLDEN") != nullptr) {
    auto out = AtomicFile::create(test::golden_path(test::kGoldenV1_3)).value();
    ASSERT_EQ(code_of(out.write(written)), test::kOk);
    ASSERT_EQ(code_of(out.commit()), test::kOk);
  }
  EXPECT_TRUE(golden(test::kGoldenV1_3) == written) << "the format's bytes have changed";
  const auto reader = ContextReader::open(borrowed(written), "golden", VerifyBlobs::kAlways);
  ASSERT_EQ(code_of(reader), test::kOk);
  EXPECT_EQ(reader->info().format_minor, 3);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(reader->programs()[i], content.programs[i]) << i;
  EXPECT_EQ(reader->program_hash(0).hex(), "244e7498c1bf08c5a7230512068a76de");
}

class GoldenFlips : public ::testing::TestWithParam<std::string_view> {};

TEST_P(GoldenFlips, AreRefused) {
  auto file = golden(GetParam());
  for (std::size_t at = 0; at < file.size(); ++at) {
    file[at] ^= std::byte{0x40};
    const bool in_major = at == 8 || at == 9;
    ASSERT_EQ(code_of(ContextReader::open(borrowed(file), "flipped", VerifyBlobs::kAlways)),
              in_major ? ErrorCode::kVersionMismatch : ErrorCode::kCorruptContext)
        << "byte " << at;
    file[at] ^= std::byte{0x40};
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenFlips,
                         ::testing::Values(test::kGoldenV1_1, test::kGoldenV1_2,
                                           test::kGoldenV1_3));

}  // namespace
}  // namespace ctxgen
