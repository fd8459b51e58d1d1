#include "ctxgen/kernels/byte_pool.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bytes/byte_pool.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretches.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// What a window holds of an image.
struct Window {
  const std::uint8_t* src;  // its first pixel
  std::int64_t lines, columns;
  std::int64_t line, column;  // bytes from one to the next
};

/// A vector of channels: kFlip brings s8 into the order of u8, and back.
template <class D, bool kFlip>
HWY_INLINE hn::Vec<D> largest(D d, const Window& window, const std::uint8_t* from,
                              std::size_t count) {
  const auto flip = hn::Set(d, kFlip ? 128 : 0);
  auto most = hn::Zero(d);
  for (std::int64_t y = 0; y < window.lines; ++y, from += window.line) {
    const std::uint8_t* at = from;
    for (std::int64_t x = 0; x < window.columns; ++x, at += window.column) {
      const auto value = count >= hn::Lanes(d) ? hn::LoadU(d, at) : hn::LoadN(d, at, count);
      most = hn::Max(most, kFlip ? hn::Xor(value, flip) : value);
    }
  }
  return kFlip ? hn::Xor(most, flip) : most;
}

/// A pixel of the result: whole vectors, then ones of 16 bytes.
template <bool kFlip>
HWY_INLINE void pool_pixel(const Window& window, std::size_t channels, std::uint8_t* to) {
  const hn::ScalableTag<std::uint8_t> whole;
  const hn::CappedTag<std::uint8_t, 16> few;
  std::size_t c = 0;
  for (; channels - c >= hn::Lanes(whole); c += hn::Lanes(whole))
    hn::StoreU(largest<decltype(whole), kFlip>(whole, window, window.src + c, hn::Lanes(whole)),
               whole, to + c);
  for (; c < channels; c += hn::Lanes(few))
    hn::StoreN(largest<decltype(few), kFlip>(few, window, window.src + c, channels - c), few,
               to + c, channels - c);
}

template <bool kFlip>
HWY_NOINLINE void pool_line(const BytePool& pool, std::int64_t line) {
  const Windows& w = pool.windows;
  const std::int64_t image = line / w.result[0];
  const std::int64_t top = line % w.result[0] * w.stride[0] - w.pad[0];
  const Positions y = positions(top, w.size[0], w.kernel[0], w.dilation[0]);
  const auto channels = static_cast<std::size_t>(w.channels);
  std::uint8_t* to = pool.result + line * w.result[1] * w.channels;
  for (std::int64_t i = 0; i < w.result[1]; ++i, to += channels) {
    const std::int64_t left = i * w.stride[1] - w.pad[1];
    const Positions x = positions(left, w.size[1], w.kernel[1], w.dilation[1]);
    Window window{.src = pool.src,
                  .lines = x.count() == 0 ? 0 : y.count(),
                  .columns = x.count(),
                  .line = w.dilation[0] * w.size[1] * w.channels,
                  .column = w.dilation[1] * w.channels};
    if (window.lines > 0)  // elsewhere nothing is read
      window.src += ((image * w.size[0] + top + y.first * w.dilation[0]) * w.size[1] + left +
                     x.first * w.dilation[1]) *
                    w.channels;
    pool_pixel<kFlip>(window, channels, to);
  }
}

HWY_NOINLINE void pool_bytes(const BytePool& pool, std::int64_t first, std::int64_t lines) {
  for (std::int64_t line = first; line < first + lines; ++line) {
    if (pool.is_signed)
      pool_line<true>(pool, line);
    else
      pool_line<false>(pool, line);
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

void pool_byte_lines(const BytePool& pool, std::int64_t line, std::int64_t lines) {
  CTXGEN_DISPATCH(pool_bytes(pool, line, lines));
}

}  // namespace ctxgen::kernels
#endif
