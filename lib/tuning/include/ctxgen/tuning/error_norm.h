#pragma once

#include <string>
#include <string_view>

#include "ctxgen/base/runtime_value.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// How far an output y is from y_f32, in one number.
enum class ErrorNorm {
  kMax,   // max |y - y_f32| / max |y_f32|
  kRms,   // root of the mean square of y - y_f32, over that of y_f32
  kMean,  // mean |y - y_f32| / mean |y_f32|
};

/// How far outputs may be from f32.
struct ErrorBound {
  ErrorNorm norm = ErrorNorm::kMax;
  double most = 0;  // finite, above 0
};

[[nodiscard]] std::string_view name_of(ErrorNorm norm);
/// Errors  INVALID_ARGUMENT naming the norms.
[[nodiscard]] Result<ErrorNorm> norm_named(std::string_view name);

/// "0.01", "rms:0.01".
/// Errors  INVALID_ARGUMENT saying what is expected.
[[nodiscard]] Result<ErrorBound> parse_error_bound(std::string_view text);

/// Of one output. Integers and booleans count as 1 for each element that differs, over their number. What is not
/// finite has to be so, and alike, on both sides; otherwise the error is infinite, as where shapes differ. Never NaN.
/// Errors  UNSUPPORTED for an output without numbers.
[[nodiscard]] Result<double> error_of(const RuntimeValue& output, const RuntimeValue& reference,
                                      ErrorNorm norm);

/// Whether an error of this reference says anything.
[[nodiscard]] bool has_finite_number(const RuntimeValue& output);

}  // namespace ctxgen
