#pragma once

#include <cstdint>
#include <string>

#include "ctxgen/base/runtime_value.h"

namespace ctxgen::cli {

struct Tolerance {
  double rtol = 1e-3;
  double atol = 1e-5;
};

struct Comparison {
  bool match = false;
  double max_abs = 0;  // over pairs of finite numbers
  double max_rel = 0;
  std::int64_t mismatches = 0;
  std::string text;  // why not: types, shapes, or the first mismatch
};

/// Compares as numpy.isclose does: |actual - expected| <= atol + rtol * |expected|, NaN equal to NaN.
/// Types without numbers are compared by their bytes, strings as strings.
/// Sequences and maps are compared item by item.
[[nodiscard]] Comparison compare(const RuntimeValue& actual, const RuntimeValue& expected,
                                 const Tolerance& tolerance);
[[nodiscard]] Comparison compare(const Tensor& actual, const Tensor& expected,
                                 const Tolerance& tolerance);

}  // namespace ctxgen::cli
