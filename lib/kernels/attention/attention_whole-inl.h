// Attention that keeps all logits of some rows at once: where they are a result, or the cap is over their sum with
// the bias. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_ATTENTION_WHOLE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_ATTENTION_WHOLE_INL_H
#undef CTXGEN_KERNELS_ATTENTION_WHOLE_INL_H
#else
#define CTXGEN_KERNELS_ATTENTION_WHOLE_INL_H
#endif

#include <hwy/highway.h>

#include "attention/attention_few-inl.h"
#include "attention/attention_layout.h"
#include "functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// body(vector) for all vectors of a row; memory up to the next vector is ours.
template <class Body>
HWY_INLINE void map_row(std::int64_t count, float* row, const Body& body) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < count; i += lanes)
    hn::StoreU(body(hn::LoadU(d, row + i)), d, row + i);
}

/// Adds bias and distances to the products of a query with all keys, and hides those that it does not see.
HWY_INLINE void mask_row(const Attention& a, std::int64_t image, std::int64_t head,
                         std::int64_t query, float* logits) {
  const AttentionBias& bias = a.bias;
  const std::int64_t at = image * bias.image + head * bias.head + query * bias.query;
  const KeyRange seen = seen_keys(a, image, query);
  const std::int64_t first = std::min(seen.first, a.sizes.keys),
                     end = std::clamp(seen.end, first, a.sizes.keys);
  if (a.distances.addends != nullptr)
    for_each_distance(a.distances, head, first_position(a, image) + query, 0, end,
                      [&](std::int64_t key, float addend) { logits[key] += addend; });
  for (std::int64_t key = first; key < end; ++key) {
    if (bias.addends != nullptr) {
      const float addend = bias.addends[at + key * bias.key];
      logits[key] = addend == kHiddenLogit ? addend : logits[key] + addend;
    }
    if (bias.visible != nullptr && bias.visible[at + key * bias.key] == 0)
      logits[key] = kHiddenLogit;
  }
  std::fill_n(logits, first, kHiddenLogit);
  std::fill_n(logits + end, a.sizes.keys - end, kHiddenLogit);
}

/// Logits become weights whose sum is 1; zeros where all are hidden, NaN where one is NaN or +infinity. The largest is
/// subtracted before logarithms to base 2 are taken, so that addends like the lowest float do not overflow.
HWY_INLINE void weigh_whole_row(std::int64_t count, float* row) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = count; i % lanes != 0; ++i) row[i] = kHiddenLogit;
  Vector most = constant(kHiddenLogit);
  auto nan = hn::FirstN(d, 0);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const Vector x = hn::LoadU(d, row + i);
    most = hn::Max(most, x);
    nan = hn::Or(nan, hn::IsNaN(x));
  }
  const float highest = hn::ReduceMax(d, most);
  if (!hn::AllFalse(d, nan) || !(highest < std::numeric_limits<float>::infinity())) {
    std::fill_n(row, count, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const Vector shift = constant(highest == kHiddenLogit ? 0.0F : highest), low = constant(-126.0F);
  Vector sum = hn::Zero(d);
  map_row(count, row, [&](Vector x) HWY_ATTR {
    const Vector below = hn::Mul(hn::Sub(x, shift), constant(kLog2e));
    const Vector weight = hn::IfThenElseZero(hn::Ge(below, low), exp2_within(hn::Max(below, low)));
    sum = hn::Add(sum, weight);
    return weight;
  });
  const float total = hn::ReduceSum(d, sum);
  const Vector by = constant(total == 0 ? 0.0F : 1 / total);
  map_row(count, row, [&](Vector x) HWY_ATTR { return hn::Mul(x, by); });
}

/// A row from its products to its weights; writes its logits at the stage that is asked for.
HWY_INLINE void finish_whole_row(const Attention& a, std::int64_t image, std::int64_t head,
                                 std::int64_t query, float* row) {
  const std::int64_t keys = a.sizes.keys;
  const AttentionLogits& logits = a.logits;
  const auto show = [&](LogitStage stage) {
    if (logits.out != nullptr && logits.stage == stage)
      std::copy_n(row, keys,
                  logits.out + ((image * a.sizes.heads + head) * a.sizes.queries + query) * keys);
  };
  show(LogitStage::kProduct);
  mask_row(a, image, head, query, row);
  show(LogitStage::kMasked);
  if (a.softcap > 0) {
    const Vector inverse = constant(1 / a.softcap), cap = constant(a.softcap);
    map_row(keys, row,
            [&](Vector x) HWY_ATTR { return hn::Mul(cap, tanh_of(hn::Mul(x, inverse))); });
  }
  show(LogitStage::kCapped);
  weigh_whole_row(keys, row);
  show(LogitStage::kWeight);
}

/// Rows [part * kWholeRows, ...) of a kv head of an image.
HWY_NOINLINE void whole_block(const Attention& a, const AttentionLayout& layout, std::int64_t image,
                              std::int64_t kv_head, std::int64_t part, float* scratch) {
  const AttentionSizes& s = a.sizes;
  const std::int64_t first = part * kWholeRows, rows = std::min(kWholeRows, layout.rows - first);
  const std::int64_t q_stride = rounded_up(s.size, kMostLanes),
                     stride = AttentionLayout::whole_row_floats(s);
  float *q = scratch, *weights = q + kWholeRows * q_stride;
  float* sums = weights + kWholeRows * stride;
  const auto head_of = [&](std::int64_t r) {
    return kv_head * layout.group + (first + r) % layout.group;
  };
  const auto query_of = [&](std::int64_t r) { return (first + r) / layout.group; };
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = a.q + image * a.q_strides.image + head_of(r) * a.q_strides.head +
                        query_of(r) * a.q_strides.row;
    for (std::int64_t e = 0; e < s.size; ++e) q[r * q_stride + e] = from[e] * a.scale;
    std::fill_n(q + r * q_stride + s.size, q_stride - s.size, 0.0F);
  }
  const float* k = a.k + image * a.k_strides.image + kv_head * a.k_strides.head;
  const float* v = a.v + image * a.v_strides.image + kv_head * a.v_strides.head;
  by_rows(rows, [&]<std::size_t kRows>(std::int64_t r) HWY_ATTR {
    few_logits<kRows>(s.size, q + r * q_stride, q_stride, k, a.k_strides.row, s.keys,
                      weights + r * stride, stride);
  });
  for (std::int64_t r = 0; r < rows; ++r)
    finish_whole_row(a, image, head_of(r), query_of(r), weights + r * stride);
  by_rows(rows, [&]<std::size_t kRows>(std::int64_t r) HWY_ATTR {
    few_values<kRows>(s.value_size, weights + r * stride, stride, v, a.v_strides.row, s.keys,
                      sums + r * s.value_size, s.value_size);
  });
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(sums + r * s.value_size, s.value_size,
                a.out + image * a.out_strides.image + head_of(r) * a.out_strides.head +
                    query_of(r) * a.out_strides.row);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
