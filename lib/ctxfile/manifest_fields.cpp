#include "manifest_fields.h"

#include <cstring>
#include <limits>

#include "ctxgen/base/blob.h"

namespace ctxgen {

Status ManifestField::expect(wire::Type wanted) const {
  if (field_.type() == wanted) return {};
  return fail(ErrorCode::kCorruptContext, "field {} has wire type {}, expected {}", number,
              static_cast<int>(field_.type()), static_cast<int>(wanted));
}

Result<std::uint64_t> ManifestField::varint() const {
  CTXGEN_CHECK(expect(wire::Type::kVarint));
  return field_.number;
}

Result<std::uint32_t> ManifestField::u32() const {
  const std::uint64_t value = CTXGEN_TRY(varint());
  if (value > std::numeric_limits<std::uint32_t>::max())
    return fail(ErrorCode::kCorruptContext, "field {} is {}, expected 32 bits", number, value);
  return static_cast<std::uint32_t>(value);
}

Result<std::int64_t> ManifestField::zigzag() const {
  const std::uint64_t bits = CTXGEN_TRY(varint());
  return wire::unzigzag(bits);
}

Result<std::uint64_t> ManifestField::fixed64() const {
  CTXGEN_CHECK(expect(wire::Type::kFixed64));
  return field_.number;
}

Result<float> ManifestField::f32() const {
  CTXGEN_CHECK(expect(wire::Type::kFixed32));
  return field_.real();
}

Result<double> ManifestField::f64() const {
  const std::uint64_t bits = CTXGEN_TRY(fixed64());
  return std::bit_cast<double>(bits);
}

Result<std::span<const std::byte>> ManifestField::bytes() const {
  CTXGEN_CHECK(expect(wire::Type::kBytes));
  return field_.body;
}

Result<std::uint64_t> PackedNumbers::varint() {
  const std::byte* at = rest_.data();
  std::uint64_t value = 0;
  const wire::Fault fault = wire::read_varint(at, at + rest_.size(), value);
  if (fault != wire::Fault::kNone)
    return fail(ErrorCode::kCorruptContext, "{}", wire::describe(fault, {}, rest_.size()));
  rest_ = rest_.subspan(static_cast<std::size_t>(at - rest_.data()));
  return value;
}

Result<std::uint64_t> PackedNumbers::fixed64() {
  std::uint64_t value = 0;
  if (rest_.size() < sizeof value)
    return fail(
        ErrorCode::kCorruptContext, "{}",
        wire::describe(wire::Fault::kFixedCutOff, {.body_size = sizeof value}, rest_.size()));
  std::memcpy(&value, rest_.data(), sizeof value);  // little-endian, as x86-64
  rest_ = rest_.subspan(sizeof value);
  return value;
}

void ManifestWriter::varint(std::uint32_t field, std::uint64_t value, Zero zero) {
  if (value == 0 && zero == Zero::kLeaveOut) return;
  packed_varint(wire::varint(field));
  packed_varint(value);
}

void ManifestWriter::zigzag(std::uint32_t field, std::int64_t value, Zero zero) {
  varint(field, wire::zigzag(value), zero);
}

void ManifestWriter::fixed64(std::uint32_t field, std::uint64_t value, Zero zero) {
  if (value == 0 && zero == Zero::kLeaveOut) return;
  packed_varint(wire::fixed64(field));
  packed_fixed64(value);
}

void ManifestWriter::f32(std::uint32_t field, float value) {
  if (std::bit_cast<std::uint32_t>(value) == 0) return;
  packed_varint(wire::fixed32(field));
  put(std::as_bytes(std::span(&value, 1)));
}

void ManifestWriter::f64(std::uint32_t field, double value, Zero zero) {
  fixed64(field, std::bit_cast<std::uint64_t>(value), zero);
}

void ManifestWriter::bytes(std::uint32_t field, std::span<const std::byte> value, Zero zero) {
  if (value.empty() && zero == Zero::kLeaveOut) return;
  packed_varint(wire::bytes(field));
  packed_varint(value.size());
  put(value);
}

void ManifestWriter::text(std::uint32_t field, std::string_view value, Zero zero) {
  bytes(field, as_bytes(value), zero);
}

void ManifestWriter::message(std::uint32_t field, const ManifestWriter& message) {
  bytes(field, message.data(), Zero::kWrite);
}

}  // namespace ctxgen
