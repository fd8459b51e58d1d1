#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/protobuf_wire.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// A part of a rope, by offsets.
struct RopeRange {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] std::uint64_t size() const { return end - begin; }
  [[nodiscard]] bool empty() const { return begin == end; }
};

/// Bytes in several runs, addressed as if they were one: a message that is about to be written is read
/// without being copied together.
///
/// Lifetime  the bytes are borrowed.
class Rope {
 public:
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] RopeRange whole() const { return {0, size_}; }
  /// The bytes from `at` to the end of their run. Requires  at < size.
  [[nodiscard]] std::span<const std::byte> from(std::uint64_t at) const {
    const Run& run = runs_[last_];
    if (at >= run.begin && at - run.begin < run.bytes.size())
      return run.bytes.subspan(at - run.begin);
    return seek(at);
  }
  /// The bytes of a range where they are, or where they are parted in a copy, kept in `copies`.
  [[nodiscard]] std::span<const std::byte> bytes(RopeRange range,
                                                 std::forward_list<std::string>& copies) const;
  /// The start of a range: at least its first copy.size() bytes, or all if it is shorter, where they
  /// are or where they are parted in `copy`. Requires  the range is not empty.
  [[nodiscard]] std::span<const std::byte> window(RopeRange range, std::span<std::byte> copy) const;

 private:
  struct Run {
    std::uint64_t begin;
    std::span<const std::byte> bytes;  // not empty
  };
  [[nodiscard]] std::span<const std::byte> seek(std::uint64_t at) const;

  std::vector<Run> runs_;
  std::uint64_t size_ = 0;
  mutable std::size_t last_ = 0;  // the run that was read last
};

/// A field of a message in a rope, as wire::Field.
struct RopeField {
  std::uint32_t tag = 0;
  std::uint64_t number = 0;  // value of varint and fixed fields
  RopeRange body;
};

/// wire::Reader for a message in a rope.
class RopeReader {
 public:
  RopeReader(const Rope& rope, RopeRange message) : rope_(rope), left_(message) {}
  /// False at the end, and at a malformed field.
  [[nodiscard]] bool next(RopeField& field);
  /// INVALID_GRAPH if the walk ended early.
  [[nodiscard]] Status status() const;

 private:
  const Rope& rope_;
  RopeRange left_;
  bool malformed_ = false;
};

}  // namespace ctxgen
