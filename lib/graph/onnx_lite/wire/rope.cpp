#include "wire/rope.h"

#include <algorithm>
#include <array>

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

std::span<const std::byte> Rope::window(RopeRange range, std::span<std::byte> copy) const {
  const std::size_t wanted = std::min<std::uint64_t>(copy.size(), range.size());
  if (const auto run = from(range.begin); run.size() >= wanted) return run;
  for (std::size_t used = 0; used < wanted;) {
    const auto run = from(range.begin + used);
    const auto part = run.first(std::min(run.size(), wanted - used));
    std::ranges::copy(part, copy.begin() + static_cast<std::ptrdiff_t>(used));
    used += part.size();
  }
  return copy.first(wanted);
}

bool RopeReader::next(RopeField& field) {
  if (malformed_ || left_.empty()) return false;
  std::array<std::byte, wire::kMaxHeadBytes> copy;
  wire::FieldHead head;
  malformed_ = wire::read_head(rope_.window(left_, copy), left_.size(), head) != wire::Fault::kNone;
  if (malformed_) return false;
  field = {head.tag, head.number, {left_.begin + head.body_offset, 0}};
  field.body.end = left_.begin = field.body.begin + head.body_size;
  return true;
}

Status RopeReader::status() const {
  if (malformed_) return fail(ErrorCode::kInvalidGraph, "malformed or truncated protobuf message");
  return {};
}

}  // namespace ctxgen
