#include "ctxgen/base/protobuf_wire.h"

#include <format>

namespace ctxgen::wire {

std::string describe(Fault fault, const FieldHead& head, std::uint64_t left) {
  const std::uint64_t behind = left - head.body_offset;
  switch (fault) {
    case Fault::kNone: break;
    case Fault::kVarintCutOff: return "a number is cut off";
    case Fault::kVarintTooWide: return "a number passes 64 bits";
    case Fault::kFixedCutOff:
      return std::format("need {} bytes for a number, have {}", head.body_size, behind);
    case Fault::kBytesCutOff:
      return std::format("field {} declares {} bytes, {} are left", head.tag >> 3, head.body_size,
                         behind);
    case Fault::kNumber: return std::format("field number {} is out of range", head.number);
    case Fault::kType:
      return std::format("field {} has unknown wire type {}", head.tag >> 3, head.tag & 7);
  }
  return {};
}

const Field* Reader::next() {
  if (malformed() || at_ == end_) return nullptr;
  const std::span<const std::byte> rest(at_, end_);
  FieldHead head;
  fault_ = read_head(rest, rest.size(), head);
  if (malformed()) return nullptr;
  field_.tag = head.tag;
  field_.number = head.number;
  field_.body = rest.subspan(head.body_offset, head.body_size);
  field_.whole = rest.first(head.body_offset + head.body_size);
  at_ += field_.whole.size();
  return &field_;
}

Status Reader::status(ErrorCode code) const {
  if (!malformed()) return {};
  const std::span<const std::byte> rest(at_, end_);  // at_ stayed at the malformed field
  FieldHead head;
  const Fault fault = read_head(rest, rest.size(), head);
  return fail(code, "{}", describe(fault, head, rest.size()));
}

}  // namespace ctxgen::wire
