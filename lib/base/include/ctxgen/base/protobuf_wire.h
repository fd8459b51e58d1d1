#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"

/// Protobuf's wire format without libprotobuf: the fields of messages, whatever they mean. Bytes are
/// untrusted; nothing is allocated by what they declare. Groups are malformed.
namespace ctxgen::wire {

enum class Type : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// The tag of a field: a known number with another wire type has another tag. Requires  number < 2^29.
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

// ---- numbers -------------------------------------------------------------------------------------------

/// What is wrong with a message; `describe` says it.
enum class Fault : std::uint8_t {
  kNone,
  kVarintCutOff,
  kVarintTooWide,  // more than 64 bits or ten bytes
  kFixedCutOff,
  kBytesCutOff,
  kNumber,  // of a field: zero or above 2^29 - 1
  kType,    // a wire type that is unknown, or a group
};

inline constexpr std::size_t kMaxVarintBytes = 10;

/// read_varint for any number of bytes.
[[nodiscard]] inline Fault read_long_varint(const std::byte*& at, const std::byte* end,
                                            std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at == end) return Fault::kVarintCutOff;
    const auto byte = std::to_integer<std::uint64_t>(*at++);
    value |= (byte & 0x7f) << shift;
    if (byte >= 0x80) continue;
    return shift == 63 && byte > 1 ? Fault::kVarintTooWide
                                   : Fault::kNone;  // one bit is left to give
  }
  return Fault::kVarintTooWide;
}

/// Reads one varint at `at` and moves it after; where it is malformed, `at` is somewhere inside.
[[nodiscard]] inline Fault read_varint(const std::byte*& at, const std::byte* end,
                                       std::uint64_t& value) {
  if (at == end || *at >= std::byte{0x80}) return read_long_varint(at, end, value);
  value = std::to_integer<std::uint64_t>(*at++);  // tags and most lengths
  return Fault::kNone;
}

/// Reads one varint from the front of `bytes` and removes it; nothing if it is malformed.
[[nodiscard]] inline std::optional<std::uint64_t> take_varint(std::span<const std::byte>& bytes) {
  const std::byte* at = bytes.data();
  std::uint64_t value = 0;
  if (read_varint(at, bytes.data() + bytes.size(), value) != Fault::kNone) return std::nullopt;
  bytes = bytes.subspan(static_cast<std::size_t>(at - bytes.data()));
  return value;
}

/// Bytes that `value` takes as a varint.
[[nodiscard]] constexpr std::size_t varint_size(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

/// A varint as it is written.
class EncodedVarint {
 public:
  /// Of `least_bytes` bytes or more: zeros after, which every reader of protobuf takes.
  /// Requires  least_bytes <= kMaxVarintBytes.
  explicit EncodedVarint(std::uint64_t value, std::size_t least_bytes = 1) {
    for (; value >= 0x80 || size_ + 1 < least_bytes; value >>= 7)
      bytes_[size_++] = static_cast<std::byte>(value | 0x80);
    bytes_[size_++] = static_cast<std::byte>(value);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(bytes_).first(size_); }

 private:
  std::array<std::byte, kMaxVarintBytes> bytes_;
  std::size_t size_ = 0;
};

/// The numbers of sint32 and sint64.
[[nodiscard]] constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0);
}
[[nodiscard]] constexpr std::int64_t unzigzag(std::uint64_t number) {
  return std::bit_cast<std::int64_t>((number >> 1) ^ (~(number & 1) + 1));
}

// ---- fields --------------------------------------------------------------------------------------------

/// Where the parts of one field are, counted from its first byte.
struct FieldHead {
  std::uint32_t tag = 0;
  std::uint64_t number = 0;  // value of varint and fixed fields
  std::size_t body_offset = 0;
  std::uint64_t body_size = 0;  // of kBytes as declared, checked
};

/// No field has more bytes before its payload.
inline constexpr std::size_t kMaxHeadBytes = 2 * kMaxVarintBytes;

/// Reads what stands before the payload of a field, and of scalar fields the value. `window` begins
/// where the field does, `left` bytes before the message's end.
///
/// Requires  window.size() >= min(left, kMaxHeadBytes).
[[nodiscard]] inline Fault read_head(std::span<const std::byte> window, std::uint64_t left,
                                     FieldHead& head) {
  const std::byte* at = window.data();
  const std::byte* end = at + std::min<std::uint64_t>(window.size(), left);
  std::uint64_t tag = 0;
  if (const Fault fault = read_varint(at, end, tag); fault != Fault::kNone) return fault;
  head = {.tag = static_cast<std::uint32_t>(tag)};
  if (tag > UINT32_MAX || tag < 8) {
    head.number = tag >> 3;
    return Fault::kNumber;
  }
  head.body_offset = static_cast<std::size_t>(at - window.data());
  switch (static_cast<Type>(tag & 7)) {
    case Type::kVarint: {
      const Fault fault = read_varint(at, end, head.number);
      head.body_size = static_cast<std::size_t>(at - window.data()) - head.body_offset;
      return fault;
    }
    case Type::kFixed64: head.body_size = 8; break;
    case Type::kFixed32: head.body_size = 4; break;
    case Type::kBytes: {
      const Fault fault = read_varint(at, end, head.body_size);
      if (fault != Fault::kNone) return fault;
      head.body_offset = static_cast<std::size_t>(at - window.data());
      return head.body_size <= left - head.body_offset ? Fault::kNone : Fault::kBytesCutOff;
    }
    default: return Fault::kType;
  }
  if (head.body_size > left - head.body_offset) return Fault::kFixedCutOff;
  std::memcpy(&head.number, at, head.body_size);  // little-endian, as x86-64
  return Fault::kNone;
}

/// `head` and `left` as read_head left and took them.
[[nodiscard]] std::string describe(Fault fault, const FieldHead& head, std::uint64_t left);

/// One field of a message.
struct Field {
  std::uint32_t tag = 0;
  std::uint64_t number = 0;          // value of varint and fixed fields
  std::span<const std::byte> body;   // content: of kBytes the payload, else the encoded value
  std::span<const std::byte> whole;  // with its tag and length

  [[nodiscard]] std::uint32_t field_number() const { return tag >> 3; }
  [[nodiscard]] Type type() const { return static_cast<Type>(tag & 7); }
  [[nodiscard]] std::string_view text() const { return as_text(body); }
  [[nodiscard]] std::int64_t integer() const { return std::bit_cast<std::int64_t>(number); }
  [[nodiscard]] float real() const {  // kFixed32
    return std::bit_cast<float>(static_cast<std::uint32_t>(number));
  }
};

/// Walks the fields of one message without copying. A malformed field ends the walk: ask malformed()
/// or status() after it.
///
/// Lifetime  fields refer to the message's bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  /// The next field, until the next call; nullptr at the end or at the first malformed field.
  [[nodiscard]] const Field* next();
  [[nodiscard]] bool malformed() const { return fault_ != Fault::kNone; }
  /// `code` if the walk ended early, with what is wrong.
  [[nodiscard]] Status status(ErrorCode code) const;

 private:
  const std::byte* at_;
  const std::byte* end_;
  Field field_;
  Fault fault_ = Fault::kNone;
};

}  // namespace ctxgen::wire
