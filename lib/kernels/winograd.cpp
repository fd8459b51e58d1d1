#include "ctxgen/kernels/winograd.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "winograd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "product_tile-inl.h"
#include "winograd_layout.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

using std::int64_t;
inline constexpr auto kStep = static_cast<int64_t>(kLanes);

/// Vectors of columns that a tile of products takes at most: a panel of the transformed weights.
inline constexpr std::size_t kPanelVectors = kLanes == 8 ? 2 : 4;
/// Rows of tiles of as many.
inline constexpr auto kTileRows = static_cast<int64_t>(kRowsOf<kPanelVectors>);
inline constexpr int64_t kPanelColumns = static_cast<int64_t>(kPanelVectors * kLanes);

/// What a part works with.
struct Work {
  const PanelProduct& product;
  WinogradLayout layout;
  float *source, *weights, *sums, *zeros;  // planes, and a row of zeros
};

/// Where the 4 x 4 pixels of a tile are, line by line.
struct Neighbourhood {
  std::array<const float*, 16> pixels;
};

/// A tile of the result.
struct Place {
  int64_t image, y, x;  // of its first pixel
};

/// The next tile of the part.
HWY_INLINE void advance(const Windows& w, Place& at) {
  at.x += 2;
  if (at.x < w.result[1]) return;
  at.x = 0;
  at.y += 2;
  if (at.y < w.result[0]) return;
  at.y = 0;
  ++at.image;
}

HWY_INLINE Place place_of(const Windows& w, const WinogradLayout& layout, int64_t tile) {
  const int64_t line = tile / layout.line_tiles, of_image = (w.result[0] + 1) / 2;
  return {line / of_image, line % of_image * 2, tile % layout.line_tiles * 2};
}

/// B^T d B of a vector of channels: `load(i)` is pixel i of the neighbourhood, `store(p, x)` takes plane p.
HWY_INLINE void transform_pixels(const auto& load_pixel, const auto& store_plane) {
  FloatVector t[4][4];
  unrolled<4>([&](auto j) CTXGEN_UNROLLED {
    const FloatVector d0 = load_pixel(j), d1 = load_pixel(4 + j), d2 = load_pixel(8 + j),
                      d3 = load_pixel(12 + j);
    t[0][j] = hn::Sub(d0, d2);
    t[1][j] = hn::Add(d1, d2);
    t[2][j] = hn::Sub(d2, d1);
    t[3][j] = hn::Sub(d1, d3);
  });
  unrolled<4>([&](auto i) CTXGEN_UNROLLED {
    store_plane(4 * i, hn::Sub(t[i][0], t[i][2]));
    store_plane(4 * i + 1, hn::Add(t[i][1], t[i][2]));
    store_plane(4 * i + 2, hn::Sub(t[i][2], t[i][1]));
    store_plane(4 * i + 3, hn::Sub(t[i][1], t[i][3]));
  });
}

/// All channels of a tile. kInside: pixels of a line are `apart` floats from each other, and only the first of each is read of `from`.
template <bool kInside>
HWY_INLINE void transform_tile(const Neighbourhood& from, int64_t apart, int64_t channels,
                               float* HWY_RESTRICT to, int64_t plane) {
  const Floats d;
  const float* const lines[4] = {from.pixels[0], from.pixels[4], from.pixels[8], from.pixels[12]};
  int64_t c = 0;
  const auto pixel = [&](auto i) CTXGEN_UNROLLED {
    if constexpr (kInside) return lines[i / 4] + static_cast<int64_t>(i % 4) * apart + c;
    return from.pixels[i] + c;
  };
  const auto keep = [&](std::size_t p, FloatVector x) CTXGEN_UNROLLED {
    hn::StoreU(x, d, to + static_cast<int64_t>(p) * plane + c);
  };
  for (; c + kStep <= channels; c += kStep)
    transform_pixels([&](auto i) CTXGEN_UNROLLED { return hn::LoadU(d, pixel(i)); }, keep);
  if (c < channels) {
    const auto rest = static_cast<std::size_t>(channels - c);
    transform_pixels([&](auto i) CTXGEN_UNROLLED { return hn::LoadN(d, pixel(i), rest); }, keep);
  }
}

/// The source of `count` tiles from number `first` on, in planes: `channels` of it from `channel` on.
HWY_NOINLINE void transform_source(const Work& work, int64_t first, int64_t count, int64_t channel,
                                   int64_t channels) {
  const Windows& w = work.product.windows;
  const WinogradLayout& layout = work.layout;
  Place at = place_of(w, layout, first);
  for (int64_t t = 0; t < count; ++t, advance(w, at)) {
    const int64_t y = at.y - w.pad[0], x = at.x - w.pad[1];
    const float* image = work.product.src + at.image * w.size[0] * w.size[1] * w.pitch + channel;
    float* to = work.source + t * layout.pitch;
    Neighbourhood from{};
    if (y >= 0 && x >= 0 && y + 4 <= w.size[0] && x + 4 <= w.size[1]) {
      for (int64_t i = 0; i < 4; ++i)
        from.pixels[static_cast<std::size_t>(4 * i)] = image + ((y + i) * w.size[1] + x) * w.pitch;
      transform_tile<true>(from, w.pitch, channels, to, layout.source_plane);
      continue;
    }
    for (int64_t i = 0; i < 16; ++i) {
      const int64_t line = y + i / 4, column = x + i % 4;
      const bool inside = line >= 0 && line < w.size[0] && column >= 0 && column < w.size[1];
      from.pixels[static_cast<std::size_t>(i)] =
          inside ? image + (line * w.size[1] + column) * w.pitch : work.zeros;
    }
    transform_tile<false>(from, w.pitch, channels, to, layout.source_plane);
  }
}

/// G g G^T of a vector of columns: `taps[i]` is position i of the kernel.
HWY_INLINE void transform_taps(const FloatVector (&taps)[9], const auto& store_plane) {
  const FloatVector half = hn::Set(Floats(), 0.5F);
  FloatVector t[4][3];
  unrolled<3>([&](auto j) CTXGEN_UNROLLED {
    const FloatVector ends = hn::Add(taps[j], taps[6 + j]), middle = hn::Mul(half, taps[3 + j]);
    t[0][j] = taps[j];
    t[1][j] = hn::MulAdd(half, ends, middle);
    t[2][j] = hn::MulSub(half, ends, middle);
    t[3][j] = taps[6 + j];
  });
  unrolled<4>([&](auto i) CTXGEN_UNROLLED {
    const FloatVector ends = hn::Add(t[i][0], t[i][2]), middle = hn::Mul(half, t[i][1]);
    store_plane(4 * i, t[i][0]);
    store_plane(4 * i + 1, hn::MulAdd(half, ends, middle));
    store_plane(4 * i + 2, hn::MulSub(half, ends, middle));
    store_plane(4 * i + 3, t[i][2]);
  });
}

/// Columns of a line of a cache, which are transformed together: each line is read and written once.
inline constexpr int64_t kLineColumns = HWY_MAX(kStep, int64_t{16});

/// Some of a product's depth and a unit of its columns.
struct Unit {
  int64_t channel, channels;
  int64_t column, columns;
};

/// Floats from the start of a plane of weights to the panel of the vectors from `column` of the unit on.
HWY_INLINE int64_t panel_offset(const Unit& unit, int64_t column) { return column * unit.channels; }

/// Columns, stored, of the panel from `column` of the unit on.
HWY_INLINE int64_t panel_width(const Unit& unit, int64_t column) {
  const int64_t left = (unit.columns - column + kLineColumns - 1) / kLineColumns * kLineColumns;
  return HWY_MIN(kPanelColumns, left);
}

/// The weights of a line's columns, of all channels of the unit. `from`: the first channel's at the first position; `to`: at the
/// first plane, `width` floats from a channel to the next one.
HWY_INLINE void transform_lines(const Work& work, int64_t channels, const float* HWY_RESTRICT from,
                                float* HWY_RESTRICT to, int64_t width) {
  const Floats d;
  const int64_t plane = work.layout.weight_plane, block = work.product.matrix.block;
  const int64_t tap = work.product.windows.channels * block;  // floats between positions
  for (int64_t c = 0; c < channels; ++c, from += block, to += width) {
    for (int64_t v = 0; v < kLineColumns; v += kStep) {
      FloatVector taps[9];
      unrolled<9>([&](auto i) CTXGEN_UNROLLED {
        taps[i] = hn::LoadU(d, from + static_cast<int64_t>(i) * tap + v);
      });
      transform_taps(taps, [&](std::size_t p, FloatVector x) CTXGEN_UNROLLED {
        hn::StoreU(x, d, to + static_cast<int64_t>(p) * plane + v);
      });
    }
  }
}

/// The weights of a unit, in planes of panels.
HWY_NOINLINE void transform_weights(const Work& work, const Unit& unit) {
  const PackedMatrix& matrix = work.product.matrix;
  for (int64_t first = 0; first < unit.columns; first += kPanelColumns) {
    const int64_t width = panel_width(unit, first);
    float* panel = work.weights + panel_offset(unit, first);
    for (int64_t v = 0; v < width; v += kLineColumns) {
      const int64_t column = unit.column + first + v;
      const float* from = reinterpret_cast<const float*>(matrix.panels) +
                          column / matrix.block * matrix.panel_elements +
                          unit.channel * matrix.block + column % matrix.block;
      transform_lines(work, unit.channels, from, panel + v, width);
    }
  }
}

/// `rows` tiles times the columns of a panel.
template <std::size_t kVectors>
HWY_INLINE void multiply_rows(Tile tile, int64_t rows, int64_t row_pitch) {
  constexpr auto kMost = static_cast<int64_t>(kRowsOf<kVectors>);
  for (int64_t tiles = (rows + kMost - 1) / kMost; tiles > 0; --tiles) {
    const int64_t count = (rows + tiles - 1) / tiles;
    kTiles<kVectors>[static_cast<std::size_t>(count - 1)](tile);
    tile.src += count * row_pitch;
    tile.to += count * tile.to_pitch;
    if (tile.from != nullptr) tile.from += count * tile.to_pitch;
    rows -= count;
  }
}

/// Adds the products of `count` tiles, of which `first` of the block is the first one, with a unit.
HWY_NOINLINE void multiply_unit(const Work& work, const Unit& unit, int64_t first, int64_t count) {
  const WinogradLayout& layout = work.layout;
  std::array<int64_t, kMostTileRows> offsets, numbers;
  for (std::size_t i = 0; i < kMostTileRows; ++i) {
    offsets[i] = static_cast<int64_t>(i) * layout.pitch;
    numbers[i] = static_cast<int64_t>(i);
  }
  const Run run{0, 0, unit.channels};
  Tile tile{};
  tile.offsets = offsets.data();
  tile.numbers = numbers.data();
  tile.runs = &run;
  tile.run_count = 1;
  tile.half = 2 * kStep;
  tile.from_pitch = tile.to_pitch = layout.unit;
  for (int64_t p = 0; p < kPlanes; ++p)
    for (int64_t column = 0; column < unit.columns; column += kPanelColumns) {
      tile.block = panel_width(unit, column);
      tile.src = work.source + p * layout.source_plane + first * layout.pitch +
                 (layout.source_in_depths ? 0 : unit.channel);
      tile.panel = work.weights + p * layout.weight_plane + panel_offset(unit, column);
      tile.to = work.sums + p * layout.sum_plane + column;
      tile.from = unit.channel == 0 ? nullptr : tile.to;
      switch (tile.block / kStep) {
        case 4: multiply_rows<4>(tile, count, layout.pitch); break;
        case 3: multiply_rows<3>(tile, count, layout.pitch); break;
        case 2: multiply_rows<2>(tile, count, layout.pitch); break;
        default: multiply_rows<1>(tile, count, layout.pitch); break;
      }
    }
}

/// A^T m A of a tile's sums, `columns` of them, as four rows of `to`, one per pixel. Returns whether all are finite.
HWY_INLINE bool transform_sums(const float* HWY_RESTRICT sums, int64_t plane, int64_t columns,
                               float* HWY_RESTRICT to, int64_t pitch) {
  const Floats d;
  const FloatVector zero = hn::Zero(d);
  FloatVector bad = zero;  // becomes NaN where one is not finite
  for (int64_t c = 0; c < columns; c += kStep) {
    FloatVector t[2][4];
    unrolled<4>([&](auto j) CTXGEN_UNROLLED {
      const auto sum = [&](int64_t i) CTXGEN_UNROLLED {
        return hn::LoadU(d, sums + (4 * i + static_cast<int64_t>(j)) * plane + c);
      };
      const FloatVector m1 = sum(1), m2 = sum(2);
      t[0][j] = hn::Add(sum(0), hn::Add(m1, m2));
      t[1][j] = hn::Sub(hn::Sub(m1, m2), sum(3));
    });
    unrolled<2>([&](auto i) CTXGEN_UNROLLED {
      const FloatVector left = hn::Add(t[i][0], hn::Add(t[i][1], t[i][2]));
      const FloatVector right = hn::Sub(hn::Sub(t[i][1], t[i][2]), t[i][3]);
      hn::StoreU(left, d, to + static_cast<int64_t>(2 * i) * pitch + c);
      hn::StoreU(right, d, to + static_cast<int64_t>(2 * i + 1) * pitch + c);
      bad = hn::MulAdd(left, zero, bad);
      bad = hn::MulAdd(right, zero, bad);
    });
  }
  return hn::AllTrue(d, hn::Eq(bad, zero));
}

/// Start, bias and bounds.
struct Bounds {
  FloatVector low, high;
  bool clamped;
};

/// What a pixel's sums become, `count` of them if not kWhole. Null: no start, no bias.
template <bool kWhole>
HWY_INLINE void finish_vector(const float* sums, const float* start, const float* bias,
                              const Bounds& bounds, float* to, std::size_t count) {
  FloatVector x = hn::LoadU(Floats(), sums);
  if (start != nullptr) x = hn::Add(load<kWhole>(start, count), x);
  if (bias != nullptr) x = hn::Add(x, load<kWhole>(bias, count));
  if (bounds.clamped) x = clamp(x, bounds.low, bounds.high);
  store<kWhole>(x, to, count);
}

/// A pixel of the result. All that loops need are values: stores wait less where nothing is read again after them.
HWY_INLINE void finish_pixel(const float* HWY_RESTRICT sums, const float* start, const float* bias,
                             const Bounds bounds, int64_t columns, float* to) {
  int64_t c = 0;
  for (; c + kStep <= columns; c += kStep)
    finish_vector<true>(sums + c, start == nullptr ? nullptr : start + c,
                        bias == nullptr ? nullptr : bias + c, bounds, to + c, kLanes);
  if (c < columns)
    finish_vector<false>(sums + c, start == nullptr ? nullptr : start + c,
                         bias == nullptr ? nullptr : bias + c, bounds, to + c,
                         static_cast<std::size_t>(columns - c));
}

/// The result's pixels of `count` tiles from number `tile` on, whose sums there are.
HWY_NOINLINE void finish_tiles(const Work& work, const Unit& unit, int64_t tile, int64_t count) {
  constexpr int64_t kMostColumns = 64;
  const Floats d;
  const PanelProduct product = work.product;
  const Windows& w = product.windows;
  const Finish& finish = product.finish;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Bounds bounds{hn::Set(d, finish.low), hn::Set(d, finish.high),
                      finish.low > -kInfinity || finish.high < kInfinity};
  const float* const bias = finish.bias == nullptr ? nullptr : finish.bias + unit.column;
  const int64_t width = unit.columns;
  HWY_ALIGN float pixels[4 * kMostColumns];
  Place at = place_of(w, work.layout, tile);
  for (int64_t t = 0; t < count; ++t, advance(w, at)) {
    const bool finite = transform_sums(work.sums + t * work.layout.unit, work.layout.sum_plane,
                                       width, pixels, kMostColumns);
    const int64_t lines = HWY_MIN(w.result[0] - at.y, 2), columns = HWY_MIN(w.result[1] - at.x, 2);
    for (int64_t i = 0; i < lines; ++i) {
      const int64_t row = (at.image * w.result[0] + at.y + i) * w.result[1] + at.x;
      if (!finite) {
        multiply_panels(product, {row, columns, unit.column, width});
        continue;
      }
      for (int64_t j = 0; j < columns; ++j) {
        const float* start = finish.start == nullptr
                                 ? nullptr
                                 : finish.start + (row + j) * finish.start_pitch + unit.column;
        float* to = product.result + (row + j) * product.result_pitch + unit.column;
        finish_pixel(pixels + (2 * i + j) * kMostColumns, start, bias, bounds, width, to);
      }
    }
  }
}

/// A unit of columns of `count` tiles from number `tile` on, whose source is transformed, unless that is done in depths.
HWY_INLINE void convolve_unit(const Work& work, Unit unit, int64_t tile, int64_t count) {
  const WinogradLayout& layout = work.layout;
  const int64_t channels = work.product.windows.channels;
  const int64_t chunks = HWY_MAX((channels + layout.depth - 1) / layout.depth, int64_t{1});
  const int64_t depth = (channels + chunks - 1) / chunks;
  if (chunks == 1) {
    unit.channels = channels;
    transform_weights(work, unit);
    const int64_t blocks = (count + layout.sum_tiles - 1) / layout.sum_tiles;
    const int64_t rows = (count + blocks - 1) / blocks;
    const int64_t step = HWY_MIN((rows + kTileRows - 1) / kTileRows * kTileRows, layout.sum_tiles);
    for (int64_t t = 0; t < count; t += step) {
      const int64_t tiles = HWY_MIN(step, count - t);
      multiply_unit(work, unit, t, tiles);
      finish_tiles(work, unit, tile + t, tiles);
    }
    return;
  }
  for (unit.channel = 0; unit.channel < channels; unit.channel += depth) {
    unit.channels = HWY_MIN(depth, channels - unit.channel);
    if (layout.source_in_depths) transform_source(work, tile, count, unit.channel, unit.channels);
    transform_weights(work, unit);
    multiply_unit(work, unit, 0, count);
  }
  finish_tiles(work, unit, tile, count);
}

HWY_NOINLINE void convolve_part(const PanelProduct& product, const WinogradLayout& layout,
                                const ProductPart& part, float* scratch) {
  const Windows& w = product.windows;
  float* weights = scratch + kPlanes * layout.source_plane;
  float* sums = weights + kPlanes * layout.weight_plane;
  const Work work{product, layout, scratch, weights, sums, sums + kPlanes * layout.sum_plane};
  std::fill_n(work.zeros, layout.pitch, 0.0F);
  const int64_t first = tile_line(w, part.row) * layout.line_tiles;
  const int64_t end = tile_line(w, part.row + part.rows) * layout.line_tiles;
  const int64_t blocks = (end - first + layout.block_tiles - 1) / layout.block_tiles;
  const int64_t step = blocks == 0 ? 1 : (end - first + blocks - 1) / blocks;
  for (int64_t tile = first; tile < end; tile += step) {
    const int64_t count = HWY_MIN(step, end - tile);
    if (!layout.source_in_depths) transform_source(work, tile, count, 0, w.channels);
    for (int64_t c = 0; c < part.columns; c += layout.unit)
      convolve_unit(work, {0, 0, part.column + c, HWY_MIN(layout.unit, part.columns - c)}, tile,
                    count);
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

void multiply_winograd(const PanelProduct& product, const WinogradParts& parts, std::int64_t index,
                       float* scratch) {
  const ProductPart part = parts.part(index);
  if (part.rows == 0) return;
  const Windows& w = product.windows;
  const std::int64_t lines = tile_line(w, part.row + part.rows) - tile_line(w, part.row);
  const auto layout = winograd_layout(w, product.matrix, {lines, part.columns, parts.threads});
  if (!layout) return;
  CTXGEN_DISPATCH(convolve_part(product, *layout, part, scratch));
}

}  // namespace ctxgen::kernels
#endif
