#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"

namespace ctxgen::wire {

enum class Type : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// The tag of a field: a known number with another wire type is an unknown field, as in protobuf.
[[nodiscard]] constexpr std::uint32_t tag(std::uint32_t number, Type type) {
  return number << 3 | static_cast<std::uint32_t>(type);
}
[[nodiscard]] constexpr std::uint32_t varint(std::uint32_t number) {
  return tag(number, Type::kVarint);
}
[[nodiscard]] constexpr std::uint32_t bytes(std::uint32_t number) {
  return tag(number, Type::kBytes);
}
[[nodiscard]] constexpr std::uint32_t fixed32(std::uint32_t number) {
  return tag(number, Type::kFixed32);
}
[[nodiscard]] constexpr std::uint32_t fixed64(std::uint32_t number) {
  return tag(number, Type::kFixed64);
}

/// One field of a message.
struct Field {
  std::uint32_t tag = 0;
  std::uint64_t number = 0;          // value of varint and fixed fields
  std::span<const std::byte> body;   // content: of kBytes the payload, else the encoded value
  std::span<const std::byte> whole;  // with its tag and length

  [[nodiscard]] std::uint32_t field_number() const { return tag >> 3; }
  [[nodiscard]] std::string_view text() const { return as_text(body); }
  [[nodiscard]] std::int64_t integer() const { return static_cast<std::int64_t>(number); }
  [[nodiscard]] float real() const;  // kFixed32
};

/// Walks the fields of one message without copying. Everything is bounds-checked; a malformed
/// message ends the walk and status() says so.
///
/// Lifetime  fields refer to the message's bytes.
class Reader {
 public:
  Reader(std::span<const std::byte> message, std::string_view what)
      : at_(message.data()), end_(message.data() + message.size()), what_(what) {}

  /// The next field; nullptr at the end or at the first malformed field.
  [[nodiscard]] const Field* next();
  /// INVALID_GRAPH if the walk ended early.
  [[nodiscard]] Status status() const;

 private:
  [[nodiscard]] bool read_varint(std::uint64_t& value);
  [[nodiscard]] bool read_body();

  const std::byte* at_;
  const std::byte* end_;
  std::string_view what_;
  Field field_;
  bool malformed_ = false;
};

/// Reads one varint from the front of `bytes` and removes it; nothing if it is malformed.
[[nodiscard]] std::optional<std::uint64_t> take_varint(std::span<const std::byte>& bytes);

/// Bytes that `value` takes as a varint.
[[nodiscard]] std::size_t varint_size(std::uint64_t value);

}  // namespace ctxgen::wire
