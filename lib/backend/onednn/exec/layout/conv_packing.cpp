#include "layout/conv_packing.h"

#include <algorithm>
#include <array>

#include "layout/layout.h"

namespace ctxgen::onednn {

using Tag = dnnl::memory::format_tag;

namespace {

bool wide_vectors(InstructionSet usable) { return includes(usable, InstructionSet::kAvx512Core); }

/// The first of `blocks` that pads `m` results least.
std::int64_t least_padded_block(std::int64_t m, std::span<const std::int64_t> blocks) {
  const auto padded = [&](std::int64_t block) { return (m + block - 1) / block * block; };
  return *std::ranges::min_element(blocks, {}, padded);
}

/// With AVX-512 what oneDNN's kernels choose with one thread at sizes that are common for so many
/// results, of the blocks that pad them least; with AVX2 what a tile of our own is wide, because
/// oneDNN's choice changes with the image there, and for short windows what it mostly is.
std::int64_t panel_block(std::int64_t m, std::int64_t depth, InstructionSet usable) {
  if (m <= 16) return 16;
  if (!wide_vectors(usable)) return depth < kShortDepth && m % 32 == 0 ? 32 : 16;
  const auto padded = [&](std::int64_t block) { return (m + block - 1) / block * block; };
  const std::int64_t least = std::min({padded(64), padded(48), padded(32)});
  if (m <= 128 && padded(64) == least) return 64;
  const bool even = m < 512 && m % 48 == 0;
  return padded(48) == least && (even || padded(32) != least) ? 48 : 32;
}

/// oneDNN's kernels for volumes and for transposed convolutions, which have no panels of our own.
std::int64_t library_block(std::int64_t m, InstructionSet usable) {
  if (wide_vectors(usable)) return panel_block(m, kShortDepth, usable);
  return m <= 8 ? 8 : m <= 16 ? 16 : 32;
}

struct BlockTag {
  std::int64_t block;
  Tag tag;
};

template <std::size_t kCount>
std::optional<Tag> tag_of(const std::array<BlockTag, kCount>& tags, std::int64_t block) {
  const auto found = std::ranges::find(tags, block, &BlockTag::block);
  if (found == tags.end()) return std::nullopt;
  return found->tag;
}

constexpr std::array kFloatPlane{BlockTag{8, Tag::Acdb8a}, BlockTag{16, Tag::Acdb16a},
                                 BlockTag{32, Tag::Acdb32a}, BlockTag{48, Tag::Acdb48a},
                                 BlockTag{64, Tag::Acdb64a}};
constexpr std::array kFloatVolume{BlockTag{8, Tag::Acdeb8a}, BlockTag{16, Tag::Acdeb16a},
                                  BlockTag{32, Tag::Acdeb32a}, BlockTag{48, Tag::Acdeb48a},
                                  BlockTag{64, Tag::Acdeb64a}};
constexpr std::array kBytePlane{BlockTag{8, Tag::AcdB8a4b},   BlockTag{16, Tag::AcdB16a4b},
                                BlockTag{24, Tag::AcdB24a4b}, BlockTag{32, Tag::AcdB32a4b},
                                BlockTag{48, Tag::AcdB48a4b}, BlockTag{64, Tag::AcdB64a4b}};

// What AMX's kernels read where more channels are summed than a tile has.
constexpr std::array kByteTiles{BlockTag{16, Tag::AcdB16b16a4b}, BlockTag{32, Tag::AcdB16b32a4b},
                                BlockTag{48, Tag::AcdB16b48a4b}, BlockTag{64, Tag::AcdB16b64a4b}};
constexpr std::array kPairTiles{BlockTag{16, Tag::AcdB16b16a2b}, BlockTag{32, Tag::AcdB16b32a2b},
                                BlockTag{48, Tag::AcdB16b48a2b}, BlockTag{64, Tag::AcdB16b64a2b}};

constexpr std::array kPairPlane{BlockTag{16, Tag::AcdB16a2b}, BlockTag{32, Tag::AcdB32a2b},
                                BlockTag{48, Tag::AcdB48a2b}, BlockTag{64, Tag::AcdB64a2b}};
constexpr std::array kPairGroups{BlockTag{16, Tag::aBdeC16b2c}, BlockTag{32, Tag::aBdeC32b2c},
                                 BlockTag{48, Tag::aBdeC48b2c}, BlockTag{64, Tag::aBdeC64b2c}};

/// One weight per channel and position: one kernel at all numbers of threads.
Tag depthwise(InstructionSet usable) { return wide_vectors(usable) ? Tag::decbA16a : Tag::decbA8a; }

/// Groups as narrow as a vector: oneDNN's kernels for these.
std::optional<Tag> narrow_groups(std::int64_t m, std::int64_t c, InstructionSet usable) {
  if (m != c) return std::nullopt;
  if (!wide_vectors(usable)) return m <= 8 ? Tag::aBdec8b : Tag::aBdec16b;
  return m <= 4 ? Tag::aBCde4c4b : m <= 8 ? Tag::aBCde8c8b : Tag::aBCde16c16b;
}

/// What oneDNN's kernels for AMX choose with up to 8 threads at sizes that are common for so many results of bytes, or of
/// pairs of bytes.
std::optional<Tag> of_tiles(const Dims& dims, std::int64_t m, bool pairs) {
  static constexpr std::array<std::int64_t, 3> kPointwise{64, 48, 32}, kWindow{32, 48, 64};
  const bool pointwise = dims[2] == 1 && dims[3] == 1;
  const bool narrow = m <= 16 || (pairs && !pointwise && m == 64);
  const std::int64_t block = narrow ? 16 : least_padded_block(m, pointwise ? kPointwise : kWindow);
  if (pairs) return tag_of(dims[1] <= 32 ? kPairPlane : kPairTiles, block);
  return dims[1] <= 64 ? tag_of(kBytePlane, block) : tag_of(kByteTiles, block);
}

std::optional<Tag> of_bytes(const ConvWeights& weights, std::int64_t m, InstructionSet usable) {
  if (weights.source != DataType::kUint8) return std::nullopt;  // sums of the weights go with them
  if (weights.grouped)
    return weights.dims[1] == 1 && weights.dims[2] == 1 ? std::optional(depthwise(usable))
                                                        : std::nullopt;
  if (includes(usable, InstructionSet::kAvx512CoreAmx)) return of_tiles(weights.dims, m, false);
  static constexpr std::array<std::int64_t, 3> kWide{64, 48, 32};
  static constexpr std::array<std::int64_t, 2> kNarrow{32, 24};
  if (m <= 16) return tag_of(kBytePlane, m <= 8 && !wide_vectors(usable) ? 8 : 16);
  return tag_of(kBytePlane, wide_vectors(usable) ? least_padded_block(m, kWide)
                                                 : least_padded_block(m, kNarrow));
}

}  // namespace

std::span<const WindowPacking> window_packings() {
  static constexpr std::array kPackings{WindowPacking{16, Tag::Acdb16a, Tag::aBdec16b},
                                        WindowPacking{32, Tag::Acdb32a, Tag::aBdec32b},
                                        WindowPacking{48, Tag::Acdb48a, Tag::aBdec48b},
                                        WindowPacking{64, Tag::Acdb64a, Tag::aBdec64b}};
  return kPackings;
}

std::optional<Tag> conv_packing(const ConvWeights& weights, InstructionSet usable) {
  const bool narrow = weights.type == DataType::kBfloat16 || weights.type == DataType::kFloat16;
  if (!includes(usable, InstructionSet::kAvx2) && !narrow) return std::nullopt;
  const std::size_t first = weights.grouped ? 1 : 0;
  const std::size_t kernel_dims = weights.dims.size() - first - 2;
  const std::int64_t m = weights.dims[first], c = weights.dims[first + 1];
  if (kernel_dims != 2 && (kernel_dims != 3 || weights.grouped)) return std::nullopt;
  if (weights.type == DataType::kInt8)
    return kernel_dims == 2 && !weights.transposed ? of_bytes(weights, m, usable) : std::nullopt;
  if (weights.type != DataType::kFloat && weights.source == weights.type) {  // pairs of channels
    if (weights.transposed || kernel_dims != 2 || !fills_panels(m, c, weights.grouped))
      return std::nullopt;
    const bool tiles = includes(usable, InstructionSet::kAvx512CoreAmx) && !weights.grouped &&
                       weights.type == DataType::kBfloat16;
    if (tiles) return of_tiles(weights.dims, m, true);
    return tag_of(weights.grouped ? kPairGroups : kPairPlane, panel_block(m, kShortDepth, usable));
  }
  // Narrow types in f32's packings, from which own kernels widen them.
  if (weights.type != DataType::kFloat && !narrow) return std::nullopt;
  if (weights.transposed)
    return weights.grouped || kernel_dims != 2 ? std::nullopt
                                               : tag_of(kFloatPlane, library_block(m, usable));
  if (kernel_dims == 3) return tag_of(kFloatVolume, library_block(m, usable));
  if (weights.grouped) {
    if (m == 1 && c == 1) return depthwise(usable);
    if (!fills_panels(m, c, true)) return narrow_groups(m, c, usable);
  } else if (!fills_panels(m, c, false)) {
    return wide_vectors(usable) || narrow ? Tag::Acdb16a : Tag::Acdb8a;
  }
  const std::int64_t depth = volume(weights.dims, first + 1);
  const auto panels =
      std::ranges::find(window_packings(), panel_block(m, depth, usable), &WindowPacking::columns);
  return weights.grouped ? panels->grouped : panels->one;
}

}  // namespace ctxgen::onednn
