#include "wire/wire.h"

#include <bit>
#include <cstring>

namespace ctxgen::wire {

float Field::real() const { return std::bit_cast<float>(static_cast<std::uint32_t>(number)); }

bool Reader::read_varint(std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
    const auto byte = static_cast<std::uint64_t>(*at_++);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

bool Reader::read_body() {
  const auto left = static_cast<std::uint64_t>(end_ - at_);
  const std::byte* start = at_;
  std::uint64_t size = 0;
  field_.number = 0;
  switch (static_cast<Type>(field_.tag & 7)) {
    case Type::kVarint:
      if (!read_varint(field_.number)) return false;
      field_.body = {start, at_};
      return true;
    case Type::kFixed64: size = 8; break;
    case Type::kFixed32: size = 4; break;
    case Type::kBytes:
      if (!read_varint(size) || size > static_cast<std::uint64_t>(end_ - at_)) return false;
      field_.body = {at_, static_cast<std::size_t>(size)};
      at_ += size;
      return true;
    default: return false;  // groups, which ONNX never had
  }
  if (size > left) return false;
  std::memcpy(&field_.number, at_, size);  // little-endian, as x86-64
  field_.body = {at_, static_cast<std::size_t>(size)};
  at_ += size;
  return true;
}

const Field* Reader::next() {
  if (malformed_ || at_ == end_) return nullptr;
  const std::byte* start = at_;
  std::uint64_t tag_value = 0;
  malformed_ = !read_varint(tag_value) || tag_value > UINT32_MAX || tag_value < 8;
  field_.tag = static_cast<std::uint32_t>(tag_value);
  if (malformed_ || !read_body()) {
    malformed_ = true;
    return nullptr;
  }
  field_.whole = {start, at_};
  return &field_;
}

Status Reader::status() const {
  if (malformed_)
    return fail(ErrorCode::kInvalidGraph, "{}: malformed or truncated protobuf message", what_);
  return {};
}

std::optional<std::uint64_t> take_varint(std::span<const std::byte>& bytes) {
  std::uint64_t value = 0;
  std::size_t used = 0;
  for (int shift = 0; shift < 70 && used < bytes.size(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(bytes[used++]);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) != 0) continue;
    bytes = bytes.subspan(used);
    return value;
  }
  return std::nullopt;
}

std::size_t varint_size(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

}  // namespace ctxgen::wire
