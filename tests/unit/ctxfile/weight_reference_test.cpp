#include "ctxgen/ctxfile/weight_reference.h"

#include <gtest/gtest.h>

#include "ctxgen/base/blob.h"

namespace ctxgen {
namespace {

WeightReference sample() {
  return {.file = "data/net.data",
          .file_size = 4096,
          .offset = 12,
          .size = 400,
          .hash = hash_bytes(as_bytes("weights"))};
}

ErrorCode refused(const WeightReference& reference) {
  const auto decoded = decode_reference(encode_reference(reference));
  return decoded ? ErrorCode::kInternal : decoded.error().code;
}

TEST(WeightReference, IsReadAsWritten) {
  const auto decoded = decode_reference(encode_reference(sample()));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, sample());
  EXPECT_TRUE(is_reference_layout(reference_layout()));
  EXPECT_FALSE(is_reference_layout({}));
}

TEST(WeightReference, RejectsEveryTruncationAndWhatFollows) {
  std::vector<std::byte> bytes = encode_reference(sample());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto decoded = decode_reference(std::span(bytes).first(n));
    ASSERT_FALSE(decoded) << n;
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorruptContext);
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_reference(bytes));
  bytes[0] = std::byte{'x'};
  EXPECT_FALSE(decode_reference(bytes));
}

TEST(WeightReference, RejectsRangesOutsideOfTheFile) {
  WeightReference reference = sample();
  reference.offset = 3697;
  EXPECT_EQ(refused(reference), ErrorCode::kCorruptContext);
  reference = sample();
  reference.offset = UINT64_MAX;
  EXPECT_EQ(refused(reference), ErrorCode::kCorruptContext);
  reference = sample();
  reference.size = UINT64_MAX - 5;
  EXPECT_EQ(refused(reference), ErrorCode::kCorruptContext);
  reference = sample();
  reference.file.clear();
  EXPECT_EQ(refused(reference), ErrorCode::kCorruptContext);
  reference.file.assign(5000, 'a');
  EXPECT_EQ(refused(reference), ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen
