#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/hash.h"

#include "wire/rope.h"

namespace ctxgen {

/// Hashes numbers and texts; small ones are gathered first.
class ContentFeed {
 public:
  void number(std::uint64_t value) { bytes(std::as_bytes(std::span(&value, 1))); }  // little-endian
  void text(std::string_view value) {
    number(value.size());
    bytes(as_bytes(value));
  }
  void text(const Rope& rope, RopeRange range) {
    number(range.size());
    bytes(rope, range);
  }
  void bytes(std::span<const std::byte> value) {
    if (value.size() > buffer_.size() - used_) {
      flush();
      if (value.size() > buffer_.size()) {
        hasher_.add(value);
        return;
      }
    }
    if (!value.empty()) std::memcpy(buffer_.data() + used_, value.data(), value.size());
    used_ += value.size();
  }
  void bytes(const Rope& rope, RopeRange range) {
    while (!range.empty()) {
      const auto run = rope.from(range.begin);
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(run.size(), range.size()));
      bytes(run.first(size));
      range.begin += size;
    }
  }
  [[nodiscard]] Hash128 finish() {
    flush();
    return hasher_.finish();
  }

 private:
  void flush() {
    hasher_.add(std::span<const std::byte>(buffer_).first(used_));
    used_ = 0;
  }

  Hasher hasher_;
  std::array<std::byte, 4096> buffer_;
  std::size_t used_ = 0;
};

}  // namespace ctxgen
