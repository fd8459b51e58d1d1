#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/kernels/product.h"

// Exact convolutions of bytes whose results each see one channel.
namespace ctxgen::kernels {

/// sums = (src - zero) * weights over the windows; out and bytes as of ByteProduct. Sums are computed in f32, which
/// holds them: they are below 2^24 where the kernel has at most kMostByteTaps positions.
struct ByteDepthwise {
  Windows windows;         // of all channels, which follow one another: pitch is channels
  bool is_signed = false;  // src and its zero point are s8, not u8
  const std::uint8_t* src = nullptr;
  const std::uint8_t* zero = nullptr;    // one, or null: 0
  const std::int8_t* weights = nullptr;  // [kernel[0], kernel[1], channels]
  const float* a_scale = nullptr;        // one, or null: 1
  const float* b_scales = nullptr;       // [channels], one, or null: 1
  bool scale_per_channel = false;
  const float* bias = nullptr;    // [channels] or null
  std::uint8_t* bytes = nullptr;  // [images x lines x columns, channels]; null: `out` is written
  float* out = nullptr;
  ByteSteps steps = {};          // of `bytes`
  std::byte* scratch = nullptr;  // scratch_bytes() at a multiple of 64
};

inline constexpr std::int64_t kMostByteTaps = 512;

/// How lines of results are divided: a part's source and sums stay in a cache, a lane takes neighbouring parts one after another.
struct ByteDepthwiseForm {
  std::int64_t part_lines = 1;  // of an image's results
  std::int64_t parts_of_image = 1;
  std::int64_t lanes = 1;
  std::uint64_t shared_bytes = 0;  // of scratch: weights and factors
  std::uint64_t source_bytes = 0, lane_bytes = 0;
  bool joined = false;  // by products of four bytes of joined lines, not in f32
  [[nodiscard]] std::uint64_t scratch_bytes() const {
    return shared_bytes + static_cast<std::uint64_t>(lanes) * lane_bytes;
  }
};

/// Nothing if its scratch memory passes 2^62, or the kernel has more than kMostByteTaps positions.
/// Requires  sizes of at least 1 and `threads` >= 1.
[[nodiscard]] std::optional<ByteDepthwiseForm> byte_depthwise_form(const Windows& windows,
                                                                   int threads);

/// Exact on every instruction set.
///
/// Threads  any; lanes are split over `workers`. The result does not depend on them.
void byte_depthwise(const ByteDepthwise& conv, const ByteDepthwiseForm& form, Workers& workers);

}  // namespace ctxgen::kernels
