#include "wire.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ctxgen/base/blob.h"

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;

WireField first_field(const WireWriter& out) { return WireReader(out.data()).next().value(); }

std::span<const std::byte> bytes(std::string_view text) { return as_bytes(text); }

TEST(Wire, NumbersComeBack) {
  for (std::uint64_t number : {std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{128},
                               std::uint64_t{1} << 32, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    WireWriter out;
    out.varint(3, number);
    EXPECT_EQ(first_field(out).number, 3U);
    EXPECT_EQ(first_field(out).varint().value(), number);
    WireWriter fixed;
    fixed.fixed64(15, number);
    EXPECT_EQ(first_field(fixed).fixed64().value(), number);
  }
  for (std::int64_t number : {std::int64_t{-1}, std::int64_t{1}, INT64_MIN, INT64_MAX}) {
    WireWriter out;
    out.zigzag(1, number);
    EXPECT_EQ(first_field(out).zigzag().value(), number);
  }
}

TEST(Wire, ZerosAreLeftOutUnlessPresenceMatters) {
  WireWriter out;
  out.varint(1, 0);
  out.f32(2, 0.0F);
  out.f64(3, 0.0);
  out.text(4, "");
  EXPECT_TRUE(out.data().empty());
  out.f32(2, -0.0F);
  EXPECT_TRUE(std::signbit(first_field(out).f32().value()));
  WireWriter written;
  written.f64(3, 0.0, WireWriter::Zero::kWrite);
  EXPECT_EQ(first_field(written).f64().value(), 0.0);
}

TEST(Wire, FieldsOfAnotherTypeAreRefused) {
  WireWriter out;
  out.varint(1, std::uint64_t{1} << 32);
  const WireField field = first_field(out);
  EXPECT_EQ(code_of(field.varint()), test::kOk);
  EXPECT_EQ(code_of(field.u32()), ErrorCode::kCorruptContext);  // does not fit
  EXPECT_EQ(code_of(field.bytes()), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(field.fixed64()), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(field.f32()), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(field.f64()), ErrorCode::kCorruptContext);
  WireWriter text;
  text.text(1, "x");
  EXPECT_EQ(code_of(first_field(text).varint()), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(first_field(text).zigzag()), ErrorCode::kCorruptContext);
}

TEST(Wire, DamagedFieldsAreRefused) {
  const std::string_view cases[] = {
      {"\x08", 1},                                               // no number behind the tag
      {"\x08\x80", 2},                                           // a number cut off
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11},      // 65 bits
      {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12},  // eleven bytes
      {"\x09\x01\x02\x03\x04\x05\x06\x07", 8},                   // fixed64 cut off
      {"\x0d\x01\x02\x03", 4},                                   // fixed32 cut off
      {"\x0a\x05hell", 6},                                       // bytes cut off
      {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},      // 2^64 - 1 bytes
      {"\x0b", 1},                                               // a group
      {"\x0e", 1},                                               // wire type 6
      {"\x00\x00", 2},                                           // field 0
      {"\x80\x80\x80\x80\x10\x00", 6},                           // field 2^29
  };
  for (std::string_view text : cases)
    EXPECT_EQ(code_of(WireReader(bytes(text)).next()), ErrorCode::kCorruptContext)
        << testing::PrintToString(text);
}

TEST(Wire, TheLargestNumberTakesTenBytes) {
  WireReader reader(bytes({"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10}));
  EXPECT_EQ(reader.varint().value(), ~std::uint64_t{0});
  EXPECT_TRUE(reader.done());
}

}  // namespace
}  // namespace ctxgen
