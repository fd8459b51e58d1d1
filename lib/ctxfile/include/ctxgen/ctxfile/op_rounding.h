#pragma once

#include <cstdint>

namespace ctxgen {

struct Program;
struct ProgramOp;

/// How one operator rounds: what is counted on the way to a value before one says how far two
/// computations of it may be apart (docs/numerics.md).
struct OpRounding {
  /// One after the other: a sum rounds once per term. 0: it moves, selects or compares.
  std::int64_t roundings = 1;
  bool quantises = false;  // results are integers of a few bits, rounded from real numbers
  double step = 0;         // results stand for integers in steps of this size; 0: they do not
};

/// The terms of sums and the steps of sequences whose number is not known.
inline constexpr std::int64_t kUnknownTerms = 16;

/// What a ProgramLoader may also be: one that knows how the ops of its programs round. Ops of
/// other loaders count as one rounding each.
class KnowsRounding {
 public:
  virtual ~KnowsRounding() = default;
  [[nodiscard]] virtual OpRounding rounding_of(const Program& program,
                                               const ProgramOp& op) const = 0;
};

}  // namespace ctxgen
