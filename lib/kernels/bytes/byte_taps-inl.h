// Depthwise convolutions by products of four bytes. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_TAPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_TAPS_INL_H
#undef CTXGEN_KERNELS_BYTE_TAPS_INL_H
#else
#define CTXGEN_KERNELS_BYTE_TAPS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "bytes/byte_columns-inl.h"
#include "bytes/byte_store-inl.h"
#include "bytes/byte_taps.h"
#include "dot-inl.h"

#if CTXGEN_HAVE_VNNI  // clang refuses to have nothing between what Highway puts around code
HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

// Channels are taken in blocks: as many as a vector has bytes, then half and a quarter of that, down to 16. The words of a block
// are four vectors, in the order in which bytes of four vectors are joined word by word within 16 bytes: vector v holds channels
// 4 v to 4 v + 3 of each 16. Joining numbers to bytes again by such instructions restores the order.
template <std::size_t kBytes>
struct TapBlock {
  using D8 = hn::CappedTag<std::uint8_t, kBytes>;
  using D16 = hn::Repartition<std::uint16_t, D8>;
  using D32 = hn::Repartition<std::int32_t, D8>;
  using DF = hn::Repartition<float, D8>;
  static constexpr std::size_t kLanes = kBytes / 4;
};

/// Four lines at a column: where their channels begin.
struct TapLines {
  const std::uint8_t* at[4];
  std::uint8_t flip;  // 128 where bytes are s8 that are to be u8
};

/// The words of channels [c, c + kBytes), or of `count` of them.
template <std::size_t kBytes>
HWY_INLINE void join_block(const TapLines& lines, std::size_t c, std::size_t count, std::byte* to) {
  using Block = TapBlock<kBytes>;
  const typename Block::D8 d8;
  const typename Block::D16 d16;
  const auto flip = hn::Set(d8, lines.flip);
  const auto line = [&](std::size_t i) HWY_ATTR {
    const std::uint8_t* from = lines.at[i] + c;
    if (count < kBytes) return hn::Xor(hn::LoadN(d8, from, count), flip);
    return hn::Xor(hn::LoadU(d8, from), flip);
  };
  const auto a = line(0), b = line(1), e = line(2), f = line(3);
  const auto low = hn::BitCast(d16, hn::InterleaveLower(d8, a, b));
  const auto high = hn::BitCast(d16, hn::InterleaveUpper(d8, a, b));
  const auto low2 = hn::BitCast(d16, hn::InterleaveLower(d8, e, f));
  const auto high2 = hn::BitCast(d16, hn::InterleaveUpper(d8, e, f));
  auto* words = reinterpret_cast<std::uint16_t*>(to + c * 4);
  constexpr std::size_t kStep = kBytes / 2;
  hn::StoreU(hn::InterleaveLower(d16, low, low2), d16, words);
  hn::StoreU(hn::InterleaveUpper(d16, low, low2), d16, words + kStep);
  hn::StoreU(hn::InterleaveLower(d16, high, high2), d16, words + 2 * kStep);
  hn::StoreU(hn::InterleaveUpper(d16, high, high2), d16, words + 3 * kStep);
}

/// Calls take<bytes>(channel, count) for blocks of `channels`.
template <class Take>
HWY_INLINE void for_tap_blocks(std::size_t channels, const Take& take) {
  std::size_t c = 0;
  const auto take_all = [&]<std::size_t kBytes>() HWY_ATTR {
    if constexpr (kBytes <= HWY_MAX_BYTES)
      for (; channels - c >= kBytes; c += kBytes) take.template operator()<kBytes>(c, kBytes);
  };
  take_all.template operator()<64>();
  take_all.template operator()<32>();
  take_all.template operator()<16>();
  if (c < channels) take.template operator()<16>(c, channels - c);
}

/// The words of all channels at a column.
HWY_INLINE void join_column(const TapLines& lines, std::size_t channels, std::byte* to) {
  for_tap_blocks(channels, [&]<std::size_t kBytes>(std::size_t c, std::size_t count)
                               HWY_ATTR { join_block<kBytes>(lines, c, count, to); });
}

/// The joined lines of the kernel, group by group; lines that it does not have are `zeros`.
HWY_NOINLINE void join_weights(const ByteDepthwise& conv, const std::uint8_t* zeros,
                               std::byte* to) {
  const Windows& w = conv.windows;
  const TapLayout layout(w);
  const auto* weights = reinterpret_cast<const std::uint8_t*>(conv.weights);
  for (std::int64_t i = 0; i < layout.groups * w.kernel[1]; ++i, to += layout.word_row) {
    TapLines lines{.at = {}, .flip = 0};
    for (std::int64_t l = 0; l < 4; ++l) {
      const std::int64_t line = i / w.kernel[1] * 4 + l, column = i % w.kernel[1];
      lines.at[l] =
          line < w.kernel[0] ? weights + (line * w.kernel[1] + column) * w.channels : zeros;
    }
    join_column(lines, static_cast<std::size_t>(w.channels), to);
  }
}

/// What sums begin with: less the zero point times the sum of the weights.
HWY_NOINLINE void start_sums(const Windows& w, std::uint8_t zero, const std::byte* weights,
                             std::int32_t* first) {
  const TapLayout layout(w);
  const Ints d;
  const auto bytes = hn::BitCast(d, hn::Set(Bytes(), zero));
  for (std::int64_t c = 0; c < layout.channels; c += static_cast<std::int64_t>(hn::Lanes(d))) {
    auto sum = hn::Zero(d);
    for (std::int64_t i = 0; i < layout.groups * w.kernel[1]; ++i) {
      const auto* words = reinterpret_cast<const std::int32_t*>(weights + i * layout.word_row);
      add_products(sum, bytes, hn::LoadU(d, words + c));
    }
    hn::StoreU(hn::Neg(sum), d, first + c);
  }
}

/// Moves numbers of channels, filled up to 16, into the order of the words.
HWY_INLINE void sort_numbers(const float* from, std::size_t channels, float* to) {
  for_tap_blocks(channels, [&]<std::size_t kBytes>(std::size_t c, std::size_t) HWY_ATTR {
    for (std::size_t i = 0; i < kBytes; i += 4)
      std::memcpy(to + c + i / 4 % 4 * (kBytes / 4) + i / 16 * 4, from + c + i, 4 * sizeof(float));
  });
}

/// What makes results of a pixel's sums: by factors, and by the rounded operations where these do not decide.
template <std::size_t kBytes>
struct TapStore {
  using Block = TapBlock<kBytes>;
  using D16 = hn::Repartition<std::int16_t, typename Block::D8>;
  using Sums = hn::Vec<typename Block::D32>[4];

  HWY_INLINE TapStore(const TapRun& run, std::size_t c)
      : steps(run.conv->steps),
        numbers(run.numbers),
        at(c),
        usable(run.numbers.usable),
        unsure(hn::Set(d16, static_cast<std::uint16_t>(2 * run.numbers.margin))),
        least(hn::Set(di16, static_cast<std::int16_t>(steps.least + steps.zero))),
        most(hn::Set(di16, static_cast<std::int16_t>(steps.most + steps.zero))) {
    for (std::size_t v = 0; v < 4; ++v) {
      factor[v] = hn::LoadU(df, numbers.factor + c + v * Block::kLanes);
      addend[v] = hn::LoadU(df, numbers.addend + c + v * Block::kLanes);
    }
  }

  HWY_INLINE void bytes(const Sums& sum, std::size_t count, std::uint8_t* to) const {
    Sums whole;
    if (HWY_UNLIKELY(!whole_by_factors<false>(sum, whole) || !usable)) divide(sum, whole);
    join(whole, count, to);
  }
  /// By factors; false: these do not decide. kBounded: TapNumbers::bounded.
  template <bool kBounded>
  HWY_INLINE bool round(const Sums& sum, std::size_t count, std::uint8_t* to) const {
    Sums whole;
    const bool sure = whole_by_factors<kBounded>(sum, whole);
    join(whole, count, to);
    return sure;
  }
  /// By the rounded operations.
  HWY_INLINE void divided_bytes(const Sums& sum, std::size_t count, std::uint8_t* to) const {
    Sums whole;
    divide(sum, whole);
    join(whole, count, to);
  }

  HWY_INLINE void reals(const Sums& sum, std::size_t count, float* to) const {
    HWY_ALIGN float values[kBytes];
    for (std::size_t v = 0; v < 4; ++v) {
      hn::StoreU(value(sum, v), df, values + v * Block::kLanes);
    }
    HWY_ALIGN float sorted[kBytes];
    for (std::size_t i = 0; i < kBytes; i += 4)
      std::memcpy(sorted + i, values + i / 4 % 4 * Block::kLanes + i / 16 * 4, 4 * sizeof(float));
    std::memcpy(to, sorted, count * sizeof(float));
  }

 private:
  template <bool kBounded>
  HWY_INLINE bool whole_by_factors(const Sums& sum, Sums& units) const {
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < 4; ++v) {
      auto x = hn::MulAdd(hn::ConvertTo(df, sum[v]), factor[v], addend[v]);
      if constexpr (!kBounded) x = hn::Min(x, hn::Set(df, 0x1.fffffep30F));
      units[v] = hn::ConvertInRangeTo(d32, x);
    }
    const auto parts = [&](std::size_t v) HWY_ATTR {  // of two vectors
      return hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(units[v + 1])),
                         hn::BitCast(d16, units[v]));
    };
    const auto nearest = hn::Min(parts(0), parts(2));
    HWY_UNROLL(4)
    for (auto& unit : units) unit = hn::ShiftRight<16>(unit);
    return hn::AllTrue(d16, hn::Ge(nearest, unsure));
  }
  HWY_INLINE hn::Vec<typename Block::DF> value(const Sums& sum, std::size_t v) const {
    const std::size_t i = at + v * Block::kLanes;
    auto scaled = hn::Mul(hn::ConvertTo(df, sum[v]), hn::LoadU(df, numbers.scale + i));
    CTXGEN_KEEP(scaled);  // rounded, not joined with the sum
    return numbers.bias == nullptr ? scaled : hn::Add(scaled, hn::LoadU(df, numbers.bias + i));
  }
  HWY_NOINLINE void divide(const Sums& sum, Sums& whole) const {
    for (std::size_t v = 0; v < 4; ++v) {
      const auto x = hn::Div(value(sum, v), hn::Set(df, steps.scale));
      const auto held = hn::Min(hn::Max(x, hn::Set(df, static_cast<float>(steps.least))),
                                hn::Set(df, static_cast<float>(steps.most)));
      whole[v] = hn::Add(hn::NearestInt(held), hn::Set(d32, steps.zero));
    }
  }
  HWY_INLINE void join(const Sums& whole, std::size_t count, std::uint8_t* to) const {
    const D16 d;
    const typename Block::D8 d8;
    const hn::Repartition<std::int8_t, typename Block::D8> di8;
    const auto hold = [&](auto x) HWY_ATTR { return hn::Min(hn::Max(x, least), most); };
    const auto low = hold(hn::ReorderDemote2To(d, whole[0], whole[1]));
    const auto high = hold(hn::ReorderDemote2To(d, whole[2], whole[3]));
    const auto all = steps.least + steps.zero < 0
                         ? hn::BitCast(d8, hn::ReorderDemote2To(di8, low, high))
                         : hn::ReorderDemote2To(d8, low, high);
    if (count >= kBytes)
      hn::StoreU(all, d8, to);
    else
      hn::StoreN(all, d8, to, count);
  }

  static constexpr D16 di16{};
  static constexpr typename Block::D16 d16{};
  static constexpr typename Block::D32 d32{};
  static constexpr typename Block::DF df{};
  ByteSteps steps;
  TapNumbers numbers;
  std::size_t at;
  bool usable;
  hn::Vec<typename Block::D16> unsure;
  hn::Vec<D16> least, most;
  hn::Vec<typename Block::DF> factor[4], addend[4];
};

/// A line of results of a block of channels; kTaps: words of the kernel, or 0 for any number of them.
template <std::size_t kBytes, std::size_t kTaps>
HWY_NOINLINE void convolve_block(const TapRun& run, const std::byte* joined, std::size_t c,
                                 std::size_t count, std::int64_t at) {
  using Block = TapBlock<kBytes>;
  const typename Block::D32 d;
  const ByteDepthwise& conv = *run.conv;
  const Windows& w = conv.windows;
  const TapLayout layout(w);
  const TapStore<kBytes> store(run, c);
  const std::size_t taps =
      kTaps == 0 ? static_cast<std::size_t>(layout.groups * w.kernel[1]) : kTaps;
  const auto words = [&](const std::byte* row, std::size_t v) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const std::int32_t*>(row) + c + v * Block::kLanes);
  };
  hn::Vec<typename Block::D32> weights[kTaps == 0 ? 1 : kTaps][4];
  for (std::size_t t = 0; t < kTaps; ++t)
    for (std::size_t v = 0; v < 4; ++v)
      weights[t][v] = words(run.weights + static_cast<std::int64_t>(t) * layout.word_row, v);
  const std::int64_t step = w.dilation[1] * layout.word_row;
  const std::int64_t group = layout.columns * layout.word_row;
  for (std::int64_t x = 0; x < w.result[1]; ++x, at += w.channels) {
    typename TapStore<kBytes>::Sums sum;
    for (std::size_t v = 0; v < 4; ++v)
      sum[v] = hn::LoadU(d, run.numbers.first + c + v * Block::kLanes);
    const std::byte* from = joined + x * w.stride[1] * layout.word_row;
    if constexpr (kTaps > 0) {
      HWY_UNROLL(8)
      for (std::size_t t = 0; t < kTaps; ++t)
        for (std::size_t v = 0; v < 4; ++v)
          add_products(sum[v], words(from + static_cast<std::int64_t>(t) * step, v), weights[t][v]);
    } else {
      for (std::size_t t = 0; t < taps; ++t) {
        const auto tap = static_cast<std::int64_t>(t);
        const std::byte* row = from + tap / w.kernel[1] * group + tap % w.kernel[1] * step;
        for (std::size_t v = 0; v < 4; ++v)
          add_products(sum[v], words(row, v), words(run.weights + tap * layout.word_row, v));
      }
    }
    if (conv.bytes != nullptr)
      store.bytes(sum, count, conv.bytes + at + c);
    else
      store.reals(sum, count, conv.out + at + c);
  }
}

/// Joins the lines that line `y` of an image's results sees; `image`: where that begins.
HWY_NOINLINE void join_lines(const TapRun& run, const std::uint8_t* image, std::int64_t y,
                             std::byte* to) {
  const Windows& w = run.conv->windows;
  const TapLayout layout(w);
  const std::uint8_t flip = run.conv->is_signed ? 128 : 0;
  const auto padding = static_cast<int>(run.padding[0] ^ flip);
  const std::int64_t left = std::min(w.pad[1], layout.columns);
  const std::int64_t inside = std::clamp<std::int64_t>(w.size[1], 0, layout.columns - left);
  const std::int64_t right = layout.columns - left - inside;
  const auto pad = [&](std::int64_t columns) {
    std::memset(to, padding, static_cast<std::size_t>(columns * layout.word_row));
    to += columns * layout.word_row;
  };
  for (std::int64_t group = 0; group < layout.groups; ++group) {
    TapLines lines{.at = {}, .flip = flip};
    std::int64_t step[4];
    for (std::int64_t l = 0; l < 4; ++l) {
      const std::int64_t line = y * w.stride[0] - w.pad[0] + (group * 4 + l) * w.dilation[0];
      const bool there = group * 4 + l < w.kernel[0] && line >= 0 && line < w.size[0];
      lines.at[l] = there ? image + line * w.size[1] * w.channels : run.padding;
      step[l] = there ? w.channels : 0;
    }
    pad(left);
    for (std::int64_t x = 0; x < inside; ++x, to += layout.word_row) {
      join_column(lines, static_cast<std::size_t>(w.channels), to);
      for (std::size_t l = 0; l < 4; ++l) lines.at[l] += step[l];
    }
    pad(right);
  }
}

/// Line `y` of the results of an image; `joined`: memory for its words.
HWY_NOINLINE void convolve_taps(const TapRun& run, std::int64_t image, std::int64_t y,
                                std::byte* joined) {
  const Windows& w = run.conv->windows;
  const TapLayout layout(w);
  join_lines(run, run.conv->src + image * w.size[0] * w.size[1] * w.channels, y, joined);
  const std::int64_t at = (image * w.result[0] + y) * w.result[1] * w.channels;
  const bool three = layout.groups == 1 && w.kernel[1] == 3;
  for_tap_blocks(static_cast<std::size_t>(w.channels),
                 [&]<std::size_t kBytes>(std::size_t c, std::size_t count) HWY_ATTR {
                   if (three) return convolve_block<kBytes, 3>(run, joined, c, count, at);
                   convolve_block<kBytes, 0>(run, joined, c, count, at);
                 });
}

/// What lines share; `shared`: TapLayout::shared_bytes of memory at a multiple of 64. `scales`, `biases`: TapLayout::channels
/// of each, filled up with zeros.
HWY_NOINLINE void prepare_taps(const ByteDepthwise& conv, std::byte* shared, const float* scales,
                               const float* biases, TapRun& run) {
  const TapLayout layout(conv.windows);
  const auto all = static_cast<std::size_t>(layout.channels);
  const auto channels = static_cast<std::size_t>(conv.windows.channels);
  const std::uint8_t zero = conv.zero == nullptr ? 0 : *conv.zero;
  auto* numbers = reinterpret_cast<float*>(shared + layout.weight_bytes);
  auto* padding = reinterpret_cast<std::uint8_t*>(numbers + TapLayout::kNumbers * layout.channels);
  run = {.conv = &conv,
         .weights = shared,
         .numbers = tap_numbers(numbers, layout.channels, conv.bias != nullptr),
         .padding = padding};
  std::memset(padding, zero, all);
  std::memset(padding + all, 0, all);
  join_weights(conv, padding + all, shared);
  start_sums(conv.windows, zero ^ (conv.is_signed ? 128 : 0), shared, run.numbers.first);
  sort_numbers(scales, channels, run.numbers.scale);
  if (conv.bias != nullptr) sort_numbers(biases, channels, run.numbers.bias);
  make_factors(conv.steps, layout.channels, conv.windows.kernel[0] * conv.windows.kernel[1],
               run.numbers);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
