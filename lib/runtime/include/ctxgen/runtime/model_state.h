#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ctxgen/base/runtime_value.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// An output that the next run takes as an input.
struct StatePair {
  std::string input, output;
  std::size_t input_index = 0, output_index = 0;  // of Session::inputs() and outputs()
  bool grows = false;     // it is longer after each run: it has a length, and can be rewound
  bool in_place = false;  // a run appends to it where it is; otherwise a run writes all of it
};

/// What a sequence of runs hands on from one to the next: a value per Session::state_pairs(). A new one,
/// and one that was reset, holds nothing: growing values have length 0, others are zeros, their symbolic
/// dims are those of the run's inputs.
///
/// Threads   each is used by one run or call at a time, other uses are INVALID_ARGUMENT; several may be
///           used at the same time.
/// Bound     SessionOptions::max_run_bytes, of all its memory; more is RESOURCE_LIMIT, and changes nothing.
/// Lifetime  must not outlive its session; goes with any context of it, one at a time.
class ModelState {
 public:
  virtual ~ModelState() = default;

  /// How long the values are that grow: the longest of them. 0: there is none.
  [[nodiscard]] virtual std::int64_t length() const = 0;
  /// Memory that it has.
  [[nodiscard]] virtual std::uint64_t size_bytes() const = 0;
  /// Takes memory for so many rows in the first run that needs any, so that later ones need none;
  /// otherwise memory doubles as it runs out.
  [[nodiscard]] virtual Status reserve(std::int64_t length) = 0;
  /// As new. Keeps its memory.
  [[nodiscard]] virtual Status reset() = 0;
  /// Forgets what follows the first `length` rows of values that grow.
  /// Errors  INVALID_ARGUMENT: longer than it is; UNSUPPORTED: a value that does not grow cannot be
  ///         what it was earlier.
  [[nodiscard]] virtual Status rewind(std::int64_t length) = 0;
  /// Another one with a copy of all values.
  [[nodiscard]] virtual Result<std::unique_ptr<ModelState>> fork() = 0;
  /// A copy of the value of a pair, dense. Errors  INVALID_ARGUMENT: no such pair, or no value yet.
  [[nodiscard]] virtual Result<RuntimeValue> read(std::size_t pair) = 0;
};

}  // namespace ctxgen
