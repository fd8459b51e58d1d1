#include "numbers/fourier.h"

#include <algorithm>
#include <bit>
#include <numbers>
#include <utility>

namespace ctxgen::cpu {
namespace {

using Complex = std::complex<double>;

Complex unit(double turns) { return std::polar(1.0, 2 * std::numbers::pi * turns); }

// Cooley and Tukey's algorithm; the size is a power of two.
void transform_power(std::span<Complex> data, bool inverse) {
  const std::size_t n = data.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(data[i], data[j]);
  }
  ScratchVector<Complex> twiddles(n / 2);
  for (std::size_t i = 0; i < n / 2; ++i)
    twiddles[i] = unit((inverse ? 1.0 : -1.0) * static_cast<double>(i) / static_cast<double>(n));
  for (std::size_t half = 1; half < n; half *= 2)
    for (std::size_t first = 0; first < n; first += 2 * half)
      for (std::size_t i = 0; i < half; ++i) {
        const Complex odd = data[first + half + i] * twiddles[i * (n / (2 * half))];
        data[first + half + i] = data[first + i] - odd;
        data[first + i] += odd;
      }
}

}  // namespace

Fourier::Fourier(std::size_t length, bool inverse) : length_(length), inverse_(inverse) {
  if (length < 2 || std::has_single_bit(length)) return;
  padded_ = std::bit_ceil(2 * length - 1);
  chirp_.resize(length);
  filter_.assign(padded_, Complex());
  work_.resize(padded_);
  std::size_t square = 0;  // i * i modulo 2 * length
  for (std::size_t i = 0; i < length; ++i) {
    chirp_[i] =
        unit((inverse ? 0.5 : -0.5) * static_cast<double>(square) / static_cast<double>(length));
    filter_[i] = std::conj(chirp_[i]);
    if (i > 0) filter_[padded_ - i] = filter_[i];
    square = (square + 2 * i + 1) % (2 * length);
  }
  transform_power(filter_, false);
}

void Fourier::transform(std::span<Complex> data) {
  if (length_ < 2) return;
  if (padded_ == 0) return transform_power(data, inverse_);
  std::ranges::fill(work_, Complex());
  for (std::size_t i = 0; i < length_; ++i) work_[i] = data[i] * chirp_[i];
  transform_power(work_, false);
  for (std::size_t i = 0; i < padded_; ++i) work_[i] *= filter_[i];
  transform_power(work_, true);
  for (std::size_t i = 0; i < length_; ++i)
    data[i] = work_[i] * chirp_[i] / static_cast<double>(padded_);
}

}  // namespace ctxgen::cpu
