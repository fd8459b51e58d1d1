#pragma once

#include <cstdint>
#include <string>

#include "ctxgen/base/runtime_value.h"

namespace ctxgen {

struct Tolerance {
  double rtol = 1e-3;
  double atol = 1e-5;
  /// rtol counts from the larger of |expected| and the root mean square of all that is expected: where
  /// terms cancel, an error follows the size of the terms, which the neighbours have.
  bool from_scale = false;
  double of_range = 0;  // of what is between the least and the largest expected number, and 0
};

struct Comparison {
  bool match = false;
  double max_abs = 0;  // over pairs of finite numbers
  double max_rel = 0;
  double max_ulp = 0;  // in units in the last place of a floating-point type
  double cosine = 1;   // of the two as vectors; 1 where there are no numbers
  double used = 0;     // of the tolerance, over pairs of finite numbers: 1 is all of it
  std::int64_t mismatches = 0;
  std::int64_t not_finite =
      0;             // of these: one is a NaN or an infinity, the other is something else
  std::string text;  // why not: types, shapes, or the first mismatch
  /// The row of docs/numerics.md that applied and its numbers; "" where the caller gave a tolerance.
  std::string row;
  bool quantised = false;  // a quantiser is on the path to the value
  Tolerance tolerance{.rtol = 0, .atol = 0};

  /// The worse of this and another comparison of the same value, each measure by itself.
  void merge(const Comparison& other);
};

/// Compares as numpy.isclose does: |actual - expected| <= atol + rtol * |expected|, NaN equal to NaN.
/// Types without numbers are compared by their bytes, strings as strings.
/// Sequences and maps are compared item by item; the cosine is then the least of the items'.
[[nodiscard]] Comparison compare(const RuntimeValue& actual, const RuntimeValue& expected,
                                 const Tolerance& tolerance);
[[nodiscard]] Comparison compare(const Tensor& actual, const Tensor& expected,
                                 const Tolerance& tolerance);

}  // namespace ctxgen
