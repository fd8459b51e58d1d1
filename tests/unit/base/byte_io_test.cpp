#include "ctxgen/base/byte_io.h"

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;

TEST(ByteWriter, IsLittleEndian) {
  ByteWriter out;
  out.u8(1);
  out.u16(0x0203);
  out.u32(0x04050607);
  out.u64(0x08090a0b0c0d0e0f);
  out.i64(-2);
  out.text("ab");
  const std::vector<std::byte> bytes = out.release();
  const unsigned char expected[] = {1,    3,    2,    7,    6,    5,   4,    15,   14,
                                    13,   12,   11,   10,   9,    8,   0xfe, 0xff, 0xff,
                                    0xff, 0xff, 0xff, 0xff, 0xff, 'a', 'b'};
  ASSERT_EQ(bytes.size(), sizeof(expected));
  EXPECT_EQ(std::memcmp(bytes.data(), expected, sizeof(expected)), 0);
}

TEST(ByteWriter, PadsWithZeros) {
  ByteWriter out;
  out.u8(0xff);
  out.pad_to(8);
  EXPECT_EQ(out.size(), 8U);
  EXPECT_EQ(out.buffer()[7], std::byte{0});
  out.pad_to(8);
  EXPECT_EQ(out.size(), 8U);
}

TEST(ByteReader, ReadsBackWhatWasWritten) {
  ByteWriter out;
  out.u8(200);
  out.u16(60000);
  out.u32(4000000000);
  out.u64(std::uint64_t{1} << 63);
  out.i64(-5);
  const auto bytes = out.release();
  ByteReader reader(bytes, "test");
  EXPECT_EQ(reader.u8().value(), 200);
  EXPECT_EQ(reader.u16().value(), 60000);
  EXPECT_EQ(reader.u32().value(), 4000000000);
  EXPECT_EQ(reader.u64().value(), std::uint64_t{1} << 63);
  EXPECT_EQ(reader.offset(), 15U);
  EXPECT_EQ(reader.i64().value(), -5);
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(ByteReader, RefusesWhatIsCutOffAndStaysWhereItWas) {
  const std::vector<std::byte> bytes(7);
  ByteReader reader(bytes, "test");
  EXPECT_EQ(code_of(reader.u64()), ErrorCode::kCorruptContext);
  EXPECT_EQ(reader.offset(), 0U);
  EXPECT_EQ(code_of(reader.u32()), test::kOk);
  EXPECT_EQ(code_of(reader.u32()), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(reader.take(~std::uint64_t{0})), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(reader.take(3)), test::kOk);
  EXPECT_EQ(code_of(reader.u8()), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(reader.take(0)), test::kOk);
}

TEST(ByteReader, BoundsCountsByTheBytesLeft) {
  ByteWriter out;
  out.u32(3);
  out.u64(0);
  const auto bytes = out.release();
  EXPECT_EQ(ByteReader(bytes, "test").count(2).value(), 3U);
  EXPECT_EQ(code_of(ByteReader(bytes, "test").count(3)), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(ByteReader(bytes, "test").count(~std::uint64_t{0})),
            ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen
