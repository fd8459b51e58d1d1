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

constexpr std::size_t kTileVectors = 2;
/// Numbers that are multiplied with a tile's vectors at once: as many sums as there are registers for.
constexpr std::size_t kTileDepth = kTileLanes >= 16 ? 8 : kTileLanes >= 8 ? 6 : 4;

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

/// logits[key * kMostTileRows + row] = sum over e of k[key][e] q[e][row].
template <std::size_t kDepth, std::size_t kVectors>
HWY_NOINLINE void tile_logits(std::int64_t size, const float* k, std::int64_t k_stride,
                              const float* q, float* logits) {
  multiply_tile<kDepth, kVectors, false>(size, k, 1, k_stride, q, kRowsOfTask, nullptr, logits,
                                         kMostTileRows);
}

/// out[e][row] = out[e][row] * kept[row] + sum over keys of v[key][e] weights[key][row].
template <std::size_t kDepth, std::size_t kVectors>
HWY_NOINLINE void tile_values(std::int64_t count, const float* v, std::int64_t v_stride,
                              const float* weights, const float* kept, float* out) {
  multiply_tile<kDepth, kVectors, true>(count, v, v_stride, 1, weights, kMostTileRows, kept, out,
                                        kRowsOfTask);
}

/// body<depth>(i) for `count` numbers, as many at once as there are.
template <class Body>
HWY_INLINE void by_depth(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kTileDepth) <= count; i += kTileDepth)
    body.template operator()<kTileDepth>(i);
  if constexpr (kTileDepth > 4)
    for (; i + 4 <= count; i += 4) body.template operator()<4>(i);
  for (; i < count; ++i) body.template operator()<1>(i);
}

/// Adds bias and hides keys of a tile whose logits are `logits` already; keys [first, first + count).
template <std::size_t kVectors>
HWY_NOINLINE void tile_bias(const Attention& a, const TileBlock& block, std::int64_t group,
                            std::int64_t tile, std::int64_t first, std::int64_t count) {
  const TileTag d;
  const AttentionBias& bias = a.bias;
  constexpr std::int64_t kWidth = static_cast<std::int64_t>(kVectors) * kTileLanes;
  const auto place = [&](std::int64_t row) { return bias_place(a, block, group, row, first); };
  const std::int64_t known = std::min(count, bias.keys - first);
  const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto log2e = hn::Set(d, kLog2e);
  const bool same = bias.query == 0 && (bias.head == 0 || group == 1);
  const auto add = [&](std::int64_t key, auto addend_of) HWY_ATTR {
    for (std::size_t v = 0; v < kVectors; ++v) {
      float* at = block.logits + key * kMostTileRows + static_cast<std::int64_t>(v) * kTileLanes;
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
  for (std::int64_t r = 0; r < kWidth; r += 4) {
    std::int64_t rows[4];
    four_rows(block, tile + r, place, rows);
    if (bias.addends != nullptr && bias.key == 1) {
      const float* from[4];
      for (std::size_t i = 0; i < 4; ++i) from[i] = bias.addends + rows[i];
      transpose_four(from, known, 1, block.addends + r, kMostTileRows);
      continue;
    }
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t key = 0; key < known; ++key) {
        const std::int64_t at = rows[i] + key * bias.key;
        block.addends[key * kMostTileRows + r + i] = bias.addends != nullptr ? bias.addends[at]
                                                     : bias.visible[at] != 0
                                                         ? 0.0F
                                                         : -std::numeric_limits<float>::infinity();
      }
  }
  for (std::int64_t key = 0; key < known; ++key)
    add(key, [&](std::size_t v) HWY_ATTR {
      return hn::LoadU(
          d, block.addends + key * kMostTileRows + static_cast<std::int64_t>(v) * kTileLanes);
    });
}

/// Adds what the distances of keys [first, first + count) from the rows of a tile add.
template <std::size_t kVectors>
HWY_NOINLINE void tile_distances(const Attention& a, const TileBlock& block, std::int64_t group,
                                 std::int64_t tile, std::int64_t first, std::int64_t count) {
  const TileTag d;
  constexpr std::int64_t kWidth = static_cast<std::int64_t>(kVectors) * kTileLanes;
  const AttentionDistances& distances = a.distances;
  const auto position = [&](std::int64_t row) {
    return first_position(a, block.image) + (block.row + row) / group;
  };
  const auto add = [&](auto addend_of) HWY_ATTR {
    for (std::int64_t key = 0; key < count; ++key)
      for (std::int64_t v = 0; v < kWidth; v += kTileLanes) {
        const std::int64_t at = key * kMostTileRows + v;
        hn::StoreU(hn::Add(hn::LoadU(d, block.logits + at), addend_of(at)), d, block.logits + at);
      }
  };
  if (group == 1 && position(tile) - (first + count - 1) >= distances.count - 1) {
    const float* own = distances.addends + block.kv_head * distances.count;
    const auto farthest = hn::Set(d, own[distances.count - 1] * kLog2e);
    return add([&](std::int64_t) HWY_ATTR { return farthest; });
  }
  for (std::int64_t r = 0; r < kWidth; ++r) {
    const std::int64_t row = std::min(tile + r, block.rows - 1);
    for_each_distance(distances, block.kv_head * group + (block.row + row) % group, position(row),
                      first, count, [&](std::int64_t key, float addend) {
                        block.addends[key * kMostTileRows + r] = addend * kLog2e;
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
      float* at = logits + key * kMostTileRows + static_cast<std::int64_t>(v) * kTileLanes;
      hn::StoreU(hn::Mul(cap, tanh_of(hn::Mul(hn::LoadU(d, at), inverse))), d, at);
    }
}

/// Hides the keys that rows do not see, where a row of the tile does not see all.
template <std::size_t kVectors>
HWY_NOINLINE void tile_hide(const TileBlock& block, std::int64_t tile, std::int64_t first,
                            std::int64_t count) {
  const TileTag d;
  HWY_ALIGN float from[kMostTileRows], end[kMostTileRows];
  bool all = true;
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(kVectors) * kTileLanes; ++r) {
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
      float* at = block.logits + key * kMostTileRows + column;
      const auto place = hn::Set(d, static_cast<float>(key));
      const auto seen = hn::And(hn::Ge(place, low), hn::Lt(place, high));
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, at), hidden), d, at);
    }
  }
}

/// logits = 2^(logits - most), with the largest of all keys so far; what earlier sums are worth next to it.
template <std::size_t kVectors>
HWY_NOINLINE void tile_weights(const TileBlock& block, std::int64_t tile, std::int64_t count) {
  const Tag d;
  const Vector hidden = constant(-std::numeric_limits<float>::infinity()), low = constant(-126.0F);
  const auto weight_of = [&](Vector below) HWY_ATTR {
    return hn::IfThenElseZero(hn::Ge(below, low), exp2_within(hn::Max(below, low)));
  };
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::int64_t column = static_cast<std::int64_t>(v) * kTileLanes;
    float* logits = block.logits + column;
    const Vector last = hn::LoadU(d, block.most + tile + column);
    Vector even = last, odd = last;
    auto nan = hn::FirstN(d, 0);
    std::int64_t key = 0;
    for (; key + 2 <= count; key += 2) {
      const Vector x = hn::LoadU(d, logits + key * kMostTileRows);
      const Vector y = hn::LoadU(d, logits + (key + 1) * kMostTileRows);
      even = hn::Max(even, x);
      odd = hn::Max(odd, y);
      nan = hn::Or(nan, hn::Or(hn::IsNaN(x), hn::IsNaN(y)));
    }
    if (key < count) {
      const Vector x = hn::LoadU(d, logits + key * kMostTileRows);
      even = hn::Max(even, x);
      nan = hn::Or(nan, hn::IsNaN(x));
    }
    const Vector highest = hn::Max(even, odd);
    const Vector shift = hn::IfThenElse(hn::Eq(highest, hidden), hn::Zero(d), highest);
    const Vector kept = weight_of(hn::Sub(last, shift));
    Vector even_sum = hn::Mul(hn::LoadU(d, block.sum + tile + column), kept);
    Vector odd_sum = hn::Zero(d);
    const auto weigh = [&](std::int64_t at, Vector& sum) HWY_ATTR {
      const Vector x = hn::LoadU(d, logits + at * kMostTileRows);
      const Vector weight = weight_of(hn::Sub(x, shift));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, d, logits + at * kMostTileRows);
    };
    for (key = 0; key + 2 <= count; key += 2) {
      weigh(key, even_sum);
      weigh(key + 1, odd_sum);
    }
    if (key < count) weigh(key, even_sum);
    const Vector total = hn::Add(even_sum, odd_sum);
    const auto undefined = hn::Or(nan, hn::Eq(highest, hn::Inf(d)));
    hn::StoreU(hn::IfThenElse(undefined, hn::NaN(d), total), d, block.sum + tile + column);
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
  by_depth(count, [&]<std::size_t kDepth>(std::int64_t key) HWY_ATTR {
    tile_logits<kDepth, kVectors>(a.sizes.size, k + key * block.k.stride, block.k.stride,
                                  block.q + tile, block.logits + key * kMostTileRows);
  });
  if (a.softcap > 0) tile_cap<kVectors>(a, block.logits, count);
  if (a.bias.addends != nullptr || a.bias.visible != nullptr)
    tile_bias<kVectors>(a, block, group, tile, first, count);
  if (a.distances.addends != nullptr) tile_distances<kVectors>(a, block, group, tile, first, count);
  tile_hide<kVectors>(block, tile, first, count);
  tile_weights<kVectors>(block, tile, count);
  by_depth(a.sizes.value_size, [&]<std::size_t kDepth>(std::int64_t e) HWY_ATTR {
    tile_values<kDepth, kVectors>(count, v + e, block.v.stride, block.logits, block.kept + tile,
                                  block.out + e * kRowsOfTask + tile);
  });
}

/// Rows of q of the block, scaled, as columns; zeros beyond the last row.
HWY_NOINLINE void load_rows(const Attention& a, TileBlock& block, std::int64_t group) {
  const float scale = a.softcap > 0 ? a.scale : a.scale * kLog2e;
  const auto place = [&](std::int64_t row) {
    const std::int64_t all = block.row + row;
    return a.q + block.image * a.q_strides.image +
           (block.kv_head * group + all % group) * a.q_strides.head + all / group * a.q_strides.row;
  };
  for (std::int64_t r = 0; r < rounded_up(block.rows, kTileLanes); r += 4) {
    const float* rows[4];
    four_rows(block, r, place, rows);
    transpose_four(rows, a.sizes.size, scale, block.q + r, kRowsOfTask);
  }
  for (std::int64_t r = 0; r < block.rows; ++r)
    block.seen[r] = seen_keys(a, block.image, (block.row + r) / group);
  for (std::int64_t e = 0; e < a.sizes.value_size; ++e)
    std::fill_n(block.out + e * kRowsOfTask, rounded_up(block.rows, kTileLanes), 0.0F);
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
  for (std::int64_t r = 0; r < block.rows; r += 4) {
    float* to[4];
    if (r + 4 <= block.rows) {
      four_rows(block, r, place, to);
      untranspose_four(block.out + r, kRowsOfTask, a.sizes.value_size, block.kept + r, to);
      continue;
    }
    for (std::int64_t i = r; i < block.rows; ++i)
      for (std::int64_t e = 0; e < a.sizes.value_size; ++e)
        place(i)[e] = block.out[e * kRowsOfTask + i] * block.kept[i];
  }
}

/// Rows [row, row + 64) of a kv head.
HWY_NOINLINE void tile_block(const Attention& a, const AttentionLayout& layout, std::int64_t image,
                             std::int64_t kv_head, std::int64_t part, float* scratch) {
  TileBlock block;
  block.image = image;
  block.kv_head = kv_head;
  block.row = part * kRowsOfTask;
  block.rows = std::min(kRowsOfTask, layout.rows - block.row);
  const auto take = [&](std::int64_t floats) {
    float* at = scratch;
    scratch += floats;
    return at;
  };
  block.q = take(kRowsOfTask * a.sizes.size);
  block.out = take(kRowsOfTask * a.sizes.value_size);
  block.logits = take(kKeysOfBlock * kMostTileRows);
  block.addends = take(kKeysOfBlock * kMostTileRows);
  block.most = take(kRowsOfTask);
  block.sum = take(kRowsOfTask);
  block.kept = take(kRowsOfTask);
  block.q_length = take(kRowsOfTask);
  block.wide = scratch;
  load_rows(a, block, layout.group);
  const KeyRange all = keys_of(block, 0, block.rows);
  for (std::int64_t first = std::min(all.first, all.end); first < all.end; first += kKeysOfBlock) {
    load_keys(a, block, first, std::min(kKeysOfBlock, all.end - first));
    for (std::int64_t tile = 0; tile < block.rows;) {
      const std::int64_t left = block.rows - tile;
      const std::int64_t width = left > kTileLanes ? 2 * kTileLanes : kTileLanes;
      const KeyRange seen = keys_of(block, tile, width);
      const std::int64_t from = std::max(first, seen.first);
      const std::int64_t count = without_hidden(a, block, layout.group, tile, width, from,
                                                std::min(first + kKeysOfBlock, seen.end) - from);
      if (count > 0 && left > kTileLanes)
        tile_keys<kTileVectors>(a, block, layout.group, tile, from, count);
      else if (count > 0)
        tile_keys<1>(a, block, layout.group, tile, from, count);
      tile += width;
    }
  }
  store_rows(a, block, layout.group);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
