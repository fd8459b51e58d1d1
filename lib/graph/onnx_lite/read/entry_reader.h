#pragma once

#include <string_view>

#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

/// A StringStringEntryProto. The texts refer to the message.
struct Entry {
  std::string_view key, value;
};

/// Decodes a StringStringEntryProto; `what` names it in errors.
/// Errors  those of MessageReader.
[[nodiscard]] inline Result<Entry> read_entry(std::span<const std::byte> message,
                                              std::string_view what) {
  Entry entry;
  MessageReader reader(message, what);
  while (const wire::Field* f = reader.next()) {
    if (f->tag == wire::bytes(field::entry::kKey)) entry.key = f->text();
    if (f->tag == wire::bytes(field::entry::kValue)) entry.value = f->text();
  }
  CTXGEN_CHECK(reader.status());
  return entry;
}

}  // namespace ctxgen
