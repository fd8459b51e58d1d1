#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/protobuf_wire.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// One field of the manifest's messages. Unlike ONNX's, a known field has one wire type: the
/// accessors fail (kCorruptContext) where it has another.
class ManifestField {
 public:
  explicit ManifestField(const wire::Field& field) : number(field.field_number()), field_(field) {}
  std::uint32_t number;

  [[nodiscard]] Result<std::uint64_t> varint() const;
  [[nodiscard]] Result<std::uint32_t> u32() const;  // a varint below 2^32
  [[nodiscard]] Result<std::int64_t> zigzag() const;
  [[nodiscard]] Result<std::uint64_t> fixed64() const;
  [[nodiscard]] Result<float> f32() const;
  [[nodiscard]] Result<double> f64() const;
  [[nodiscard]] Result<std::span<const std::byte>> bytes() const;

 private:
  [[nodiscard]] Status expect(wire::Type wanted) const;
  const wire::Field& field_;
};

/// The numbers of one packed field. Its bytes are untrusted; every error is kCorruptContext.
class PackedNumbers {
 public:
  explicit PackedNumbers(std::span<const std::byte> bytes) : rest_(bytes) {}
  [[nodiscard]] bool done() const { return rest_.empty(); }
  [[nodiscard]] Result<std::uint64_t> varint();
  [[nodiscard]] Result<std::uint64_t> fixed64();

 private:
  std::span<const std::byte> rest_;
};

/// Builds one message. Zeros are left out unless the caller says that presence matters.
class ManifestWriter {
 public:
  enum class Zero { kLeaveOut, kWrite };
  void varint(std::uint32_t field, std::uint64_t value, Zero zero = Zero::kLeaveOut);
  void zigzag(std::uint32_t field, std::int64_t value, Zero zero = Zero::kLeaveOut);
  void fixed64(std::uint32_t field, std::uint64_t value, Zero zero = Zero::kLeaveOut);
  void f32(std::uint32_t field, float value);  // -0.0 is not zero
  void f64(std::uint32_t field, double value, Zero zero = Zero::kLeaveOut);
  void bytes(std::uint32_t field, std::span<const std::byte> value, Zero zero = Zero::kLeaveOut);
  void text(std::uint32_t field, std::string_view value, Zero zero = Zero::kLeaveOut);
  void message(std::uint32_t field, const ManifestWriter& message);  // always written
  /// The numbers of a packed field, without tag and length: write them by bytes().
  void packed_varint(std::uint64_t value) { put(wire::EncodedVarint(value).bytes()); }
  void packed_zigzag(std::int64_t value) { packed_varint(wire::zigzag(value)); }
  void packed_fixed64(std::uint64_t value) { put(std::as_bytes(std::span(&value, 1))); }

  [[nodiscard]] std::span<const std::byte> data() const { return out_; }
  [[nodiscard]] std::vector<std::byte> release() { return std::move(out_); }

 private:
  void put(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> out_;
};

}  // namespace ctxgen
