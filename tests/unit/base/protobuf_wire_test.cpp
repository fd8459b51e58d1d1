#include "ctxgen/base/protobuf_wire.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "code_of.h"

namespace ctxgen::wire {
namespace {

using namespace std::string_view_literals;
using test::code_of;

std::string text_of(std::span<const std::byte> bytes) { return std::string(as_text(bytes)); }
std::string encoded(std::uint64_t value, std::size_t least_bytes = 1) {
  return text_of(EncodedVarint(value, least_bytes).bytes());
}

TEST(ProtobufWire, VarintsComeBack) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t value : {std::uint64_t{1} << bit, (std::uint64_t{1} << bit) - 1}) {
      const std::string text = encoded(value);
      EXPECT_EQ(text.size(), varint_size(value));
      auto rest = as_bytes(text);
      EXPECT_EQ(take_varint(rest), value);
      EXPECT_TRUE(rest.empty());
    }
  }
}

TEST(ProtobufWire, VarintsHaveUpToTenBytesAnd64Bits) {
  const auto largest = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv;
  EXPECT_EQ(encoded(~std::uint64_t{0}), largest);
  auto rest = as_bytes(largest);
  EXPECT_EQ(take_varint(rest), ~std::uint64_t{0});
  for (std::size_t bytes = 1; bytes <= kMaxVarintBytes; ++bytes) {
    const std::string padded = encoded(5, bytes);
    EXPECT_EQ(padded.size(), bytes);
    rest = as_bytes(padded);
    EXPECT_EQ(take_varint(rest), 5U);
  }
  for (const std::string_view text :
       {""sv, "\x80"sv, "\xff\xff\xff\xff\xff\xff\xff\xff\xff"sv,  // cut off
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"sv,              // 65 bits
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7e"sv,              // bits above the 64th alone
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"sv,          // eleven bytes of zeros
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"sv}) {
    rest = as_bytes(text);
    EXPECT_EQ(take_varint(rest), std::nullopt) << testing::PrintToString(text);
    EXPECT_EQ(rest.size(), text.size()) << "left as it was";
  }
}

TEST(ProtobufWire, ZigzagComesBack) {
  EXPECT_EQ(zigzag(0), 0U);
  EXPECT_EQ(zigzag(-1), 1U);
  EXPECT_EQ(zigzag(1), 2U);
  EXPECT_EQ(zigzag(INT64_MIN), ~std::uint64_t{0});
  for (const std::int64_t value :
       {INT64_MIN, INT64_MIN + 1, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, INT64_MAX})
    EXPECT_EQ(unzigzag(zigzag(value)), value);
}

TEST(ProtobufWire, ReadsEveryKindOfField) {
  const auto message =
      "\x08\x96\x01"                         // 1: 150
      "\x12\x03"                             // 2: three bytes
      "abc"                                  //
      "\x1d\x00\x00\x00\x3f"                 // 3: 0.5F
      "\xf9\xff\xff\xff\x0f"                 // 2^29 - 1
      "\x01\x02\x03\x04\x05\x06\x07\x88"sv;  //
  Reader reader(as_bytes(message));
  const Field* field = reader.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->tag, varint(1));
  EXPECT_EQ(field->number, 150U);
  EXPECT_EQ(field->integer(), 150);
  EXPECT_EQ(field->text(), "\x96\x01"sv);
  EXPECT_EQ(text_of(field->whole), "\x08\x96\x01"sv);
  field = reader.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->tag, bytes(2));
  EXPECT_EQ(field->number, 0U);
  EXPECT_EQ(field->text(), "abc");
  EXPECT_EQ(text_of(field->whole),
            "\x12\x03"
            "abc");
  field = reader.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->tag, fixed32(3));
  EXPECT_EQ(field->real(), 0.5F);
  field = reader.next();
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(field->tag, fixed64((1U << 29) - 1));
  EXPECT_EQ(field->type(), Type::kFixed64);
  EXPECT_EQ(field->field_number(), (1U << 29) - 1);
  EXPECT_EQ(field->number, 0x8807060504030201U);
  EXPECT_EQ(field->body.size(), 8U);
  EXPECT_EQ(reader.next(), nullptr);
  EXPECT_EQ(code_of(reader.status(ErrorCode::kInternal)), test::kOk);
}

TEST(ProtobufWire, AnEmptyMessageHasNoFields) {
  Reader reader({});
  EXPECT_EQ(reader.next(), nullptr);
  EXPECT_FALSE(reader.malformed());
}

struct Damaged {
  std::string_view bytes;
  std::string_view message;
};
constexpr Damaged kDamaged[] = {
    {"\x08"sv, "a number is cut off"},
    {"\x08\x80"sv, "a number is cut off"},
    {"\x80"sv, "a number is cut off"},
    {"\x0a"sv, "a number is cut off"},
    {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"sv, "a number passes 64 bits"},
    {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"sv, "a number passes 64 bits"},
    {"\x88\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x01"sv, "a number passes 64 bits"},
    {"\x09\x01\x02\x03\x04\x05\x06\x07"sv, "need 8 bytes for a number, have 7"},
    {"\x0d\x01\x02\x03"sv, "need 4 bytes for a number, have 3"},
    {"\x0a\x05hell"sv, "field 1 declares 5 bytes, 4 are left"},
    {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv,
     "field 1 declares 18446744073709551615 bytes, 0 are left"},
    {"\x0b"sv, "field 1 has unknown wire type 3"},
    {"\x16"sv, "field 2 has unknown wire type 6"},
    {"\x00\x00"sv, "field number 0 is out of range"},
    {"\x80\x80\x80\x80\x10\x00"sv, "field number 536870912 is out of range"},
    {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv,
     "field number 2305843009213693951 is out of range"},
};

TEST(ProtobufWire, DamagedFieldsEndTheWalk) {
  for (const Damaged& damaged : kDamaged) {
    const std::string text = "\x08\x01" + std::string(damaged.bytes);
    Reader reader(as_bytes(text));
    EXPECT_NE(reader.next(), nullptr);
    EXPECT_FALSE(reader.malformed());
    EXPECT_EQ(reader.next(), nullptr) << damaged.message;
    EXPECT_EQ(reader.next(), nullptr) << "stays at its end";
    EXPECT_TRUE(reader.malformed());
    const Status status = reader.status(ErrorCode::kCorruptContext);
    ASSERT_EQ(code_of(status), ErrorCode::kCorruptContext);
    EXPECT_EQ(status.error().message, damaged.message);
  }
}

TEST(ProtobufWire, EveryTruncationIsFoundAndNothingBehindIsRead) {
  // The copies end where the message does: address sanitizers see what is read behind.
  const std::string whole = std::string("\x8a\x80\x80\x00", 4) + encoded(3, kMaxVarintBytes) +
                            "abc" + "\x09" + "12345678" + "\x0d" + "1234";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<char> copy(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    Reader reader(as_bytes(std::string_view(copy.data(), copy.size())));
    std::size_t read = 0;
    while (const Field* field = reader.next()) read += field->whole.size();
    EXPECT_EQ(reader.malformed(), read != size) << size;
  }
}

TEST(ProtobufWire, AHeadIsReadFromTheWindowAlone) {
  // Tag and length of ten bytes each: what is behind them need not be there.
  const std::string head = encoded(bytes(1), kMaxVarintBytes) + encoded(1000, kMaxVarintBytes);
  ASSERT_EQ(head.size(), kMaxHeadBytes);
  FieldHead read;
  EXPECT_EQ(read_head(as_bytes(head), 1020, read), Fault::kNone);
  EXPECT_EQ(read.tag, bytes(1));
  EXPECT_EQ(read.body_offset, kMaxHeadBytes);
  EXPECT_EQ(read.body_size, 1000U);
  EXPECT_EQ(read_head(as_bytes(head), 1019, read), Fault::kBytesCutOff);
  // A window may go on behind the message.
  EXPECT_EQ(read_head(as_bytes("\x08\x80\x01"sv), 2, read), Fault::kVarintCutOff);
}

}  // namespace
}  // namespace ctxgen::wire
