#include "regroup/merged_bin.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"
#include "sample_context.h"
#include "toy_provider.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::file_of;

const ToyLoader kLoader("CtxgenDnnlExecutionProvider");

std::shared_ptr<const ContextReader> open(std::vector<std::byte> file) {
  return std::make_shared<const ContextReader>(
      ContextReader::open(Blob::own(std::move(file)), "test", VerifyBlobs::kNever).value());
}
std::shared_ptr<const ContextReader> open(const ContextContent& content) {
  return open(file_of(content));
}

/// One program of a content with the blobs that it uses, in the order in which it uses them.
ContextContent only(const ContextContent& content, std::size_t program) {
  ContextContent one = content;
  one.programs = {content.programs[program]};
  one.blobs.clear();
  one.blob_hashes.clear();
  for (ProgramWeight& weight : one.programs[0].weights)
    for (PackedWeight& packed : weight.packed) {
      const std::uint32_t old = packed.blob.bin_index().value;
      packed.blob = BlobIndex{static_cast<std::uint32_t>(one.blobs.size())};
      one.blobs.push_back(content.blobs[old]);
      one.blob_hashes.push_back(content.blob_hashes[old]);
    }
  return one;
}

TEST(MergedBin, OfTheProgramsOfABatchIsTheBatch) {
  const ContextContent batch = test::sample_content();
  MergedBin merged;
  EXPECT_TRUE(merged.empty());
  for (std::size_t p = 0; p < batch.programs.size(); ++p)
    ASSERT_TRUE(merged.add(open(only(batch, p)), 0, "model"));
  EXPECT_EQ(file_of(merged.finish(kLoader)), file_of(batch));
  EXPECT_EQ(merged.programs_shared(), 0U);
  EXPECT_EQ(merged.bytes_added(), 32U + 32U + 8U + 8U);
  EXPECT_EQ(merged.bytes_stored(), 32U + 32U + 8U);
}

TEST(MergedBin, OneProgramIsTakenOutAgain) {
  const ContextContent batch = test::sample_content();
  const auto reader = open(batch);
  for (std::size_t p = 0; p < batch.programs.size(); ++p) {
    MergedBin one;
    ASSERT_TRUE(one.add(reader, p, "model"));
    EXPECT_EQ(file_of(one.finish(kLoader)), file_of(only(batch, p)));
  }
}

TEST(MergedBin, AnEqualProgramIsShared) {
  MergedBin merged;
  const ContextContent content = test::sample_content();
  ASSERT_TRUE(merged.add(open(content), 0, "one"));
  ASSERT_TRUE(merged.add(open(content), 0, "two"));
  EXPECT_EQ(merged.programs_shared(), 1U);
  EXPECT_EQ(merged.finish(kLoader).programs.size(), 1U);
}

TEST(MergedBin, EqualNamesOfDifferentProgramsAreRefused) {
  MergedBin merged;
  ContextContent content = test::sample_content();
  ASSERT_TRUE(merged.add(open(content), 0, "one"));
  content.programs[0].plans.pop_back();
  EXPECT_EQ(code_of(merged.add(open(content), 0, "two")), ErrorCode::kInvalidGraph);
}

TEST(MergedBin, AnotherProducerOrTargetIsRefused) {
  const ContextContent content = test::sample_content();
  ContextContent producer = content, target = content;
  producer.producer = "ctxgen other";
  target.fingerprint = "format=1;onednn=3.12.0;isa=avx2;threads=1";
  for (const ContextContent& other : {producer, target}) {
    MergedBin merged;
    ASSERT_TRUE(merged.add(open(content), 0, "one"));
    EXPECT_EQ(code_of(merged.add(open(other), 1, "two")), ErrorCode::kVersionMismatch);
  }
}

TEST(MergedBin, VariantsFollowTheirPrograms) {
  const ContextContent content = test::sample_content_1_1();
  const auto reader = open(content);
  MergedBin merged;
  for (std::size_t p = 0; p < content.programs.size(); ++p)
    ASSERT_TRUE(merged.add(reader, p, "model"));
  EXPECT_EQ(merged.isas(), (std::vector<std::string>{"avx2", "avx512_core"}));
  EXPECT_EQ(file_of(merged.finish(kLoader)), file_of(content));
}

TEST(MergedBin, CompressedBlobsStayAsTheyAre) {
  ContextContent content = test::sample_content_1_1();
  ASSERT_TRUE(compress_blobs(content, 9, 1));
  const auto reader = open(content);
  MergedBin merged;
  for (std::size_t p = 0; p < content.programs.size(); ++p)
    ASSERT_TRUE(merged.add(reader, p, "model"));
  EXPECT_EQ(file_of(merged.finish(kLoader)), file_of(content));
}

TEST(MergedBin, OneWeightCompressedAndPlainIsRefused) {
  ContextContent content = test::sample_content_1_1();
  MergedBin merged;
  ASSERT_TRUE(merged.add(open(content), 2, "one"));
  ASSERT_TRUE(compress_blobs(content, 9, 1));
  EXPECT_EQ(code_of(merged.add(open(content), 2, "two")), ErrorCode::kVersionMismatch);
}

TEST(MergedBin, ADamagedBlobGetsNoNewPlace) {
  std::vector<std::byte> file = file_of(test::sample_content());
  const std::uint64_t offset = open(file)->blobs()[0].offset;
  file[offset] ^= std::byte{1};
  MergedBin merged;
  EXPECT_EQ(code_of(merged.add(open(file), 0, "model")), ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen
