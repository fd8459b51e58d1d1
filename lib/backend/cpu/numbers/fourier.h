#pragma once

#include <complex>
#include <cstddef>
#include <span>

#include "ctxgen/cpu/scratch.h"

namespace ctxgen::cpu {

/// The discrete Fourier transform of one length, in O(n log n) for every n.
class Fourier {
 public:
  Fourier(std::size_t length, bool inverse);
  /// In place. Not scaled: an inverse is to be divided by the length.
  void transform(std::span<std::complex<double>> data);

 private:
  using Complex = std::complex<double>;
  std::size_t length_;
  bool inverse_;
  // Bluestein's algorithm for lengths that are not a power of two: a convolution of power-of-two size.
  std::size_t padded_ = 0;
  ScratchVector<Complex> chirp_, filter_, work_;
};

}  // namespace ctxgen::cpu
