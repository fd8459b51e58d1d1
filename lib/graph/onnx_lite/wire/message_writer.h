#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// A protobuf message that is being written: small parts are owned, big ones and everything that
/// is copied from the source are borrowed, so that no tensor is copied before it is written.
///
/// Lifetime  borrowed bytes must live until write(); keep() makes their owner do so.
class Pieces {
 public:
  void varint_field(std::uint32_t number, std::uint64_t value);
  void float_field(std::uint32_t number, float value);
  /// Copied.
  void text_field(std::uint32_t number, std::string_view text);
  /// Borrowed.
  void bytes_field(std::uint32_t number, std::span<const std::byte> bytes);
  void message_field(std::uint32_t number, Pieces message);
  /// The same with a length of kWideBytes bytes, so that where the message starts does not depend on
  /// its size. Requires  message.size() < 2^35.
  void wide_message_field(std::uint32_t number, Pieces message);
  /// A small number that takes 1 to 10 bytes: leading zeros, which every reader of protobuf accepts.
  void padded_varint_field(std::uint32_t number, std::uint64_t value, std::size_t bytes);
  /// Whole fields, borrowed as they are.
  void fields(std::span<const std::byte> bytes);
  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }

  [[nodiscard]] std::uint64_t size() const { return size_; }
  static constexpr std::size_t kWideBytes = 5;
  [[nodiscard]] Status write(const std::function<Status(std::span<const std::byte>)>& sink) const;

 private:
  struct Piece {
    const std::byte* borrowed;  // nullptr: `offset` in own_
    std::uint64_t offset;
    std::uint64_t size;
  };
  void own_varint(std::uint64_t value, std::size_t least_bytes = 1);
  void append(Pieces message);
  void own(std::span<const std::byte> bytes);

  std::vector<std::byte> own_;
  std::vector<Piece> pieces_;
  std::vector<std::shared_ptr<const void>> owners_;
  std::uint64_t size_ = 0;
};

}  // namespace ctxgen
