#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/tensor.h"

// What the targets share. A target is one LLVMFuzzerTestOneInput; libFuzzer drives it under
// ./dev fuzz, replay.cpp over the committed corpus in the ordinary tests.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ctxgen::fuzz {

/// A copy of exactly this size, so that the address sanitizer sees a read past the end.
inline Blob exact(std::span<const std::byte> bytes) {
  return Blob::own({bytes.begin(), bytes.end()});
}
inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

/// A property that must hold for every input: a finding where it does not.
inline void expect(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: broken: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// Decisions taken from the front of an input; 0 when it is used up.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> bytes) : rest_(bytes) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  std::size_t below(std::size_t end) { return end == 0 ? 0 : byte() % end; }
  std::uint64_t u64() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  std::string_view text(std::size_t size) {
    size = std::min(size, rest_.size());
    const std::string_view taken(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
};

/// Elements that are the same in every run: small numbers of either sign in most types.
inline void fill(Tensor& tensor, std::uint8_t first) {
  if (tensor.is_string()) {
    for (std::string& text : tensor.mutable_strings())
      text = std::string(1, static_cast<char>('a' + first++ % 26));
    return;
  }
  auto bytes = tensor.mutable_bytes();
  const std::size_t size = std::max<std::size_t>(bits_of(tensor.type()) / 8, 1);
  const float small = 0.5F;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::memset(bytes.data() + at, 0, std::min(size, bytes.size() - at));
    if (tensor.type() == DataType::kFloat)
      std::memcpy(bytes.data() + at, &small, sizeof small);
    else
      bytes[at] = static_cast<std::byte>(first++ % 4);
  }
}

}  // namespace ctxgen::fuzz
