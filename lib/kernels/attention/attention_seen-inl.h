// Which keys the rows of a tile see, so that blocks of hidden ones are not multiplied. Compiled once per instruction
// set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_ATTENTION_SEEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_ATTENTION_SEEN_INL_H
#undef CTXGEN_KERNELS_ATTENTION_SEEN_INL_H
#else
#define CTXGEN_KERNELS_ATTENTION_SEEN_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>

#include "attention/attention_few-inl.h"
#include "attention/attention_layout.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

constexpr std::int64_t kTileLanes = HWY_MIN(hn::MaxLanes(Tag()), kMostLanes);

/// Vectors of rows of a tile, which has all registers: wider tiles read less per product where 32 hold the sums.
constexpr std::size_t kTileVectors = kTileLanes >= 16 ? 4 : 2;
constexpr std::int64_t kTileRows = static_cast<std::int64_t>(kTileVectors) * kTileLanes;
static_assert(kRowsOfTask % kTileRows == 0);

/// Tag of vectors whose lanes are a tile's rows.
using TileTag = hn::CappedTag<float, static_cast<std::size_t>(kTileLanes)>;

/// A block of rows of one kv head of one image; what is kept of each row between blocks of keys.
struct TileBlock {
  std::int64_t image, kv_head, row, rows;  // rows of this block, from `row` on
  float *q, *out;                     // of each tile, [size][kTileRows] and [value_size][kTileRows]
  float *logits, *addends;            // of a tile, [keys][rows of its vectors]
  float *most, *sum, *kept;           // per row
  float* q_length;                    // per row
  float* wide;                        // keys and values of integers
  std::int64_t first_key, key_count;  // of the block of keys
  FloatRows k, v;                     // from that key on
  float key_length;                   // of the longest of them; negative: not known yet
  float most_distance;                // what distances add at most, or 0
  KeyRange seen[kRowsOfTask];
  KeyRange every;  // what all rows see, so needs no look at each
  bool spread;     // rows are far apart, and many
};

/// Where the columns of a row of the block begin, of which each has `size` numbers, kTileRows apart.
HWY_INLINE std::int64_t column_of(std::int64_t row, std::int64_t size) {
  return row / kTileRows * kTileRows * size + row % kTileRows;
}

/// Rows [row, row + 4) of the block: pointers to what `place` gives; the last row again beyond the end.
template <class Pointer, class Place>
HWY_INLINE void four_rows(const TileBlock& block, std::int64_t row, const Place& place,
                          Pointer (&to)[4]) {
  for (std::int64_t i = 0; i < 4; ++i) to[i] = place(std::min(row + i, block.rows - 1));
}

/// The keys that some of `rows` rows from `row` on see.
HWY_INLINE KeyRange keys_of(const TileBlock& block, std::int64_t row, std::int64_t rows) {
  KeyRange all{INT64_MAX, 0};
  for (std::int64_t r = row; r < std::min(row + rows, block.rows); ++r)
    if (block.seen[r].first < block.seen[r].end)
      all = {std::min(all.first, block.seen[r].first), std::max(all.end, block.seen[r].end)};
  return all;
}

/// Where the bias of (row of the block, key) is.
HWY_INLINE std::int64_t bias_place(const Attention& a, const TileBlock& block, std::int64_t group,
                                   std::int64_t row, std::int64_t key) {
  const std::int64_t all = block.row + row, head = block.kv_head * group + all % group;
  return block.image * a.bias.image + head * a.bias.head + all / group * a.bias.query +
         key * a.bias.key;
}

/// The length (root of the sum of squares) of the longest of `count` vectors; NaN if one has a NaN.
HWY_NOINLINE float longest(const float* rows, std::int64_t stride, std::int64_t count,
                           std::int64_t size) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  float most = 0;
  for (std::int64_t r = 0; r < count; ++r, rows += stride) {
    Vector sums = hn::Zero(d);
    std::int64_t e = 0;
    for (; e + lanes <= size; e += lanes) {
      const Vector x = hn::LoadU(d, rows + e);
      sums = hn::MulAdd(x, x, sums);
    }
    float sum = hn::ReduceSum(d, sums);
    for (; e < size; ++e) sum += rows[e] * rows[e];
    if (!(sum <= most)) most = sum;
    if (std::isnan(sum)) break;
  }
  return hn::GetLane(
      hn::Sqrt(hn::Set(hn::CappedTag<float, 1>(), most)));  // libm's is newer than some systems
}

/// Lengths of the block's rows of q, which are columns.
HWY_NOINLINE void measure_rows(const Attention& a, TileBlock& block) {
  const TileTag d;
  for (std::int64_t r = 0; r < block.rows; r += kTileLanes) {
    auto sums = hn::Zero(d);
    for (std::int64_t e = 0; e < a.sizes.size; ++e) {
      const auto x = hn::LoadU(d, block.q + column_of(r, a.sizes.size) + e * kTileRows);
      sums = hn::MulAdd(x, x, sums);
    }
    hn::StoreU(hn::Sqrt(sums), d, block.q_length + r);
  }
}

/// What hides a key from a row for sure: an addend that leaves a weight of 0 next to the largest logit so far, however
/// large the key's own logit is. That is at most the product of the lengths of query and key (Cauchy-Schwarz), of
/// which 2 % more are taken for the error of both, and what its distance adds. -infinity, which always hides: nothing
/// less does.
HWY_INLINE float hiding_addend(const Attention& a, const TileBlock& block, std::int64_t row) {
  constexpr float kNothing = 128;                  // powers of two below the largest logit
  const float by = a.softcap > 0 ? kLog2e : 1.0F;  // else it is in the queries
  const float logit =
      block.q_length[row] * block.key_length * by * 1.02F + block.most_distance * kLog2e + kNothing;
  const float addend = (block.most[row] - logit) / kLog2e;
  return std::isfinite(addend) ? addend - std::abs(addend) * 1e-3F : kHiddenLogit;
}

/// What distances add to a logit of the block's heads at most, or 0.
HWY_INLINE float most_distance(const Attention& a, std::int64_t kv_head, std::int64_t group) {
  const AttentionDistances& distances = a.distances;
  float most = 0;
  if (distances.addends == nullptr) return most;
  const float* own = distances.addends + kv_head * group * distances.count;
  for (std::int64_t i = 0; i < group * distances.count; ++i) most = std::max(most, own[i]);
  return most;
}

/// Whether bias hides keys [first, first + 8) from the row.
HWY_INLINE bool hides_eight(const AttentionBias& bias, std::int64_t at, float hiding) {
  if (bias.visible != nullptr) {
    std::uint64_t bytes;
    hwy::CopyBytes<sizeof bytes>(bias.visible + at, &bytes);
    return bytes == 0;
  }
  const hn::FixedTag<float, 4> d;
  const auto most = hn::Set(d, hiding);
  return hn::AllTrue(d, hn::And(hn::Le(hn::LoadU(d, bias.addends + at), most),
                                hn::Le(hn::LoadU(d, bias.addends + at + 4), most)));
}

/// How many of keys [first, first + count) are left without those at the end that bias hides from all rows of the tile,
/// eight at a time. Masks of values that are causal or padding so cost what flags would.
HWY_NOINLINE std::int64_t without_hidden(const Attention& a, TileBlock& block, std::int64_t group,
                                         std::int64_t tile, std::int64_t width, std::int64_t first,
                                         std::int64_t count) {
  constexpr std::int64_t kStep = 8;
  const AttentionBias& bias = a.bias;
  if ((bias.addends == nullptr && bias.visible == nullptr) || bias.key != 1) return count;
  const std::int64_t rows = std::min(width, block.rows - tile);
  const auto hides = [&](std::int64_t row, std::int64_t key, float hiding) HWY_ATTR {
    return hides_eight(bias, bias_place(a, block, group, tile + row, key), hiding);
  };
  // Most tiles of most masks end here: of what hides nothing, one row is looked at.
  constexpr float kLowest = -1.0F;
  if (count < kStep || !hides(rows - 1, first + count - kStep, kLowest)) return count;
  if (bias.addends != nullptr && block.key_length < 0)
    block.key_length = longest(block.k.first, block.k.stride, block.key_count, a.sizes.size);
  float hiding[kTileRows];
  for (std::int64_t r = 0; r < rows; ++r) hiding[r] = hiding_addend(a, block, tile + r);
  for (; count >= kStep; count -= kStep)
    for (std::int64_t r = rows; r-- > 0;)
      if (!hides(r, first + count - kStep, hiding[r])) return count;
  return count;
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
