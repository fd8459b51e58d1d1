#include "bundle/tar_frame.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

constexpr std::size_t kBlock = 512;

/// The sum that a header states, and the one that it has with blanks in that place.
void expect_checksum(const std::string& header) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  EXPECT_EQ(std::stoul(header.substr(148, 6), nullptr, 8), sum);
}

TEST(TarFrame, IsOneHeaderAndWholeBlocks) {
  const TarFrame frame = tar_frame("model_ctx.onnx", 1000);
  ASSERT_EQ(frame.before.size(), kBlock);
  expect_checksum(frame.before);
  EXPECT_EQ(frame.before.substr(0, 15), std::string("model_ctx.onnx\0", 15));
  EXPECT_EQ(frame.before.substr(124, 11), "00000001750");
  EXPECT_EQ(frame.before[156], '0');
  EXPECT_EQ(frame.before.substr(257, 8), std::string("ustar\0"
                                                     "00",
                                                     8));
  EXPECT_EQ(frame.after, std::string(24 + 2 * kBlock, '\0'));
  EXPECT_EQ(tar_frame("x", kBlock).after.size(), 2 * kBlock);
  EXPECT_EQ(tar_frame("x", 0).after.size(), 2 * kBlock);
}

TEST(TarFrame, WhatDoesNotFitIsInRecords) {
  const std::string name(120, 'n');
  const std::uint64_t most = (std::uint64_t{1} << 33) - 1;
  const TarFrame frame = tar_frame(name, most + 1);
  ASSERT_EQ(frame.before.size(), 3 * kBlock);
  EXPECT_EQ(frame.before[156], 'x');
  expect_checksum(frame.before);
  expect_checksum(frame.before.substr(2 * kBlock));
  const std::string path = "130 path=" + name + "\n", size = "19 size=8589934592\n";
  EXPECT_EQ(frame.before.substr(kBlock, path.size() + size.size()), path + size);
  EXPECT_EQ(path.size(), 130U);
  EXPECT_EQ(size.size(), 19U);
  EXPECT_EQ(frame.after.size(), 2 * kBlock);
  EXPECT_EQ(tar_frame("x", most).before.size(), kBlock);
  EXPECT_EQ(tar_frame(name.substr(0, 100), 0).before.size(), kBlock);
}

/// A record counts its own digits: 99 + 2 digits would be 101, which has three.
TEST(TarFrame, ALengthThatGrowsByItsOwnDigits) {
  for (std::size_t length = 101; length < 1100; ++length) {
    const std::string header = tar_frame(std::string(length, 'n'), 1).before.substr(kBlock);
    const std::size_t stated = std::stoul(header);
    EXPECT_EQ(header[stated - 1], '\n') << length;
    EXPECT_EQ(header.substr(0, stated),
              std::to_string(stated) + " path=" + std::string(length, 'n') + "\n");
  }
}

}  // namespace
}  // namespace ctxgen
