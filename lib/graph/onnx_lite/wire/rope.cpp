#include "wire/rope.h"

#include <algorithm>

namespace ctxgen {

void Rope::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  runs_.push_back({size_, bytes});
  size_ += bytes.size();
}

std::span<const std::byte> Rope::seek(std::uint64_t at) const {
  const auto after = std::ranges::upper_bound(runs_, at, {}, &Run::begin);
  last_ = static_cast<std::size_t>(after - runs_.begin()) - 1;
  const Run& run = runs_[last_];
  return run.bytes.subspan(at - run.begin);
}

std::span<const std::byte> Rope::bytes(RopeRange range,
                                       std::forward_list<std::string>& copies) const {
  if (range.empty()) return {};
  const auto run = from(range.begin);
  if (run.size() >= range.size()) return run.first(range.size());
  std::string& copy = copies.emplace_front();
  copy.reserve(range.size());
  for (std::uint64_t at = range.begin; at < range.end; at = range.begin + copy.size()) {
    const auto part = from(at);
    copy += as_text(part.first(std::min<std::uint64_t>(part.size(), range.end - at)));
  }
  return as_bytes(copy);
}

bool RopeReader::read_varint(std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 70 && !left_.empty();) {
    auto run = rope_.from(left_.begin);
    run = run.first(std::min<std::uint64_t>(run.size(), left_.size()));
    for (const std::byte each : run) {
      const auto byte = static_cast<std::uint64_t>(each);
      ++left_.begin;
      if (shift < 64) value |= (byte & 0x7f) << shift;
      shift += 7;
      if ((byte & 0x80) == 0) return true;
      if (shift >= 70) return false;
    }
  }
  return false;
}

bool RopeReader::read_fixed(std::uint64_t size, std::uint64_t& value) {
  if (left_.size() < size) return false;
  value = 0;
  for (std::uint64_t i = 0; i < size; ++i)
    value |= static_cast<std::uint64_t>(rope_.from(left_.begin++).front()) << (8 * i);
  return true;
}

bool RopeReader::read_body(RopeField& field) {
  std::uint64_t size = 0;
  field.number = 0;
  field.body.begin = left_.begin;
  bool read = false;
  switch (static_cast<wire::Type>(field.tag & 7)) {
    case wire::Type::kVarint: read = read_varint(field.number); break;
    case wire::Type::kFixed64: read = read_fixed(8, field.number); break;
    case wire::Type::kFixed32: read = read_fixed(4, field.number); break;
    case wire::Type::kBytes:
      read = read_varint(size) && size <= left_.size();
      field.body.begin = left_.begin;
      if (read) left_.begin += size;
      break;
    default: break;  // groups, which ONNX never had
  }
  field.body.end = left_.begin;
  return read;
}

bool RopeReader::next(RopeField& field) {
  if (malformed_ || left_.empty()) return false;
  std::uint64_t tag = 0;
  malformed_ = !read_varint(tag) || tag > UINT32_MAX || tag < 8;
  field.tag = static_cast<std::uint32_t>(tag);
  malformed_ = malformed_ || !read_body(field);
  return !malformed_;
}

Status RopeReader::status() const {
  if (malformed_) return fail(ErrorCode::kInvalidGraph, "malformed or truncated protobuf message");
  return {};
}

}  // namespace ctxgen
