#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// Reads little-endian fields from untrusted bytes. Every read is bounds-checked; a short buffer is
/// CORRUPT (kCorruptContext) and names `what`.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view what)
      : bytes_(bytes), what_(what) {}

  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::uint64_t remaining() const { return bytes_.size() - offset_; }

  [[nodiscard]] Result<std::span<const std::byte>> take(std::uint64_t count) {
    if (!range_fits(offset_, count, bytes_.size()))
      return fail(ErrorCode::kCorruptContext, "{}: need {} bytes at offset {}, have {}", what_,
                  count, offset_, remaining());
    const auto part = bytes_.subspan(offset_, count);
    offset_ += count;
    return part;
  }
  template <class T>
  [[nodiscard]] Result<T> number() {
    static_assert(std::is_arithmetic_v<T>);
    const auto part = CTXGEN_TRY(take(sizeof(T)));
    T value;
    std::memcpy(&value, part.data(), sizeof(T));  // x86-64 is little-endian
    return value;
  }
  [[nodiscard]] Result<std::uint8_t> u8() { return number<std::uint8_t>(); }
  [[nodiscard]] Result<std::uint16_t> u16() { return number<std::uint16_t>(); }
  [[nodiscard]] Result<std::uint32_t> u32() { return number<std::uint32_t>(); }
  [[nodiscard]] Result<std::uint64_t> u64() { return number<std::uint64_t>(); }
  [[nodiscard]] Result<std::int64_t> i64() { return number<std::int64_t>(); }
  /// A count that is followed by at least `bytes_each` bytes an item: bounds allocations.
  [[nodiscard]] Result<std::uint32_t> count(std::uint64_t bytes_each) {
    const auto n = CTXGEN_TRY(u32());
    if (bytes_each != 0 && n > remaining() / bytes_each)
      return fail(ErrorCode::kCorruptContext, "{}: {} items declared, {} bytes left", what_, n,
                  remaining());
    return n;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view what_;
  std::uint64_t offset_ = 0;
};

/// Appends little-endian fields to a growing buffer.
class ByteWriter {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  void u8(std::uint8_t v) { number(v); }
  void u16(std::uint16_t v) { number(v); }
  void u32(std::uint32_t v) { number(v); }
  void u64(std::uint64_t v) { number(v); }
  void i64(std::int64_t v) { number(v); }
  void bytes(std::span<const std::byte> b) { out_.insert(out_.end(), b.begin(), b.end()); }
  void text(std::string_view t) { bytes(std::as_bytes(std::span(t.data(), t.size()))); }
  void pad_to(std::uint64_t alignment) {
    out_.resize(align_up(out_.size(), alignment), std::byte{0});
  }
  [[nodiscard]] std::size_t size() const { return out_.size(); }
  [[nodiscard]] std::vector<std::byte>& buffer() { return out_; }
  [[nodiscard]] std::vector<std::byte> release() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

}  // namespace ctxgen
