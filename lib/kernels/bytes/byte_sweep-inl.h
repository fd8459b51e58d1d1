// Depthwise convolutions of 3x3 taps by products of four bytes, whose columns are joined once for three results and stay in
// registers. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_SWEEP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_SWEEP_INL_H
#undef CTXGEN_KERNELS_BYTE_SWEEP_INL_H
#else
#define CTXGEN_KERNELS_BYTE_SWEEP_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "bytes/byte_taps-inl.h"
#include "vectors-inl.h"

#if CTXGEN_HAVE_VNNI
HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3  // the words of three columns want registers

template <std::size_t kBytes>
using TapWords = hn::Vec<typename TapBlock<kBytes>::D32>[4];

/// The words of channels [c, c + kBytes), or of `count` of them, at column `x` of the source or of its padding.
template <std::size_t kBytes>
HWY_INLINE void join_words(const SweptLines& lines, std::int64_t x, std::size_t c,
                           std::size_t count, TapWords<kBytes>& words) {
  using Block = TapBlock<kBytes>;
  const typename Block::D8 d8;
  const typename Block::D16 d16;
  const typename Block::D32 d32;
  const auto flip = hn::Set(d8, lines.flip);
  if (HWY_UNLIKELY(x < 0 || x >= lines.columns)) {
    const auto padding = hn::BitCast(d32, hn::Xor(hn::Set(d8, lines.padding), flip));
    for (auto& word : words) word = padding;
    return;
  }
  const auto line = [&](std::size_t l) CTXGEN_UNROLLED {
    const std::uint8_t* from = lines.at[l] + x * lines.step[l] + c;
    if (count < kBytes) return hn::Xor(hn::LoadN(d8, from, count), flip);
    return hn::Xor(hn::LoadU(d8, from), flip);
  };
  const auto a = line(0), b = line(1), e = line(2), none = hn::Zero(d8);
  const auto low = hn::BitCast(d16, hn::InterleaveLower(d8, a, b));
  const auto high = hn::BitCast(d16, hn::InterleaveUpper(d8, a, b));
  const auto low2 = hn::BitCast(d16, hn::InterleaveLower(d8, e, none));
  const auto high2 = hn::BitCast(d16, hn::InterleaveUpper(d8, e, none));
  words[0] = hn::BitCast(d32, hn::InterleaveLower(d16, low, low2));
  words[1] = hn::BitCast(d32, hn::InterleaveUpper(d16, low, low2));
  words[2] = hn::BitCast(d32, hn::InterleaveLower(d16, high, high2));
  words[3] = hn::BitCast(d32, hn::InterleaveUpper(d16, high, high2));
}

/// What a block of channels is multiplied by.
template <std::size_t kBytes>
struct SweptTaps {
  using Block = TapBlock<kBytes>;

  HWY_INLINE SweptTaps(const TapRun& run, std::size_t c) {
    const TapLayout layout(run.conv->windows);
    const auto load = [&](const std::int32_t* from, TapWords<kBytes>& to) CTXGEN_UNROLLED {
      for (std::size_t v = 0; v < 4; ++v) to[v] = hn::LoadU(d, from + c + v * Block::kLanes);
    };
    load(run.numbers.first, first);
    for (std::int64_t t = 0; t < 3; ++t)
      load(reinterpret_cast<const std::int32_t*>(run.weights + t * layout.word_row), weights[t]);
  }
  /// Column `kFirst` + t of three, modulo 3, is that of tap t.
  template <std::size_t kFirst>
  HWY_INLINE void multiply(const TapWords<kBytes> (&words)[3], TapWords<kBytes>& sum) const {
    for (std::size_t v = 0; v < 4; ++v) sum[v] = first[v];
    unrolled<3>([&](auto t) CTXGEN_UNROLLED {
      for (std::size_t v = 0; v < 4; ++v)
        add_products(sum[v], words[(kFirst + t) % 3][v], weights[t][v]);
    });
  }

  static constexpr typename Block::D32 d{};
  TapWords<kBytes> first, weights[3];
};

/// The result at column `x`, by the rounded operations.
template <std::size_t kBytes>
HWY_NOINLINE void divide_pixel(const TapRun& run, const SweptLines& lines, std::size_t c,
                               std::size_t count, std::int64_t x, std::uint8_t* to) {
  const std::int64_t column = x * run.conv->windows.stride[1] - lines.left;
  TapWords<kBytes> words[3], sum;
  for (std::int64_t t = 0; t < 3; ++t) join_words<kBytes>(lines, column + t, c, count, words[t]);
  SweptTaps<kBytes>(run, c).template multiply<0>(words, sum);
  const TapStore<kBytes> store(run, c);
  store.divided_bytes(sum, count, to);
}

/// A line of results of a block of channels, from element `at` of the result on.
template <std::size_t kBytes, std::size_t kStride, bool kBounded>
HWY_NOINLINE void sweep_block(const TapRun& run, const SweptLines& lines, std::size_t c,
                              std::size_t count, std::int64_t at) {
  constexpr std::int64_t kChecked = 63;  // results; a multiple of three
  const Windows& w = run.conv->windows;
  const std::int64_t channels = w.channels, end = w.result[1];
  const TapStore<kBytes> store(run, c);
  const SweptTaps<kBytes> taps(run, c);
  std::uint8_t* to = run.conv->bytes + at + c;
  TapWords<kBytes> words[3], sum;  // of column i: words[i % 3]
  const auto join = [&](std::int64_t column, TapWords<kBytes>& joined) CTXGEN_UNROLLED {
    join_words<kBytes>(lines, column - lines.left, c, count, joined);
  };
  unrolled<3 - kStride>([&](auto i) CTXGEN_UNROLLED { join(i, words[i]); });
  for (std::int64_t start = 0; start < end; start += kChecked) {
    std::uint64_t unsure = 0;  // a bit per result
    const std::int64_t checked = std::min(end - start, kChecked);
    for (std::int64_t x = 0; x < checked; x += 3)
      unrolled<3>([&](auto i) CTXGEN_UNROLLED {
        if (x + static_cast<std::int64_t>(i) >= checked) return;
        const std::int64_t column = (start + x) * static_cast<std::int64_t>(kStride);
        unrolled<kStride>([&](auto s) CTXGEN_UNROLLED {
          constexpr std::size_t kNext = i * kStride + 3 - kStride + s;
          join(column + static_cast<std::int64_t>(kNext), words[kNext % 3]);
        });
        taps.template multiply<i * kStride % 3>(words, sum);
        const bool sure = store.template round<kBounded>(sum, count, to);
        unsure |= std::uint64_t{sure ? 0U : 1U} << (x + static_cast<std::int64_t>(i));
        to += channels;
      });
    for (; HWY_UNLIKELY(unsure != 0); unsure &= unsure - 1) {
      const std::int64_t x = start + std::countr_zero(unsure);
      divide_pixel<kBytes>(run, lines, c, count, x, run.conv->bytes + at + x * channels + c);
    }
  }
}

/// Whether sweep_line() computes what a run prepared.
HWY_INLINE bool may_sweep(const TapRun& run) {
  return run.numbers.usable && run.conv->bytes != nullptr && may_be_swept(run.conv->windows);
}

/// Line `y` of the results of an image.
HWY_NOINLINE void sweep_line(const TapRun& run, std::int64_t image, std::int64_t y) {
  const Windows& w = run.conv->windows;
  const SweptLines lines = swept_lines(*run.conv, run.padding, image, y);
  const std::int64_t at = (image * w.result[0] + y) * w.result[1] * w.channels;
  for_tap_blocks(static_cast<std::size_t>(w.channels),
                 [&]<std::size_t kBytes>(std::size_t c, std::size_t count) HWY_ATTR {
                   if (w.stride[1] == 1) {
                     if (run.numbers.bounded)
                       return sweep_block<kBytes, 1, true>(run, lines, c, count, at);
                     return sweep_block<kBytes, 1, false>(run, lines, c, count, at);
                   }
                   if (run.numbers.bounded)
                     return sweep_block<kBytes, 2, true>(run, lines, c, count, at);
                   sweep_block<kBytes, 2, false>(run, lines, c, count, at);
                 });
}

#else
HWY_INLINE bool may_sweep(const TapRun&) { return false; }
HWY_INLINE void sweep_line(const TapRun&, std::int64_t, std::int64_t) {}
#endif

/// Line `y` of the results of an image; `joined`: memory for the words of columns.
HWY_NOINLINE void convolve_line_of_taps(const TapRun& run, std::int64_t image, std::int64_t y,
                                        std::byte* joined) {
  if (may_sweep(run)) return sweep_line(run, image, y);
  convolve_taps(run, image, y, joined);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
