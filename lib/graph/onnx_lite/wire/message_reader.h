#pragma once

#include <span>
#include <string_view>

#include "ctxgen/base/protobuf_wire.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// wire::Reader for a message of an ONNX model, whose error names the message.
///
/// Lifetime  fields refer to the message's bytes; `what` is borrowed.
class MessageReader {
 public:
  MessageReader(std::span<const std::byte> message, std::string_view what)
      : reader_(message), what_(what) {}

  /// The next field; nullptr at the end or at the first malformed field.
  [[nodiscard]] const wire::Field* next() { return reader_.next(); }
  /// INVALID_GRAPH if the walk ended early.
  [[nodiscard]] Status status() const {
    if (!reader_.malformed()) return {};
    return fail(ErrorCode::kInvalidGraph, "{}: malformed or truncated protobuf message", what_);
  }

 private:
  wire::Reader reader_;
  std::string_view what_;
};

}  // namespace ctxgen
