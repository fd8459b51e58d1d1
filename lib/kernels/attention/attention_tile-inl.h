// Attention of blocks of rows: a lane of a vector is a row, so keys and values are read as they are, one
// number for all lanes, and maxima and sums of a row need nothing across lanes. Compiled once per
// instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_ATTENTION_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_ATTENTION_TILE_INL_H
#undef CTXGEN_KERNELS_ATTENTION_TILE_INL_H
#else
#define CTXGEN_KERNELS_ATTENTION_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <limits>
#include <utility>

#include "attention/attention_few-inl.h"
#include "attention/attention_layout.h"
#include "attention/attention_seen-inl.h"
#include "functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Numbers that are multiplied with a tile's vectors at once: as many sums as there are registers for.
constexpr std::size_t tile_depth(std::size_t vectors) {
  if (kTileLanes >= 16) return vectors > 3 ? 6 : 8;
  return kTileLanes >= 8 ? 6 : 4;
}

/// Rows of so many vectors; logits of a tile are that far apart from key to key.
template <std::size_t kVectors>
constexpr std::int64_t kTileWidth = static_cast<std::int64_t>(kVectors) * kTileLanes;

/// Steps in a turn of a tile's loop, whose counting takes turns of the units that multiply with AVX-512.
constexpr int kTileStepsAtOnce = kTileLanes >= 16 ? 2 : 1;

/// to[e * to_stride + r] = rows[r][e] * scale for the rows of four pointers.
HWY_INLINE void transpose_four(const float* const* rows, std::int64_t size, float scale, float* to,
                               std::int64_t to_stride) {
  const hn::FixedTag<float, 4> d;
  const auto by = hn::Set(d, scale);
  std::int64_t e = 0;
  for (; e + 4 <= size; e += 4) {
    const auto r0 = hn::Mul(hn::LoadU(d, rows[0] + e), by);
    const auto r1 = hn::Mul(hn::LoadU(d, rows[1] + e), by);
    const auto r2 = hn::Mul(hn::LoadU(d, rows[2] + e), by);
    const auto r3 = hn::Mul(hn::LoadU(d, rows[3] + e), by);
    const auto low02 = hn::InterleaveLower(d, r0, r2), high02 = hn::InterleaveUpper(d, r0, r2);
    const auto low13 = hn::InterleaveLower(d, r1, r3), high13 = hn::InterleaveUpper(d, r1, r3);
    hn::StoreU(hn::InterleaveLower(d, low02, low13), d, to + e * to_stride);
    hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, to + (e + 1) * to_stride);
    hn::StoreU(hn::InterleaveLower(d, high02, high13), d, to + (e + 2) * to_stride);
    hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, to + (e + 3) * to_stride);
  }
  for (; e < size; ++e)
    for (std::int64_t r = 0; r < 4; ++r) to[e * to_stride + r] = rows[r][e] * scale;
}

/// The opposite: to[r][e] = from[e * from_stride + r] * by[r].
HWY_INLINE void untranspose_four(const float* from, std::int64_t from_stride, std::int64_t size,
                                 const float* by, float* const* to) {
  const hn::FixedTag<float, 4> d;
  const auto factors = hn::LoadU(d, by);
  std::int64_t e = 0;
  for (; e + 4 <= size; e += 4) {
    const auto e0 = hn::Mul(hn::LoadU(d, from + e * from_stride), factors);
    const auto e1 = hn::Mul(hn::LoadU(d, from + (e + 1) * from_stride), factors);
    const auto e2 = hn::Mul(hn::LoadU(d, from + (e + 2) * from_stride), factors);
    const auto e3 = hn::Mul(hn::LoadU(d, from + (e + 3) * from_stride), factors);
    const auto low02 = hn::InterleaveLower(d, e0, e2), high02 = hn::InterleaveUpper(d, e0, e2);
    const auto low13 = hn::InterleaveLower(d, e1, e3), high13 = hn::InterleaveUpper(d, e1, e3);
    hn::StoreU(hn::InterleaveLower(d, low02, low13), d, to[0] + e);
    hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, to[1] + e);
    hn::StoreU(hn::InterleaveLower(d, high02, high13), d, to[2] + e);
    hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, to[3] + e);
  }
  for (; e < size; ++e)
    for (std::int64_t r = 0; r < 4; ++r) to[r][e] = from[e * from_stride + r] * by[r];
}

/// body<i>() for i in [0, kCount). Unlike a loop it leaves arrays in registers: their places are constants
/// before the compiler decides that.
template <std::size_t kCount, class Body>
HWY_INLINE void for_each_place(const Body& body) {
  [&]<std::size_t... kPlaces>(std::index_sequence<kPlaces...>)
      HWY_ATTR { (body.template operator()<kPlaces>(), ...); }(std::make_index_sequence<kCount>());
}

/// c[i][row] = c[i][row] * kept[row] + sum over n of a[n * a_inner + i * a_outer] b[n][row], for kDepth
/// numbers i and kVectors vectors of rows: numbers for all lanes times vectors of rows. Without kKept, c is
/// only written.
template <std::size_t kDepth, std::size_t kVectors, bool kKept>
HWY_INLINE void multiply_tile(std::int64_t count, const float* a, std::int64_t a_inner,
                              std::int64_t a_outer, const float* b, std::int64_t b_stride,
                              const float* kept, float* c, std::int64_t c_stride) {
  const TileTag d;
  hn::Vec<TileTag> sums[kDepth * kVectors];
  const auto at = [&](std::size_t place) {
    return c + static_cast<std::int64_t>(place / kVectors) * c_stride +
           static_cast<std::int64_t>(place % kVectors) * kTileLanes;
  };
  for_each_place<kDepth * kVectors>([&]<std::size_t kPlace>() HWY_ATTR {
    if constexpr (kKept)
      sums[kPlace] =
          hn::Mul(hn::LoadU(d, at(kPlace)), hn::LoadU(d, kept + kPlace % kVectors * kTileLanes));
    else
      sums[kPlace] = hn::Zero(d);
  });
#pragma GCC unroll kTileStepsAtOnce
  for (std::int64_t n = 0; n < count; ++n, a += a_inner, b += b_stride) {
    hn::Vec<TileTag> from[kVectors];
    for_each_place<kVectors>([&]<std::size_t kV>()
                                 HWY_ATTR { from[kV] = hn::LoadU(d, b + kV * kTileLanes); });
    for_each_place<kDepth>([&]<std::size_t kI>() HWY_ATTR {
      const auto by = hn::Set(d, a[static_cast<std::int64_t>(kI) * a_outer]);
      for_each_place<kVectors>([&]<std::size_t kV>() HWY_ATTR {
        sums[kI * kVectors + kV] = hn::MulAdd(by, from[kV], sums[kI * kVectors + kV]);
      });
    });
  }
  for_each_place<kDepth * kVectors>([&]<std::size_t kPlace>()
                                        HWY_ATTR { hn::StoreU(sums[kPlace], d, at(kPlace)); });
}

/// logits[key * kTileWidth<kVectors> + row] = sum over e of k[key][e] q[e][row].
template <std::size_t kDepth, std::size_t kVectors>
HWY_NOINLINE void tile_logits(std::int64_t size, const float* k, std::int64_t k_stride,
                              const float* q, float* logits) {
  multiply_tile<kDepth, kVectors, false>(size, k, 1, k_stride, q, kTileRows, nullptr, logits,
                                         kTileWidth<kVectors>);
}

/// out[e][row] = out[e][row] * kept[row] + sum over keys of v[key][e] weights[key][row].
template <std::size_t kDepth, std::size_t kVectors>
HWY_NOINLINE void tile_values(std::int64_t count, const float* v, std::int64_t v_stride,
                              const float* weights, const float* kept, float* out) {
  multiply_tile<kDepth, kVectors, true>(count, v, v_stride, 1, weights, kTileWidth<kVectors>, kept,
                                        out, kTileRows);
}

/// body<depth>(i) for `count` numbers, as many at once as there are, but for 8 in sixes.
template <std::size_t kVectors, class Body>
HWY_INLINE void by_depth(std::int64_t count, const Body& body) {
  constexpr std::size_t kDepth = tile_depth(kVectors);
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kDepth) <= count && (kDepth != 6 || count - i != 8);
       i += kDepth)
    body.template operator()<kDepth>(i);
  if constexpr (kDepth > 4)
    for (; i + 4 <= count; i += 4) body.template operator()<4>(i);
  for (; i < count; ++i) body.template operator()<1>(i);
}

/// Adds bias and hides keys of a tile whose logits are `logits` already; keys [first, first + count).
template <std::size_t kVectors>
HWY_NOINLINE void tile_bias(const Attention& a, const TileBlock& block, std::int64_t group,
                            std::int64_t tile, std::int64_t first, std::int64_t count) {
  const TileTag d;
  const AttentionBias& bias = a.bias;
  const auto place = [&](std::int64_t row) { return bias_place(a, block, group, row, first); };
  const std::int64_t known = std::min(count, bias.keys - first);
  const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto log2e = hn::Set(d, kLog2e);
  const bool same = bias.query == 0 && (bias.head == 0 || group == 1);
  const auto add = [&](std::int64_t key, auto addend_of) HWY_ATTR {
    for (std::size_t v = 0; v < kVectors; ++v) {
      float* at =
          block.logits + key * kTileWidth<kVectors> + static_cast<std::int64_t>(v) * kTileLanes;
      const auto addend = addend_of(v);
      const auto sum = hn::MulAdd(addend, log2e, hn::LoadU(d, at));
      hn::StoreU(hn::IfThenElse(hn::Eq(addend, hidden), hidden, sum), d, at);
    }
  };
  if (same) {
    const std::int64_t at = place(tile);
    for (std::int64_t key = 0; key < known; ++key) {
      const float addend = bias.addends != nullptr ? bias.addends[at + key * bias.key]
                           : bias.visible[at + key * bias.key] != 0
                               ? 0.0F
                               : -std::numeric_limits<float>::infinity();
      add(key, [&](std::size_t) HWY_ATTR { return hn::Set(d, addend); });
    }
    return;
  }
  for (std::int64_t r = 0; r < kTileWidth<kVectors>; r += 4) {
    std::int64_t rows[4];
    four_rows(block, tile + r, place, rows);
    if (bias.addends != nullptr && bias.key == 1) {
      const float* from[4];
      for (std::size_t i = 0; i < 4; ++i) from[i] = bias.addends + rows[i];
      transpose_four(from, known, 1, block.addends + r, kTileWidth<kVectors>);
      continue;
    }
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t key = 0; key < known; ++key) {
        const std::int64_t at = rows[i] + key * bias.key;
        block.addends[key * kTileWidth<kVectors> + r + i] =
            bias.addends != nullptr ? bias.addends[at]
            : bias.visible[at] != 0 ? 0.0F
                                    : -std::numeric_limits<float>::infinity();
      }
  }
  for (std::int64_t key = 0; key < known; ++key)
    add(key, [&](std::size_t v) HWY_ATTR {
      return hn::LoadU(d, block.addends + key * kTileWidth<kVectors> +
                              static_cast<std::int64_t>(v) * kTileLanes);
    });
}

/// Adds what the distances of keys [first, first + count) from the rows of a tile add.
template <std::size_t kVectors>
HWY_NOINLINE void tile_distances(const Attention& a, const TileBlock& block, std::int64_t group,
                                 std::int64_t tile, std::int64_t first, std::int64_t count) {
  const TileTag d;
  const AttentionDistances& distances = a.distances;
  const auto position = [&](std::int64_t row) {
    return first_position(a, block.image) + (block.row + row) / group;
  };
  const auto add = [&](auto addend_of) HWY_ATTR {
    for (std::int64_t key = 0; key < count; ++key)
      for (std::int64_t v = 0; v < kTileWidth<kVectors>; v += kTileLanes) {
        const std::int64_t at = key * kTileWidth<kVectors> + v;
        hn::StoreU(hn::Add(hn::LoadU(d, block.logits + at), addend_of(at)), d, block.logits + at);
      }
  };
  if (group == 1 && position(tile) - (first + count - 1) >= distances.count - 1) {
    const float* own = distances.addends + block.kv_head * distances.count;
    const auto farthest = hn::Set(d, own[distances.count - 1] * kLog2e);
    return add([&](std::int64_t) HWY_ATTR { return farthest; });
  }
  for (std::int64_t r = 0; r < kTileWidth<kVectors>; ++r) {
    const std::int64_t row = std::min(tile + r, block.rows - 1);
    for_each_distance(distances, block.kv_head * group + (block.row + row) % group, position(row),
                      first, count, [&](std::int64_t key, float addend) {
                        block.addends[key * kTileWidth<kVectors> + r] = addend * kLog2e;
                      });
  }
  add([&](std::int64_t at) HWY_ATTR { return hn::LoadU(d, block.addends + at); });
}

template <std::size_t kVectors>
HWY_NOINLINE void tile_cap(const Attention& a, float* logits, std::int64_t count) {
  const Vector inverse = constant(1 / a.softcap), cap = constant(a.softcap * kLog2e);
  const Tag d;
  for (std::int64_t key = 0; key < count; ++key)
    for (std::size_t v = 0; v < kVectors; ++v) {
      float* at = logits + key * kTileWidth<kVectors> + static_cast<std::int64_t>(v) * kTileLanes;
      hn::StoreU(hn::Mul(cap, tanh_of(hn::Mul(hn::LoadU(d, at), inverse))), d, at);
    }
}

/// Hides the keys that rows do not see, where a row of the tile does not see all.
template <std::size_t kVectors>
HWY_NOINLINE void tile_hide(const TileBlock& block, std::int64_t tile, std::int64_t first,
                            std::int64_t count) {
  if (first >= block.every.first && first + count <= block.every.end) return;
  const TileTag d;
  HWY_ALIGN float from[kTileWidth<kVectors>], end[kTileWidth<kVectors>];
  bool all = true;
  for (std::int64_t r = 0; r < kTileWidth<kVectors>; ++r) {
    const KeyRange& seen = block.seen[std::min(tile + r, block.rows - 1)];
    from[r] = static_cast<float>(std::clamp<std::int64_t>(seen.first - first, 0, count));
    end[r] = static_cast<float>(std::clamp<std::int64_t>(seen.end - first, 0, count));
    all = all && from[r] == 0 && end[r] == static_cast<float>(count);
  }
  if (all) return;
  const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::int64_t column = static_cast<std::int64_t>(v) * kTileLanes;
    const auto low = hn::Load(d, from + column), high = hn::Load(d, end + column);
    for (std::int64_t key = 0; key < count; ++key) {
      float* at = block.logits + key * kTileWidth<kVectors> + column;
      const auto place = hn::Set(d, static_cast<float>(key));
      const auto seen = hn::And(hn::Ge(place, low), hn::Lt(place, high));
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, at), hidden), d, at);
    }
  }
}

/// 2^x of x of at most 0, 0 where that is denormal, and NaN of NaN.
HWY_INLINE Vector weight_of(Vector x) {
  const Vector low = constant(-126.0F);
  return hn::IfThenZeroElse(hn::Lt(x, low), exp2_within(at_least(low, x)));
}

/// logits = 2^(logits - most), with the largest of all keys so far; what earlier sums are worth next to it. The sum of
/// a row with a logit of NaN or +infinity is NaN from then on, whatever its largest one: its weight is NaN, too.
template <std::size_t kVectors>
HWY_NOINLINE void tile_weights(const TileBlock& block, std::int64_t tile, std::int64_t count) {
  const Tag d;
  const Vector hidden = constant(-std::numeric_limits<float>::infinity());
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::int64_t column = static_cast<std::int64_t>(v) * kTileLanes;
    float* logits = block.logits + column;
    const Vector last = hn::LoadU(d, block.most + tile + column);
    constexpr std::int64_t kChains = 4;  // maxima that wait for each other
    Vector most[kChains] = {last, last, last, last};
    std::int64_t key = 0;
    for (; key + kChains <= count; key += kChains)
      for (std::int64_t i = 0; i < kChains; ++i)
        most[i] = hn::Max(most[i], hn::LoadU(d, logits + (key + i) * kTileWidth<kVectors>));
    for (; key < count; ++key)
      most[0] = hn::Max(most[0], hn::LoadU(d, logits + key * kTileWidth<kVectors>));
    const Vector highest = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
    const Vector shift = hn::IfThenElse(hn::Eq(highest, hidden), hn::Zero(d), highest);
    const Vector kept = weight_of(hn::Sub(last, shift));
    Vector even_sum = hn::Mul(hn::LoadU(d, block.sum + tile + column), kept);
    Vector odd_sum = hn::Zero(d);
    const auto weigh = [&](std::int64_t at, Vector& sum) HWY_ATTR {
      const Vector weight =
          weight_of(hn::Sub(hn::LoadU(d, logits + at * kTileWidth<kVectors>), shift));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, d, logits + at * kTileWidth<kVectors>);
    };
    for (key = 0; key + 2 <= count; key += 2) {
      weigh(key, even_sum);
      weigh(key + 1, odd_sum);
    }
    if (key < count) weigh(key, even_sum);
    hn::StoreU(hn::Add(even_sum, odd_sum), d, block.sum + tile + column);
    hn::StoreU(highest, d, block.most + tile + column);
    hn::StoreU(kept, d, block.kept + tile + column);
  }
}

/// Keys [first, first + count) for kVectors vectors of rows from `tile` on.
template <std::size_t kVectors>
HWY_INLINE void tile_keys(const Attention& a, const TileBlock& block, std::int64_t group,
                          std::int64_t tile, std::int64_t first, std::int64_t count) {
  const float* k = block.k.first + (first - block.first_key) * block.k.stride;
  const float* v = block.v.first + (first - block.first_key) * block.v.stride;
  by_depth<kVectors>(count, [&]<std::size_t kDepth>(std::int64_t key) HWY_ATTR {
    tile_logits<kDepth, kVectors>(a.sizes.size, k + key * block.k.stride, block.k.stride,
                                  block.q + column_of(tile, a.sizes.size),
                                  block.logits + key * kTileWidth<kVectors>);
  });
  if (a.softcap > 0) tile_cap<kVectors>(a, block.logits, count);
  if (a.bias.addends != nullptr || a.bias.visible != nullptr)
    tile_bias<kVectors>(a, block, group, tile, first, count);
  if (a.distances.addends != nullptr) tile_distances<kVectors>(a, block, group, tile, first, count);
  tile_hide<kVectors>(block, tile, first, count);
  tile_weights<kVectors>(block, tile, count);
  by_depth<kVectors>(a.sizes.value_size, [&]<std::size_t kDepth>(std::int64_t e) HWY_ATTR {
    tile_values<kDepth, kVectors>(count, v + e, block.v.stride, block.logits, block.kept + tile,
                                  block.out + column_of(tile, a.sizes.value_size) + e * kTileRows);
  });
}

/// Asks for all lines of the block's rows at once where these are far apart: four rows at a time wait longer.
template <bool kWritten, class Place>
HWY_INLINE void fetch_rows(const TileBlock& block, std::int64_t size, const Place& place) {
  constexpr std::int64_t kFloatsOfLine = 16;
  if (!block.spread) return;
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const float* row = place(r);
    for (std::int64_t e = 0; e < size; e += kFloatsOfLine)
      __builtin_prefetch(row + e, kWritten ? 1 : 0);
  }
}

/// Rows of q of the block, scaled, as columns; zeros beyond the last row.
HWY_NOINLINE void load_rows(const Attention& a, TileBlock& block, std::int64_t group) {
  const float scale = a.softcap > 0 ? a.scale : a.scale * kLog2e;
  const auto place = [&](std::int64_t row) {
    const std::int64_t all = block.row + row;
    return a.q + block.image * a.q_strides.image +
           (block.kv_head * group + all % group) * a.q_strides.head + all / group * a.q_strides.row;
  };
  fetch_rows<false>(block, a.sizes.size, place);
  for (std::int64_t r = 0; r < rounded_up(block.rows, kTileLanes); r += 4) {
    const float* rows[4];
    four_rows(block, r, place, rows);
    transpose_four(rows, a.sizes.size, scale, block.q + column_of(r, a.sizes.size), kTileRows);
  }
  block.every = {0, INT64_MAX};
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const KeyRange seen = block.seen[r] = seen_keys(a, block.image, (block.row + r) / group);
    block.every = {std::max(block.every.first, seen.first), std::min(block.every.end, seen.end)};
  }
  std::fill_n(block.out, rounded_up(block.rows, kTileRows) * a.sizes.value_size, 0.0F);
  std::fill_n(block.most, kRowsOfTask, -std::numeric_limits<float>::infinity());
  std::fill_n(block.sum, kRowsOfTask, 0.0F);
  block.most_distance = most_distance(a, block.kv_head, group);
  if (a.bias.addends != nullptr) measure_rows(a, block);
}

HWY_INLINE void load_keys(const Attention& a, TileBlock& block, std::int64_t first,
                          std::int64_t count) {
  block.first_key = first;
  block.key_count = count;
  block.key_length = -1;
  block.k = rows_of(a.k, a.integer_k, a.k_strides, block.image, block.kv_head, first, count,
                    a.sizes.size, block.wide);
  block.v = rows_of(a.v, a.integer_v, a.v_strides, block.image, block.kv_head, first, count,
                    a.sizes.value_size, block.wide + kKeysOfBlock * a.sizes.size);
}

HWY_NOINLINE void store_rows(const Attention& a, const TileBlock& block, std::int64_t group) {
  const Tag d;
  const Vector zero = hn::Zero(d), hidden = constant(-std::numeric_limits<float>::infinity());
  for (std::int64_t r = 0; r < block.rows; r += kTileLanes) {
    const Vector sum = hn::LoadU(d, block.sum + r);
    Vector by = hn::IfThenElse(hn::Eq(sum, zero), zero, hn::Div(constant(1.0F), sum));
    if (a.extra_zero || a.sinks != nullptr) {
      float extra[kTileLanes];
      for (std::int64_t i = 0; i < kTileLanes; ++i)
        extra[i] = extra_logit(a, block.kv_head * group + (block.row + r + i) % group);
      const Vector logit = hn::LoadU(d, extra);
      const Vector most = hn::LoadU(d, block.most + r), shift = hn::Max(most, logit);
      const Vector own = exp2_within(hn::Max(hn::Sub(logit, shift), constant(-126.0F)));
      const Vector rest = hn::IfThenElseZero(
          hn::Gt(most, hidden), exp2_within(hn::Max(hn::Sub(most, shift), constant(-126.0F))));
      by = hn::Div(rest, hn::MulAdd(sum, rest, own));
      by = hn::IfThenElse(hn::IsNaN(sum), sum, by);
    }
    hn::StoreU(by, d, block.kept + r);
  }
  const auto place = [&](std::int64_t row) {
    const std::int64_t all = block.row + row;
    return a.out + block.image * a.out_strides.image +
           (block.kv_head * group + all % group) * a.out_strides.head +
           all / group * a.out_strides.row;
  };
  fetch_rows<true>(block, a.sizes.value_size, place);
  for (std::int64_t r = 0; r < block.rows; r += 4) {
    float* to[4];
    if (r + 4 <= block.rows) {
      four_rows(block, r, place, to);
      untranspose_four(block.out + column_of(r, a.sizes.value_size), kTileRows, a.sizes.value_size,
                       block.kept + r, to);
      continue;
    }
    for (std::int64_t i = r; i < block.rows; ++i)
      for (std::int64_t e = 0; e < a.sizes.value_size; ++e)
        place(i)[e] = block.out[column_of(i, a.sizes.value_size) + e * kTileRows] * block.kept[i];
  }
}

/// The keys of the block that rows [tile, tile + width) see.
HWY_INLINE KeyRange seen_of_block(const Attention& a, TileBlock& block, std::int64_t group,
                                  std::int64_t tile, std::int64_t width) {
  std::int64_t first = block.first_key, end = first + block.key_count;
  if (first < block.every.first || end > block.every.end) {
    const KeyRange seen = keys_of(block, tile, width);
    first = std::max(first, seen.first);
    end = std::min(end, seen.end);
  }
  return {first, first + without_hidden(a, block, group, tile, width, first, end - first)};
}

/// Multiplies the keys of the block with the rows of a tile from `tile` on; returns how many rows that is. Half of
/// a tile where its halves see other keys, so that few hidden ones are multiplied.
HWY_NOINLINE std::int64_t tile_step(const Attention& a, TileBlock& block, std::int64_t group,
                                    std::int64_t tile) {
  std::int64_t vectors =
      (std::min(block.rows - tile, kTileRows - tile % kTileRows) + kTileLanes - 1) / kTileLanes;
  constexpr std::int64_t kHalf = 2;
  KeyRange seen = seen_of_block(a, block, group, tile, std::min(vectors, kHalf) * kTileLanes);
  if (vectors > kHalf) {
    const KeyRange rest =
        seen_of_block(a, block, group, tile + kHalf * kTileLanes, (vectors - kHalf) * kTileLanes);
    if (rest.first != seen.first || rest.end != seen.end) vectors = kHalf;
  }
  if (seen.end <= seen.first) return vectors * kTileLanes;
  const auto multiply = [&]<std::size_t kVectors>() HWY_ATTR {
    tile_keys<kVectors>(a, block, group, tile, seen.first, seen.end - seen.first);
  };
  if (vectors == 1) multiply.template operator()<1>();
  if (vectors == 2) multiply.template operator()<2>();
  if constexpr (kTileVectors == 4) {
    if (vectors == 3) multiply.template operator()<3>();
    if (vectors == 4) multiply.template operator()<4>();
  }
  return vectors * kTileLanes;
}

/// Rows [row, row + 64) of a kv head.
HWY_NOINLINE void tile_block(const Attention& a, const AttentionLayout& layout, std::int64_t image,
                             std::int64_t kv_head, std::int64_t part, float* scratch) {
  TileBlock block;
  block.image = image;
  block.kv_head = kv_head;
  block.row = part * kRowsOfTask;
  block.rows = std::min(kRowsOfTask, layout.rows - block.row);
  block.spread = layout.copies;
  const auto take = [&](std::int64_t floats) {
    float* at = scratch;
    scratch += floats;
    return at;
  };
  block.q = take(kRowsOfTask * a.sizes.size);
  block.out = take(kRowsOfTask * a.sizes.value_size);
  block.logits = take(kMostLogits);
  block.addends = take(kMostLogits);
  block.most = take(kRowsOfTask);
  block.sum = take(kRowsOfTask);
  block.kept = take(kRowsOfTask);
  block.q_length = take(kRowsOfTask);
  block.wide = scratch;
  load_rows(a, block, layout.group);
  const KeyRange all = keys_of(block, 0, block.rows);
  const std::int64_t width = std::min(rounded_up(block.rows, kTileLanes), kTileRows);
  const std::int64_t keys = std::min(kKeysOfBlock, kMostLogits / width / kTileLanes * kTileLanes);
  for (std::int64_t first = std::min(all.first, all.end); first < all.end; first += keys) {
    load_keys(a, block, first, std::min(keys, all.end - first));
    for (std::int64_t tile = 0; tile < block.rows;) tile += tile_step(a, block, layout.group, tile);
  }
  store_rows(a, block, layout.group);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
