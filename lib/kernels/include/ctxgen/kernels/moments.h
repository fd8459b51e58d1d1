#pragma once

#include <cstdint>
#include <span>

namespace ctxgen::kernels {

/// How many numbers, their mean, and the sum of the squares of their differences from it.
struct Moments {
  double count = 0, mean = 0, squares = 0;
};

/// Of the numbers of both (Chan, Golub, LeVeque, Algorithms for Computing the Sample Variance, 1983).
[[nodiscard]] Moments merge(const Moments& a, const Moments& b);

/// Of n >= 0 elements, which are read from memory once: within 3 units of 2^-24 of the square root of
/// squares / count from double precision, and 2^-24 of that from the mean, however large the mean is.
/// NaN or an infinity among them makes both NaN. Squares that float cannot hold are summed in double.
///
/// Threads  any; the calling one does all the work.
[[nodiscard]] Moments moments_of(std::int64_t n, const float* in);

/// Merges the moments of `rows` rows of groups.size() * group_size channels into `groups`: those of
/// channels [g * group_size, (g + 1) * group_size) into groups[g]. Rows are `stride` elements apart.
/// Errors and NaN as moments_of().
///
/// Threads  any; the calling one does all the work.
void add_moments(std::int64_t rows, std::int64_t stride, std::int64_t group_size, const float* in,
                 std::span<Moments> groups);

/// One channel's normalisation: y = (x - mean) * factor + offset.
struct Affine {
  float mean, factor, offset;
};

/// out[i] = (in[i] - mean) * factor + offset for i < n; `out` may be `in`, no other overlap.
void normalize_row(std::int64_t n, const Affine& by, const float* in, float* out);

/// The same with an own mean, factor and offset for each of n elements.
void normalize_channels(std::int64_t n, const float* mean, const float* factor, const float* offset,
                        const float* in, float* out);

}  // namespace ctxgen::kernels
