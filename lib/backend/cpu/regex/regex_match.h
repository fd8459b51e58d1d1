#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen::cpu {

/// A regular expression in RE2's syntax, for full matches of UTF-8 texts.
///
/// Patterns come from models: all states are followed at once, so time is at most the pattern's size
/// times the text's, and memory the pattern's size. Not known, and refused: Unicode classes (\p, \X),
/// \C, and the flags m and U.
///
/// Threads  full_match() is const and may be called from several threads.
class Regex {
 public:
  /// Errors  INVALID_GRAPH (no regular expression), UNSUPPORTED (see above, back references and
  ///         look-around, which RE2 has not either), RESOURCE_LIMIT (too large when written out).
  [[nodiscard]] static Result<Regex> compile(std::string_view pattern);
  [[nodiscard]] bool full_match(std::string_view text) const;

  /// A set of letters: ascending, disjoint ranges, both ends included.
  using Letters = std::vector<std::pair<char32_t, char32_t>>;
  enum class Op : std::uint8_t {
    kLetter,
    kSplit,
    kJump,
    kStart,
    kEnd,
    kBoundary,
    kNoBoundary,
    kMatch
  };
  struct Step {
    Op op = Op::kMatch;
    std::uint32_t next = 0;   // where to go on (kSplit: first)
    std::uint32_t other = 0;  // kSplit: second; kLetter: index into letters
  };

 private:
  class Run;
  std::vector<Step> steps_;
  std::vector<Letters> letters_;
  std::uint32_t start_ = 0;
};

}  // namespace ctxgen::cpu
