// Depthwise convolutions of bytes in f32, which holds their sums: those of three columns straight from the bytes, and what makes
// bytes of any. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_COLUMNS_INL_H
#undef CTXGEN_KERNELS_BYTE_COLUMNS_INL_H
#else
#define CTXGEN_KERNELS_BYTE_COLUMNS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "bytes/byte_store-inl.h"
#include "bytes/byte_taps.h"
#include "vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Factors of all channels, whose results are sums of `products` of bytes; whether they decide bytes, and how far from the middle.
HWY_NOINLINE void make_factors(const ByteSteps& steps, std::int64_t channels, std::int64_t products,
                               TapNumbers& numbers) {
  const Floats d;
  ByteScaling scaling(steps);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t c = 0; c < channels; c += lanes) {
    hn::Vec<Floats> factor, addend;
    const auto bias = numbers.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, numbers.bias + c);
    scaling.divide(hn::LoadU(d, numbers.scale + c), bias, factor, addend);
    hn::StoreU(factor, d, numbers.factor + c);
    hn::StoreU(addend, d, numbers.addend + c);
  }
  numbers.usable = scaling.usable();
  if (!numbers.usable) return;
  numbers.margin = scaling.margin();
  auto factor = hn::Zero(d), most = hn::Zero(d);
  for (std::int64_t c = 0; c < channels; c += lanes) {
    const auto addend = scaling.shifted(hn::LoadU(d, numbers.addend + c), numbers.margin);
    hn::StoreU(addend, d, numbers.addend + c);
    factor = hn::Max(factor, hn::Abs(hn::LoadU(d, numbers.factor + c)));
    most = hn::Max(most, hn::Abs(addend));
  }
  numbers.bounded = units_are_bounded(products, factor, most);
}

/// The result of so many channels of a pixel, by the rounded operations.
HWY_NOINLINE void finish_channels(const ByteDepthwise& conv, const TapNumbers& numbers,
                                  const float* sums, std::size_t c, std::size_t count,
                                  std::int64_t at) {
  const Floats d;
  for (std::size_t i = 0; i < count; i += kLanes) {
    auto value = hn::Mul(hn::LoadN(d, sums + i, count - i), hn::LoadU(d, numbers.scale + c + i));
    CTXGEN_KEEP(value);  // rounded, not joined with the sum
    if (numbers.bias != nullptr) value = hn::Add(value, hn::LoadU(d, numbers.bias + c + i));
    const std::int64_t to = at + static_cast<std::int64_t>(c + i);
    if (conv.bytes != nullptr)
      store_bytes(conv.steps, value, count - i, conv.bytes + to);
    else
      hn::StoreN(value, d, conv.out + to, count - i);
  }
}

constexpr std::size_t kBlockChannels = 2 * kLanes;  // whose bytes are made at once

/// Bytes of the sums of a block of channels, or of `count` of them, from element `at` of the result on: those of a pixel
/// `pitch` floats after those of the one before.
template <bool kWhole, bool kBounded>
HWY_NOINLINE void round_block(const ByteDepthwise& conv, const TapNumbers& numbers,
                              const float* sums, std::int64_t pitch, std::int64_t pixels,
                              std::size_t c, std::size_t count, std::int64_t at) {
  constexpr std::int64_t kChecked = 64;  // pixels
  const Floats d;
  const std::int64_t channels = conv.windows.channels;
  ByteRounder rounder(conv.steps, numbers.margin);
  const FloatVector factor[2] = {hn::LoadU(d, numbers.factor + c),
                                 hn::LoadU(d, numbers.factor + c + kLanes)};
  const FloatVector addend[2] = {hn::LoadU(d, numbers.addend + c),
                                 hn::LoadU(d, numbers.addend + c + kLanes)};
  const auto units = [&](const float* from, std::size_t v) CTXGEN_UNROLLED {
    const std::size_t first = v * kLanes;
    const auto sum = load<kWhole>(from + first, count - std::min(count, first));
    const auto x = hn::MulAdd(sum, factor[v], addend[v]);
    return kBounded ? hn::ConvertInRangeTo(Ints(), x) : ByteRounder::any_units(x);
  };
  std::uint8_t* to = conv.bytes + at + c;
  for (std::int64_t start = 0; start < pixels; start += kChecked) {
    const std::int64_t end = std::min(pixels - start, kChecked);
    std::uint64_t unsure = 0;  // a bit per pixel
    const float* from = sums + start * pitch;
    for (std::int64_t i = 0; i < end; ++i, from += pitch, to += channels) {
      rounder.reset();
      rounder.store(units(from, 0), units(from, 1), kWhole ? kBlockChannels : count, to);
      unsure |= std::uint64_t{rounder.is_sure() ? 0U : 1U} << i;
    }
    for (; HWY_UNLIKELY(unsure != 0); unsure &= unsure - 1) {
      const std::int64_t pixel = start + std::countr_zero(unsure);
      finish_channels(conv, numbers, sums + pixel * pitch, c, count, at + pixel * channels);
    }
  }
}

HWY_NOINLINE void round_channels(const ByteDepthwise& conv, const TapNumbers& numbers,
                                 const float* sums, std::int64_t pitch, std::int64_t pixels,
                                 std::size_t c, std::size_t count, std::int64_t at) {
  const auto round = [&]<bool kWhole, bool kBounded>() HWY_ATTR {
    round_block<kWhole, kBounded>(conv, numbers, sums, pitch, pixels, c, count, at);
  };
  const bool whole = count >= kBlockChannels;
  if (numbers.bounded) {
    if (whole) return round.template operator()<true, true>();
    return round.template operator()<false, true>();
  }
  if (whole) return round.template operator()<true, false>();
  round.template operator()<false, false>();
}

/// The results of pixels' sums, [pixels, channels], from element `at` of the result on.
HWY_NOINLINE void finish_pixels(const ColumnRun& run, const float* sums, std::int64_t pixels,
                                std::int64_t at) {
  const ByteDepthwise& conv = *run.conv;
  const std::int64_t channels = conv.windows.channels;
  const auto all = static_cast<std::size_t>(channels);
  if (conv.bytes != nullptr && run.numbers.usable) {
    for (std::size_t c = 0; c < all; c += kBlockChannels)
      round_channels(conv, run.numbers, sums + c, channels, pixels, c,
                     std::min(all - c, kBlockChannels), at);
    return;
  }
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel, sums += channels, at += channels)
    finish_channels(conv, run.numbers, sums, 0, all, at);
}

/// Results [start, start + pixels) of a line, of a vector of channels or `count` of them: their sums, kBlockChannels floats from
/// one to the next.
template <bool kSigned, std::size_t kStride>
HWY_NOINLINE void sum_swept(const ColumnRun& run, const SweptLines& lines, std::size_t c,
                            std::size_t count, std::int64_t start, std::int64_t pixels,
                            float* sums) {
  using Byte = std::conditional_t<kSigned, std::int8_t, std::uint8_t>;
  using Columns = FloatVector[3];  // or lines
  const Floats d;
  const hn::Rebind<Byte, Ints> bytes;
  const auto real = [&](auto read)
                        HWY_ATTR { return hn::ConvertTo(d, hn::PromoteTo(Ints(), read)); };
  const auto padding = real(hn::Set(bytes, static_cast<Byte>(lines.padding)));
  const auto first = hn::ConvertTo(d, hn::LoadU(Ints(), run.numbers.first + c));
  FloatVector by[3][3];
  unrolled<9>([&](auto t) CTXGEN_UNROLLED {
    by[t / 3][t % 3] = hn::LoadU(d, run.weights + static_cast<std::int64_t>(t) * run.pitch + c);
  });
  std::int64_t x = start * static_cast<std::int64_t>(kStride) - lines.left;
  std::int64_t offset[3];  // of column x
  for (std::size_t l = 0; l < 3; ++l) offset[l] = x * lines.step[l] + static_cast<std::int64_t>(c);
  const auto read_next = [&](Columns& line) CTXGEN_UNROLLED {
    const bool there = x >= 0 && x < lines.columns;
    unrolled<3>([&](auto l) CTXGEN_UNROLLED {
      const auto* from = reinterpret_cast<const Byte*>(lines.at[l]) + offset[l];
      offset[l] += lines.step[l];
      if (HWY_UNLIKELY(!there))
        line[l] = padding;
      else
        line[l] = real(count >= kLanes ? hn::LoadU(bytes, from) : hn::LoadN(bytes, from, count));
    });
    ++x;
  };
  const auto add = [&](FloatVector sum, const Columns& line, auto column) CTXGEN_UNROLLED {
    unrolled<3>([&](auto l) CTXGEN_UNROLLED { sum = hn::MulAdd(line[l], by[l][column], sum); });
    return sum;
  };
  constexpr std::integral_constant<std::size_t, 0> kLeft;
  constexpr std::integral_constant<std::size_t, 1> kMiddle;
  constexpr std::integral_constant<std::size_t, 2> kRight;
  Columns line;
  read_next(line);
  auto sum = add(first, line, kLeft), next = first;  // of this result and the one after it
  if constexpr (kStride == 1) {
    read_next(line);
    sum = add(sum, line, kMiddle);
    next = add(first, line, kLeft);
  }
  for (std::int64_t i = 0; i < pixels; ++i, sums += kBlockChannels) {
    if constexpr (kStride == 2) {
      read_next(line);
      sum = add(sum, line, kMiddle);
    }
    read_next(line);
    hn::StoreU(add(sum, line, kRight), d, sums);
    if constexpr (kStride == 1) {
      sum = add(next, line, kMiddle);
      next = add(first, line, kLeft);
    } else {
      sum = add(first, line, kLeft);
    }
  }
}

/// Line `y` of the results of an image in bytes, by factors. Requires  may_be_swept(), usable numbers.
HWY_NOINLINE void sweep_columns(const ColumnRun& run, std::int64_t image, std::int64_t y) {
  constexpr std::int64_t kChunk = 64;  // pixels, whose sums stay in the first cache
  HWY_ALIGN float sums[static_cast<std::size_t>(kChunk) * kBlockChannels];
  const ByteDepthwise& conv = *run.conv;
  const Windows& w = conv.windows;
  const SweptLines lines = swept_lines(conv, run.padding, image, y);
  const std::int64_t at = (image * w.result[0] + y) * w.result[1] * w.channels;
  const auto all = static_cast<std::size_t>(w.channels);
  const auto sum = [&]<bool kSigned>(std::size_t c, std::size_t count, std::int64_t start,
                                     std::int64_t pixels, float* to) HWY_ATTR {
    if (w.stride[1] == 1) return sum_swept<kSigned, 1>(run, lines, c, count, start, pixels, to);
    sum_swept<kSigned, 2>(run, lines, c, count, start, pixels, to);
  };
  for (std::size_t c = 0; c < all; c += kBlockChannels)
    for (std::int64_t start = 0; start < w.result[1]; start += kChunk) {
      const std::int64_t pixels = std::min(w.result[1] - start, kChunk);
      const std::size_t count = std::min(all - c, kBlockChannels);
      for (std::size_t i = 0; i < count; i += kLanes) {
        if (conv.is_signed)
          sum.template operator()<true>(c + i, count - i, start, pixels, sums + i);
        else
          sum.template operator()<false>(c + i, count - i, start, pixels, sums + i);
      }
      round_channels(conv, run.numbers, sums, kBlockChannels, pixels, c, count,
                     at + start * w.channels);
    }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
