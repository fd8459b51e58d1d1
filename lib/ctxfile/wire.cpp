#include "wire.h"

#include <limits>

#include "ctxgen/base/blob.h"

namespace ctxgen {
namespace {

constexpr std::uint64_t zigzag_encode(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return (bits << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0);
}

}  // namespace

Status WireField::expect(WireType wanted) const {
  if (type == wanted) return {};
  return fail(ErrorCode::kCorruptContext, "field {} has wire type {}, expected {}", number,
              static_cast<int>(type), static_cast<int>(wanted));
}

Result<std::uint64_t> WireField::varint() const {
  CTXGEN_CHECK(expect(WireType::kVarint));
  return scalar;
}

Result<std::uint32_t> WireField::u32() const {
  CTXGEN_CHECK(expect(WireType::kVarint));
  if (scalar > std::numeric_limits<std::uint32_t>::max())
    return fail(ErrorCode::kCorruptContext, "field {} is {}, expected 32 bits", number, scalar);
  return static_cast<std::uint32_t>(scalar);
}

Result<std::int64_t> WireField::zigzag() const {
  CTXGEN_CHECK(expect(WireType::kVarint));
  return std::bit_cast<std::int64_t>((scalar >> 1) ^ (~(scalar & 1) + 1));
}

Result<std::uint64_t> WireField::fixed64() const {
  CTXGEN_CHECK(expect(WireType::kFixed64));
  return scalar;
}

Result<float> WireField::f32() const {
  CTXGEN_CHECK(expect(WireType::kFixed32));
  return std::bit_cast<float>(static_cast<std::uint32_t>(scalar));
}

Result<double> WireField::f64() const {
  CTXGEN_CHECK(expect(WireType::kFixed64));
  return std::bit_cast<double>(scalar);
}

Result<std::span<const std::byte>> WireField::bytes() const {
  CTXGEN_CHECK(expect(WireType::kBytes));
  return payload;
}

Result<std::uint64_t> WireReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return fail(ErrorCode::kCorruptContext, "a number is cut off");
    const auto byte = std::to_integer<std::uint64_t>(rest_.front());
    rest_ = rest_.subspan(1);
    if (shift == 63 && byte > 1) break;  // a tenth byte has one bit to give
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return fail(ErrorCode::kCorruptContext, "a number passes 64 bits");
}

Result<std::uint64_t> WireReader::fixed(std::size_t bytes) {
  if (rest_.size() < bytes)
    return fail(ErrorCode::kCorruptContext, "need {} bytes for a number, have {}", bytes,
                rest_.size());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= std::to_integer<std::uint64_t>(rest_[i]) << (8 * i);
  rest_ = rest_.subspan(bytes);
  return value;
}

Result<WireField> WireReader::next() {
  const auto tag = CTXGEN_TRY(varint());
  WireField field;
  if (tag >> 3 == 0 || tag >> 3 >= (std::uint64_t{1} << 29))
    return fail(ErrorCode::kCorruptContext, "field number {} is out of range", tag >> 3);
  field.number = static_cast<std::uint32_t>(tag >> 3);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint: field.scalar = CTXGEN_TRY(varint()); return field;
    case WireType::kFixed64: field.scalar = CTXGEN_TRY(fixed(8)); return field;
    case WireType::kFixed32: field.scalar = CTXGEN_TRY(fixed(4)); return field;
    case WireType::kBytes: {
      const auto length = CTXGEN_TRY(varint());
      if (length > rest_.size())
        return fail(ErrorCode::kCorruptContext, "field {} declares {} bytes, {} are left",
                    field.number, length, rest_.size());
      field.payload = rest_.first(length);
      rest_ = rest_.subspan(length);
      return field;
    }
  }
  return fail(ErrorCode::kCorruptContext, "field {} has unknown wire type {}", field.number,
              tag & 7);
}

void WireWriter::put_varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::byte>(value | 0x80));
  out_.push_back(static_cast<std::byte>(value));
}

void WireWriter::put_fixed(std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void WireWriter::tag(std::uint32_t field, WireType type) {
  put_varint((std::uint64_t{field} << 3) | static_cast<std::uint64_t>(type));
}

void WireWriter::varint(std::uint32_t field, std::uint64_t value, Zero zero) {
  if (value == 0 && zero == Zero::kLeaveOut) return;
  tag(field, WireType::kVarint);
  put_varint(value);
}

void WireWriter::zigzag(std::uint32_t field, std::int64_t value, Zero zero) {
  varint(field, zigzag_encode(value), zero);
}

void WireWriter::packed_zigzag(std::int64_t value) { put_varint(zigzag_encode(value)); }

void WireWriter::fixed64(std::uint32_t field, std::uint64_t value, Zero zero) {
  if (value == 0 && zero == Zero::kLeaveOut) return;
  tag(field, WireType::kFixed64);
  put_fixed(value, 8);
}

void WireWriter::f32(std::uint32_t field, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (bits == 0) return;
  tag(field, WireType::kFixed32);
  put_fixed(bits, 4);
}

void WireWriter::f64(std::uint32_t field, double value, Zero zero) {
  fixed64(field, std::bit_cast<std::uint64_t>(value), zero);
}

void WireWriter::bytes(std::uint32_t field, std::span<const std::byte> value, Zero zero) {
  if (value.empty() && zero == Zero::kLeaveOut) return;
  tag(field, WireType::kBytes);
  put_varint(value.size());
  out_.insert(out_.end(), value.begin(), value.end());
}

void WireWriter::text(std::uint32_t field, std::string_view value, Zero zero) {
  bytes(field, as_bytes(value), zero);
}

void WireWriter::message(std::uint32_t field, const WireWriter& message) {
  bytes(field, message.data(), Zero::kWrite);
}

}  // namespace ctxgen
