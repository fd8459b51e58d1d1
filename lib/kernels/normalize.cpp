#include "ctxgen/kernels/normalize.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "normalize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Writes in + residual + bias and gives where: to `sum`, or over `out`, which is in cache then.
HWY_INLINE const float* add_residual(std::size_t n, const NormRows& row) {
  if (row.residual == nullptr && row.bias == nullptr && row.sum == nullptr) return row.in;
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  float* to = row.sum != nullptr ? row.sum : row.out;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vector x = hn::LoadU(d, row.in + i);
    if (row.residual != nullptr) x = hn::Add(x, hn::LoadU(d, row.residual + i));
    if (row.bias != nullptr) x = hn::Add(x, hn::LoadU(d, row.bias + i));
    hn::StoreU(x, d, to + i);
  }
  for (; i < n; ++i) {
    float x = row.in[i];
    if (row.residual != nullptr) x += row.residual[i];
    if (row.bias != nullptr) x += row.bias[i];
    to[i] = x;
  }
  return to;
}

/// out = ((x - mean) - rest) * factor * scale + shift
template <bool kScale, bool kShift>
HWY_INLINE void write_row(std::size_t n, const float* in, float mean, float rest, float factor,
                          const NormRows& row) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector from = constant(mean), more = constant(rest), by = constant(factor);
  const auto value = [&](Vector x, Vector scale, Vector shift) HWY_ATTR {
    const Vector y = hn::Sub(hn::Sub(x, from), more);
    const Vector f = kScale ? hn::Mul(by, scale) : by;
    return kShift ? hn::MulAdd(y, f, shift) : hn::Mul(y, f);
  };
  const Vector none = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vector scale = kScale ? hn::LoadU(d, row.scale + i) : none;
    const Vector shift = kShift ? hn::LoadU(d, row.shift + i) : none;
    hn::StoreU(value(hn::LoadU(d, in + i), scale, shift), d, row.out + i);
  }
  if (i == n) return;
  const std::size_t rest_n = n - i;
  const Vector scale = kScale ? hn::LoadN(d, row.scale + i, rest_n) : none;
  const Vector shift = kShift ? hn::LoadN(d, row.shift + i, rest_n) : none;
  hn::StoreN(value(hn::LoadN(d, in + i, rest_n), scale, shift), d, row.out + i, rest_n);
}

HWY_INLINE void write(std::size_t n, const float* in, float mean, float rest, float factor,
                      const NormRows& row) {
  if (row.scale != nullptr && row.shift != nullptr)
    return write_row<true, true>(n, in, mean, rest, factor, row);
  if (row.scale != nullptr) return write_row<true, false>(n, in, mean, rest, factor, row);
  if (row.shift != nullptr) return write_row<false, true>(n, in, mean, rest, factor, row);
  write_row<false, false>(n, in, mean, rest, factor, row);
}

/// The row in double, for squares beyond the range of float. Nothing is gained by vectors: such rows
/// are as good as never there.
HWY_NOINLINE void write_wide(std::size_t n, const float* in, bool centred, const NormRows& row) {
  double mean = 0, squares = 0;
  for (std::size_t i = 0; centred && i < n; ++i) mean += double{in[i]};
  mean /= static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) squares += (double{in[i]} - mean) * (double{in[i]} - mean);
  const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + double{row.epsilon});
  for (std::size_t i = 0; i < n; ++i) {
    double y = (double{in[i]} - mean) * factor;
    if (row.scale != nullptr) y *= double{row.scale[i]};
    if (row.shift != nullptr) y += double{row.shift[i]};
    row.out[i] = static_cast<float>(y);
  }
}

/// Whether a mean of squares was computed in float without losing what matters: above the numbers
/// that are rounded to denormals, unless epsilon is far larger than those, and below infinity.
HWY_INLINE bool within_range(double mean_of_squares, float epsilon) {
  constexpr double kDenormal = 1e-30, kNoise = 1e-20;
  return mean_of_squares < std::numeric_limits<double>::infinity() &&
         (mean_of_squares > kDenormal || double{epsilon} > kNoise);
}

/// The row `count` further on.
HWY_INLINE NormRows further(NormRows row, std::int64_t count) {
  const auto move = [&](auto*& pointer) {
    if (pointer != nullptr) pointer += count * row.width;
  };
  move(row.in);
  move(row.residual);
  move(row.sum);
  move(row.out);
  return row;
}

/// Short rows go through each step some at a time: within a row each step waits for the one before.
constexpr std::int64_t kAtOnce = 8, kShort = 512;

/// normalise(row, count) for all rows, `count` <= kAtOnce of them at a time.
template <class Normalise>
HWY_INLINE void each_rows(const NormRows& rows, const Normalise& normalise) {
  if (rows.width == 0) return;
  const std::int64_t at_once = rows.width <= kShort ? kAtOnce : 1;
  for (std::int64_t row = 0; row < rows.rows; row += at_once)
    normalise(further(rows, row), HWY_MIN(at_once, rows.rows - row));
}

HWY_NOINLINE void layer_norm_rows(const NormRows& rows) {
  const auto n = static_cast<std::size_t>(rows.width);
  const double per_element = 1 / static_cast<double>(n);
  each_rows(rows, [&](const NormRows& first, std::int64_t count) HWY_ATTR {
    const float* in[kAtOnce];
    float means[kAtOnce];
    double rests[kAtOnce], variances[kAtOnce] = {}, factors[kAtOnce];
    for (std::int64_t i = 0; i < count; ++i) {
      in[i] = add_residual(n, further(first, i));
      means[i] = static_cast<float>(sums_of<true>(n, in[i], 0).values * per_element);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const Sums sums = sums_of<false>(n, in[i], means[i]);
      rests[i] = sums.values * per_element;
      variances[i] = sums.squares * per_element - rests[i] * rests[i];
    }
    for (std::int64_t i = 0; i < count; ++i)
      factors[i] = 1 / std::sqrt(variances[i] + double{rows.epsilon});
    for (std::int64_t i = 0; i < count; ++i) {
      const NormRows row = further(first, i);
      // A rest that is large against the deviation would leave its own rounding in the result: rows
      // that are constant but for a unit or two.
      const bool centred = rests[i] * rests[i] <= 0.01 * variances[i] || rests[i] == 0;
      if (centred && within_range(variances[i], rows.epsilon))
        write(n, in[i], means[i], static_cast<float>(rests[i]), static_cast<float>(factors[i]),
              row);
      else
        write_wide(n, in[i], true, row);
    }
  });
}

HWY_NOINLINE void rms_norm_rows(const NormRows& rows) {
  const auto n = static_cast<std::size_t>(rows.width);
  const double per_element = 1 / static_cast<double>(n);
  each_rows(rows, [&](const NormRows& first, std::int64_t count) HWY_ATTR {
    const float* in[kAtOnce];
    double means[kAtOnce] = {}, factors[kAtOnce];
    for (std::int64_t i = 0; i < count; ++i) {
      in[i] = add_residual(n, further(first, i));
      means[i] = sums_of<false>(n, in[i], 0).squares * per_element;
    }
    for (std::int64_t i = 0; i < count; ++i)
      factors[i] = 1 / std::sqrt(means[i] + double{rows.epsilon});
    for (std::int64_t i = 0; i < count; ++i) {
      const NormRows row = further(first, i);
      if (within_range(means[i], rows.epsilon))
        write(n, in[i], 0, 0, static_cast<float>(factors[i]), row);
      else
        write_wide(n, in[i], false, row);
    }
  });
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

void layer_norm(const NormRows& rows) { CTXGEN_DISPATCH(layer_norm_rows(rows)); }

void rms_norm(const NormRows& rows) { CTXGEN_DISPATCH(rms_norm_rows(rows)); }

}  // namespace ctxgen::kernels
#endif
