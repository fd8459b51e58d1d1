#include "ctxgen/ctxfile/context_file.h"

#include <gtest/gtest.h>

#include "blob_cache.h"
#include "code_of.h"
#include "header.h"
#include "sample_context.h"

namespace ctxgen {
namespace {

using test::code_of;

ContextReader reader_of(const ContextContent& content) {
  auto reader =
      ContextReader::open(Blob::own(test::file_of(content)), "test", VerifyBlobs::kAlways);
  EXPECT_EQ(code_of(reader), test::kOk);
  return std::move(reader).value();
}

/// A content without programs over blobs of these sizes.
ContextContent blobs_of_sizes(const std::vector<std::size_t>& sizes) {
  ContextContent content;
  content.source = "test";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    content.blobs.push_back(
        Blob::own(std::vector<std::byte>(sizes[i], static_cast<std::byte>(i + 1))));
    content.blob_hashes.push_back(hash_bytes(content.blobs.back().bytes));
  }
  return content;
}

TEST(ContextFile, ComesBack) {
  const ContextContent content = test::sample_content();
  const ContextReader reader = reader_of(content);
  EXPECT_EQ(reader.info().format_major, kFormatMajor);
  EXPECT_EQ(reader.info().format_minor, 0) << "the oldest version that has all of it";
  EXPECT_EQ(reader.info().source, content.source);
  EXPECT_EQ(reader.info().fingerprint, content.fingerprint);
  EXPECT_EQ(reader.info().producer, content.producer);
  ASSERT_EQ(reader.programs().size(), 2U);
  EXPECT_EQ(reader.programs()[0], content.programs[0]);
  EXPECT_EQ(reader.programs()[1], content.programs[1]);
  ASSERT_EQ(reader.blobs().size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(as_text(reader.blob(BlobIndex{i})->bytes), as_text(content.blobs[i].bytes));
    EXPECT_EQ(reader.blobs()[i].hash, content.blob_hashes[i]);
  }
  EXPECT_EQ(reader.program_hash(1), hash_program(content.programs[1], [&](BlobRef blob) {
              return content.blob_hashes[blob.bin_index().value];
            }));
}

TEST(ContextFile, TheSameContentGivesTheSameBytes) {
  EXPECT_EQ(test::file_of(test::sample_content()), test::file_of(test::sample_content()));
}

TEST(ContextFile, NamesItsProducer) {
  ContextContent content = test::sample_content();
  content.producer.clear();
  EXPECT_TRUE(reader_of(content).info().producer.starts_with("ctxgen "));
}

TEST(ContextFile, MayBeEmpty) {
  const ContextReader reader = reader_of(ContextContent{});
  EXPECT_TRUE(reader.programs().empty());
  EXPECT_TRUE(reader.blobs().empty());
  EXPECT_EQ(reader.file_size() % kDataAlignment, 0U);
}

TEST(ContextFile, BlobsAreAlignedByTheirSize) {
  const ContextReader reader = reader_of(blobs_of_sizes({1, 0, 65535, 65536, 3, 200000, 0}));
  for (const BlobEntry& blob : reader.blobs())
    EXPECT_EQ(blob.offset % (blob.size >= 65536 ? 4096 : 64), 0U) << blob.size;
  EXPECT_EQ(reader.blobs()[0].offset % 4096, 0U);
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Blob blob = reader.blob(BlobIndex{i}).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blob.bytes.data()) % 64, 0U);
    for (std::byte byte : blob.bytes) ASSERT_EQ(byte, static_cast<std::byte>(i + 1));
  }
}

TEST(ContextFile, SizeIsKnownBeforeItIsWritten) {
  for (const ContextContent& content :
       {test::sample_content(), ContextContent{}, blobs_of_sizes({7, 70000, 1})})
    EXPECT_EQ(context_size(content).value(), test::file_of(content).size());
}

TEST(ContextFile, InfoIsReadFromTheHeaderAlone) {
  auto file = test::file_of(test::sample_content());
  const std::uint64_t header = header_size_of(read_context_info(file, "test").value());
  const auto head = std::span<const std::byte>(file).first(header);
  EXPECT_EQ(read_context_info(head, "test")->fingerprint, test::sample_content().fingerprint);
  EXPECT_EQ(code_of(read_context_info(head.first(header - 1), "test")), ErrorCode::kCorruptContext);
}

TEST(ContextFile, APayloadAtAnyAddressIsCopiedIntoPlace) {
  const auto file = test::file_of(test::sample_content());
  for (std::size_t skew : {0U, 1U, 32U, 63U}) {
    std::vector<std::byte> buffer(file.size() + 128);
    const auto misfit = reinterpret_cast<std::uintptr_t>(buffer.data()) % 64;
    const std::size_t at = 64 - misfit + skew;
    std::ranges::copy(file, buffer.begin() + static_cast<std::ptrdiff_t>(at));
    const Blob payload{nullptr, std::span<const std::byte>(buffer).subspan(at, file.size())};
    const auto reader = ContextReader::open(payload, "test", VerifyBlobs::kAlways);
    ASSERT_EQ(code_of(reader), test::kOk);
    const Blob blob = reader->blob(BlobIndex{1}).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blob.bytes.data()) % 64, 0U);
    const bool in_place =
        blob.bytes.data() >= buffer.data() && blob.bytes.data() < buffer.data() + buffer.size();
    EXPECT_EQ(in_place, skew == 0);
    EXPECT_EQ(as_text(blob.bytes), as_text(test::sample_content().blobs[1].bytes));
  }
}

TEST(ContextFile, FindsPartitionsByName) {
  const ContextReader reader = reader_of(test::sample_content());
  EXPECT_EQ(reader.find("dnnl_sample_1").value(), 1U);
  const auto missing = reader.find("dnnl_other");
  EXPECT_EQ(code_of(missing), ErrorCode::kCorruptContext);
  EXPECT_NE(missing.error().message.find("dnnl_sample_0"), std::string::npos);
  EXPECT_EQ(code_of(reader.blob(BlobIndex{3})), ErrorCode::kCorruptContext);
}

TEST(ContextFile, DamagedBlobsAreFoundWhenAsked) {
  auto file = test::file_of(test::sample_content());
  file.back() ^= std::byte{1};
  const auto open = [&](VerifyBlobs verify) {
    return code_of(ContextReader::open(Blob::own(file), "test", verify));
  };
  EXPECT_EQ(open(VerifyBlobs::kAlways), ErrorCode::kCorruptContext);
  EXPECT_EQ(open(VerifyBlobs::kAuto), ErrorCode::kCorruptContext);  // a small file
  EXPECT_EQ(open(VerifyBlobs::kNever), test::kOk);
}

TEST(ContextFile, LargeFilesAreNotHashedUnlessAsked) {
  auto file = test::file_of(blobs_of_sizes({std::size_t{17} << 20}));
  file.back() ^= std::byte{1};
  const auto reader = ContextReader::open(Blob::own(file), "test", VerifyBlobs::kAuto);
  ASSERT_EQ(code_of(reader), test::kOk);
  EXPECT_EQ(code_of(reader->verify_blobs()), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(ContextReader::open(Blob::own(file), "test", VerifyBlobs::kAlways)),
            ErrorCode::kCorruptContext);
}

TEST(WriteContext, RefusesBrokenContent) {
  const auto outcome = [](auto&& change) {
    ContextContent content = test::sample_content();
    change(content);
    return code_of(write_context(content, [](auto) { return Status(); }));
  };
  EXPECT_EQ(outcome([](auto&) {}), test::kOk);
  EXPECT_EQ(outcome([](auto& c) { c.programs[0].outputs.clear(); }), ErrorCode::kInternal);
  EXPECT_EQ(outcome([](auto& c) { c.programs[1].name = c.programs[0].name; }),
            ErrorCode::kInternal);
  EXPECT_EQ(outcome([](auto& c) { c.programs[0].weights[0].packed[0].blob = StoreId{0}; }),
            ErrorCode::kInternal)
      << "not renumbered";
  EXPECT_EQ(outcome([](auto& c) { c.blobs.pop_back(); }), ErrorCode::kInternal);
  EXPECT_EQ(outcome([](auto& c) { c.fingerprint.resize(kMaxHeaderBytes); }),
            ErrorCode::kResourceLimit);
}

TEST(WriteContext, HandsOnTheErrorsOfItsSink) {
  for (int good = 0; good < 6; ++good) {
    int calls = 0;
    const Status status =
        write_context(test::sample_content(), [&](std::span<const std::byte>) -> Status {
          if (calls++ < good) return {};
          return fail(ErrorCode::kIoError, "disk full");
        });
    EXPECT_EQ(code_of(status), ErrorCode::kIoError) << good;
    EXPECT_EQ(calls, good + 1);
  }
}

/// Zeros shrink, noise does not.
ContextContent compressed_content(int level, int threads) {
  ContextContent content = blobs_of_sizes({100000, 3, 0, 70000});
  std::vector<std::byte> noise(5000);
  std::uint32_t state = 1;
  for (std::byte& byte : noise)
    byte = static_cast<std::byte>((state = state * 1664525U + 1013904223U) >> 24);
  content.blobs.push_back(Blob::own(std::move(noise)));
  content.blob_hashes.push_back(hash_bytes(content.blobs.back().bytes));
  EXPECT_EQ(code_of(compress_blobs(content, level, threads)), test::kOk);
  return content;
}

TEST(ContextFile, CompressesWhatShrinks) {
  const ContextContent content = compressed_content(9, 1);
  const ContextReader reader = reader_of(content);
  EXPECT_EQ(reader.info().format_minor, 1);
  EXPECT_LT(reader.file_size(), 20000U);
  EXPECT_EQ(reader.file_size(), context_size(content).value());
  const BlobEncoding expected[] = {BlobEncoding::kZstd, BlobEncoding::kNone, BlobEncoding::kNone,
                                   BlobEncoding::kZstd, BlobEncoding::kNone};
  for (std::uint32_t i = 0; i < 5; ++i) {
    const BlobEntry& entry = reader.blobs()[i];
    EXPECT_EQ(entry.encoding, expected[i]) << i;
    EXPECT_EQ(entry.size, content.blobs[i].bytes.size());
    EXPECT_EQ(entry.hash, content.blob_hashes[i]);
    const Blob blob = reader.blob(BlobIndex{i}).value();
    EXPECT_EQ(as_text(blob.bytes), as_text(content.blobs[i].bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blob.bytes.data()) % 64, 0U);
    EXPECT_EQ(reader.blob(BlobIndex{i})->bytes.data(), blob.bytes.data()) << "kept";
  }
}

// One file after another must not pass what none may pass alone.
TEST(ContextFile, DecompressedBlobsOfAllFilesAreBoundedTogether) {
  const auto file = test::file_of(compressed_content(9, 1));
  const auto open = [&] {
    return ContextReader::open(Blob::own(file), "test", VerifyBlobs::kNever).value();
  };
  MemoryAccount& all = *decompressed_account();
  const std::uint64_t before = all.used_bytes();
  Blob outlives;
  {
    const ContextReader first = open(), second = open();
    outlives = first.blob(BlobIndex{0}).value();
    EXPECT_EQ(all.used_bytes() - before, outlives.bytes.size());
    const std::uint64_t left = all.limit_bytes() - all.used_bytes();
    ASSERT_EQ(code_of(all.charge(left)), test::kOk);  // what somebody else has
    EXPECT_EQ(code_of(second.blob(BlobIndex{0})), ErrorCode::kResourceLimit);
    EXPECT_EQ(code_of(second.blob(BlobIndex{1})), test::kOk) << "not compressed";
    EXPECT_EQ(code_of(first.blob(BlobIndex{0})), test::kOk) << "there already";
    all.release(left);
    EXPECT_EQ(code_of(second.blob(BlobIndex{0})), test::kOk);
  }
  EXPECT_EQ(all.used_bytes() - before, outlives.bytes.size());
  outlives = {};
  EXPECT_EQ(all.used_bytes(), before);
}

TEST(ContextFile, CompressionDoesNotDependOnThreads) {
  EXPECT_EQ(test::file_of(compressed_content(9, 1)), test::file_of(compressed_content(9, 4)));
}

TEST(ContextFile, CompressionChangesNoProgram) {
  ContextContent content = test::sample_content();
  content.blobs[0] = Blob::own(std::vector<std::byte>(4096, std::byte{1}));
  content.blob_hashes[0] = hash_bytes(content.blobs[0].bytes);
  const ContextReader plain = reader_of(content);
  EXPECT_EQ(code_of(compress_blobs(content, 3, 2)), test::kOk);
  const ContextReader packed = reader_of(content);
  ASSERT_EQ(packed.blobs()[0].encoding, BlobEncoding::kZstd);
  EXPECT_EQ(packed.program_hash(0), plain.program_hash(0));
  EXPECT_EQ(packed.programs()[0], plain.programs()[0]);
  const std::vector<BlobIndex> all{{0}, {1}, {2}, {0}, {77}};
  EXPECT_EQ(code_of(packed.decompress_blobs(all, 4)), test::kOk);
}

TEST(ContextFile, DamageInACompressedBlobIsFound) {
  const auto file = test::file_of(compressed_content(9, 1));
  const ContextReader whole = ContextReader::open(Blob::own(file), "test").value();
  const BlobEntry entry = whole.blobs()[0];
  for (std::uint64_t at = entry.offset; at < entry.offset + entry.stored; ++at)
    for (const unsigned char mask : {1, 128}) {
      auto damaged = file;
      damaged[at] ^= std::byte{mask};
      // The hash is over the content: a few bits of a frame may change and leave it the same.
      const auto verified = ContextReader::open(Blob::own(damaged), "test", VerifyBlobs::kAlways);
      if (verified)
        EXPECT_EQ(hash_bytes(verified->blob(BlobIndex{0})->bytes), entry.hash) << at;
      else
        EXPECT_EQ(code_of(verified), ErrorCode::kCorruptContext) << at;
      const auto reader = ContextReader::open(Blob::own(damaged), "test", VerifyBlobs::kNever);
      ASSERT_EQ(code_of(reader), test::kOk);
      // The frame's own checksum: nobody gets wrong weights, verified or not.
      const auto blob = reader->blob(BlobIndex{0});
      EXPECT_TRUE(!blob || hash_bytes(blob->bytes) == entry.hash) << at;
    }
}

}  // namespace
}  // namespace ctxgen
