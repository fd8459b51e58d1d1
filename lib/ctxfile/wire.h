#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// The protobuf wire format, as far as manifest.proto needs it (no groups).
enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a message. The accessors fail where the field has another wire type.
class WireField {
 public:
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t scalar = 0;            // kVarint, kFixed32, kFixed64
  std::span<const std::byte> payload;  // kBytes

  [[nodiscard]] Result<std::uint64_t> varint() const;
  [[nodiscard]] Result<std::uint32_t> u32() const;  // a varint below 2^32
  [[nodiscard]] Result<std::int64_t> zigzag() const;
  [[nodiscard]] Result<std::uint64_t> fixed64() const;
  [[nodiscard]] Result<float> f32() const;
  [[nodiscard]] Result<double> f64() const;
  [[nodiscard]] Result<std::span<const std::byte>> bytes() const;

 private:
  [[nodiscard]] Status expect(WireType wanted) const;
};

/// Walks over the fields of one message, or over the numbers of one packed field. Its bytes are
/// untrusted; every error is kCorruptContext.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  [[nodiscard]] bool done() const { return rest_.empty(); }
  [[nodiscard]] std::size_t remaining() const { return rest_.size(); }
  [[nodiscard]] Result<WireField> next();
  [[nodiscard]] Result<std::uint64_t> varint();
  [[nodiscard]] Result<std::uint64_t> fixed(std::size_t bytes);  // 4 or 8, little-endian

 private:
  std::span<const std::byte> rest_;
};

/// Builds one message. Zeros are left out unless the caller says that presence matters.
class WireWriter {
 public:
  enum class Zero { kLeaveOut, kWrite };
  void varint(std::uint32_t field, std::uint64_t value, Zero zero = Zero::kLeaveOut);
  void zigzag(std::uint32_t field, std::int64_t value, Zero zero = Zero::kLeaveOut);
  void fixed64(std::uint32_t field, std::uint64_t value, Zero zero = Zero::kLeaveOut);
  void f32(std::uint32_t field, float value);  // -0.0 is not zero
  void f64(std::uint32_t field, double value, Zero zero = Zero::kLeaveOut);
  void bytes(std::uint32_t field, std::span<const std::byte> value, Zero zero = Zero::kLeaveOut);
  void text(std::uint32_t field, std::string_view value, Zero zero = Zero::kLeaveOut);
  void message(std::uint32_t field, const WireWriter& message);  // always written
  /// The numbers of a packed field, without tag and length: write them by bytes().
  void packed_varint(std::uint64_t value) { put_varint(value); }
  void packed_zigzag(std::int64_t value);
  void packed_fixed64(std::uint64_t value) { put_fixed(value, 8); }

  [[nodiscard]] std::span<const std::byte> data() const { return out_; }
  [[nodiscard]] std::vector<std::byte> release() { return std::move(out_); }

 private:
  void tag(std::uint32_t field, WireType type);
  void put_varint(std::uint64_t value);
  void put_fixed(std::uint64_t value, std::size_t bytes);
  std::vector<std::byte> out_;
};

}  // namespace ctxgen
