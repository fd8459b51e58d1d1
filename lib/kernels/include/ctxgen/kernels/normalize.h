#pragma once

#include <cstdint>

namespace ctxgen::kernels {

/// What normalising rows of `width` elements, one after the other in memory, reads and writes. Null:
/// absent. `out` and `sum` may each be `in` or `residual`, and `out` may be `sum`; no other overlap.
struct NormRows {
  std::int64_t rows = 0, width = 0;
  float epsilon = 0;
  const float* in = nullptr;
  const float* residual = nullptr;  // added to `in`
  const float* bias = nullptr;      // one row, added then
  float* sum = nullptr;             // receives what is normalised
  const float* scale = nullptr;     // one row
  const float* shift = nullptr;     // one row
  float* out = nullptr;
};

/// out = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + shift of x = in + residual + bias.
///
/// The mean is corrected by the mean of the differences from it (Chan, Golub, LeVeque, Algorithms for
/// Computing the Sample Variance, 1983), so errors do not grow with it. Rows whose squares leave the
/// range of float are computed in double. At most 3 units of 2^-23 from double precision: of |shift|,
/// plus |out - shift| or |scale| / 8, whichever is larger. A row with NaN or an infinity is NaN.
///
/// Threads  any; the calling one does all the work.
void layer_norm(const NormRows& rows);

/// out = x / sqrt(mean(x^2) + epsilon) * scale + shift of x = in + residual + bias, as exact. A row with
/// NaN is NaN; with an infinity that element is, and the others are shift.
///
/// Threads  any; the calling one does all the work.
void rms_norm(const NormRows& rows);

}  // namespace ctxgen::kernels
