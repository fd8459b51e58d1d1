#include "wire/message_writer.h"

#include "ctxgen/base/blob.h"
#include "ctxgen/base/protobuf_wire.h"

namespace ctxgen {

void Pieces::own(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (pieces_.empty() || pieces_.back().borrowed != nullptr)
    pieces_.push_back({nullptr, own_.size(), 0});
  own_.insert(own_.end(), bytes.begin(), bytes.end());
  pieces_.back().size += bytes.size();
  size_ += bytes.size();
}

void Pieces::own_varint(std::uint64_t value, std::size_t least_bytes) {
  own(wire::EncodedVarint(value, least_bytes).bytes());
}

void Pieces::varint_field(std::uint32_t number, std::uint64_t value) {
  own_varint(wire::varint(number));
  own_varint(value);
}

void Pieces::float_field(std::uint32_t number, float value) {
  own_varint(wire::fixed32(number));
  own(std::as_bytes(std::span(&value, 1)));
}

void Pieces::text_field(std::uint32_t number, std::string_view text) {
  own_varint(wire::bytes(number));
  own_varint(text.size());
  own(as_bytes(text));
}

void Pieces::bytes_field(std::uint32_t number, std::span<const std::byte> bytes) {
  own_varint(wire::bytes(number));
  own_varint(bytes.size());
  fields(bytes);
}

void Pieces::message_field(std::uint32_t number, Pieces message) {
  own_varint(wire::bytes(number));
  own_varint(message.size());
  append(std::move(message));
}

void Pieces::wide_message_field(std::uint32_t number, Pieces message) {
  own_varint(wire::bytes(number));
  own_varint(message.size(), kWideBytes);
  append(std::move(message));
}

void Pieces::padded_varint_field(std::uint32_t number, std::uint64_t value, std::size_t bytes) {
  own_varint(wire::varint(number));
  own_varint(value, bytes);
}

void Pieces::append(Pieces message) {
  for (const Piece& piece : message.pieces_) {
    if (piece.borrowed != nullptr)
      fields({piece.borrowed, static_cast<std::size_t>(piece.size)});
    else
      own(std::span(message.own_).subspan(piece.offset, piece.size));
  }
  for (auto& owner : message.owners_) owners_.push_back(std::move(owner));
}

void Pieces::fields(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.borrowed != nullptr && last.borrowed + last.size == bytes.data()) {
      last.size += bytes.size();
      return;
    }
  }
  pieces_.push_back({bytes.data(), 0, bytes.size()});
}

Status Pieces::write(const std::function<Status(std::span<const std::byte>)>& sink) const {
  for (const Piece& piece : pieces_) {
    const std::byte* data = piece.borrowed != nullptr ? piece.borrowed : own_.data() + piece.offset;
    CTXGEN_CHECK(sink({data, static_cast<std::size_t>(piece.size)}));
  }
  return {};
}

}  // namespace ctxgen
