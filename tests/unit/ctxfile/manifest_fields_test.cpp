#include "manifest_fields.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "ctxgen/base/blob.h"

#include "code_of.h"

namespace ctxgen {
namespace {

using test::code_of;

/// Calls `use` with the first field of what was written.
template <class Use>
auto first_field(const ManifestWriter& out, Use&& use) {
  wire::Reader reader(out.data());
  const wire::Field* field = reader.next();
  EXPECT_NE(field, nullptr);
  return use(ManifestField(*field));
}

TEST(ManifestFields, NumbersComeBack) {
  for (std::uint64_t number : {std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{128},
                               std::uint64_t{1} << 32, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    ManifestWriter out;
    out.varint(3, number);
    first_field(out, [&](const ManifestField& field) {
      EXPECT_EQ(field.number, 3U);
      EXPECT_EQ(field.varint().value(), number);
    });
    ManifestWriter fixed;
    fixed.fixed64(15, number);
    first_field(fixed,
                [&](const ManifestField& field) { EXPECT_EQ(field.fixed64().value(), number); });
  }
  for (std::int64_t number : {std::int64_t{-1}, std::int64_t{1}, INT64_MIN, INT64_MAX}) {
    ManifestWriter out;
    out.zigzag(1, number);
    first_field(out,
                [&](const ManifestField& field) { EXPECT_EQ(field.zigzag().value(), number); });
  }
}

TEST(ManifestFields, ZerosAreLeftOutUnlessPresenceMatters) {
  ManifestWriter out;
  out.varint(1, 0);
  out.f32(2, 0.0F);
  out.f64(3, 0.0);
  out.text(4, "");
  EXPECT_TRUE(out.data().empty());
  out.f32(2, -0.0F);
  first_field(out,
              [](const ManifestField& field) { EXPECT_TRUE(std::signbit(field.f32().value())); });
  ManifestWriter written;
  written.f64(3, 0.0, ManifestWriter::Zero::kWrite);
  first_field(written, [](const ManifestField& field) { EXPECT_EQ(field.f64().value(), 0.0); });
}

TEST(ManifestFields, AnotherWireTypeIsRefused) {
  ManifestWriter out;
  out.varint(1, std::uint64_t{1} << 32);
  first_field(out, [](const ManifestField& field) {
    EXPECT_EQ(code_of(field.varint()), test::kOk);
    EXPECT_EQ(code_of(field.u32()), ErrorCode::kCorruptContext);  // does not fit
    EXPECT_EQ(code_of(field.bytes()), ErrorCode::kCorruptContext);
    EXPECT_EQ(code_of(field.fixed64()), ErrorCode::kCorruptContext);
    EXPECT_EQ(code_of(field.f32()), ErrorCode::kCorruptContext);
    EXPECT_EQ(code_of(field.f64()), ErrorCode::kCorruptContext);
  });
  ManifestWriter text;
  text.text(1, "x");
  first_field(text, [](const ManifestField& field) {
    EXPECT_EQ(code_of(field.varint()), ErrorCode::kCorruptContext);
    EXPECT_EQ(code_of(field.zigzag()), ErrorCode::kCorruptContext);
  });
}

TEST(ManifestFields, PackedNumbersComeBack) {
  ManifestWriter packed;
  packed.packed_varint(300);
  packed.packed_zigzag(INT64_MIN);
  packed.packed_fixed64(7);
  PackedNumbers numbers(packed.data());
  EXPECT_EQ(numbers.varint().value(), 300U);
  EXPECT_EQ(wire::unzigzag(numbers.varint().value()), INT64_MIN);
  EXPECT_EQ(numbers.fixed64().value(), 7U);
  EXPECT_TRUE(numbers.done());
}

TEST(ManifestFields, DamagedPackedNumbersAreRefused) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"\x80"sv, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"sv})
    EXPECT_EQ(code_of(PackedNumbers(as_bytes(text)).varint()), ErrorCode::kCorruptContext);
  EXPECT_EQ(code_of(PackedNumbers(as_bytes("1234567"sv)).fixed64()), ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen
