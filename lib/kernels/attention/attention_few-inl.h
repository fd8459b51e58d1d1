// Attention of a few rows: dot products over the elements of a head, keys and values read once in the
// order of memory. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_ATTENTION_FEW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_ATTENTION_FEW_INL_H
#undef CTXGEN_KERNELS_ATTENTION_FEW_INL_H
#else
#define CTXGEN_KERNELS_ATTENTION_FEW_INL_H
#endif

#include <hwy/highway.h>

#include <limits>

#include "attention/attention_layout.h"
#include "functions-inl.h"
#include "quantised_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

constexpr float kHiddenLogit = -std::numeric_limits<float>::infinity();

constexpr std::size_t kMostFewRows =
    hn::MaxLanes(Tag()) >= 16 ? 4 : 2;  // by the number of registers

/// The sum of the blocks of four lanes.
template <class D>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> sum_of_blocks(D /*d*/, hn::Vec<D> x) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return x;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
}

/// The sums of four vectors.
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> four_sums(Vector a, Vector b, Vector c, Vector e) {
  const Tag d;
  const Vector ac = hn::Add(hn::InterleaveLower(d, a, c), hn::InterleaveUpper(d, a, c));
  const Vector be = hn::Add(hn::InterleaveLower(d, b, e), hn::InterleaveUpper(d, b, e));
  return sum_of_blocks(d, hn::Add(hn::InterleaveLower(d, ac, be), hn::InterleaveUpper(d, ac, be)));
}

/// Logits of kRows queries, `q_stride` elements apart, with keys [0, count): out[r * out_stride + key].
/// Up to three more are written.
template <std::size_t kRows>
HWY_NOINLINE void few_logits(std::int64_t size, const float* q, std::int64_t q_stride,
                             const float* k, std::int64_t k_stride, std::int64_t count, float* out,
                             std::int64_t out_stride) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto whole = size / lanes * lanes;
  const auto rest = static_cast<std::size_t>(size - whole);
  constexpr std::int64_t kKeys = 4;
  for (std::int64_t key = 0; key < count; key += kKeys) {
    const float* from[kKeys];
    for (std::int64_t j = 0; j < kKeys; ++j) from[j] = k + std::min(key + j, count - 1) * k_stride;
    Vector sums[kRows][kKeys];
    for (auto& row : sums)
      for (Vector& sum : row) sum = hn::Zero(d);
    const auto add = [&](std::int64_t e, auto load) HWY_ATTR {
      Vector x[kKeys];
      for (std::int64_t j = 0; j < kKeys; ++j) x[j] = load(from[j] + e);
      for (std::size_t r = 0; r < kRows; ++r) {
        const Vector by = hn::LoadU(d, q + static_cast<std::int64_t>(r) * q_stride + e);
        for (std::int64_t j = 0; j < kKeys; ++j) sums[r][j] = hn::MulAdd(by, x[j], sums[r][j]);
      }
    };
    for (std::int64_t e = 0; e < whole; e += lanes)
      add(e, [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); });
    if (rest > 0) add(whole, [&](const float* at) HWY_ATTR { return hn::LoadN(d, at, rest); });
    for (std::size_t r = 0; r < kRows; ++r)
      hn::StoreU(four_sums(sums[r][0], sums[r][1], sums[r][2], sums[r][3]),
                 hn::FixedTag<float, 4>(), out + static_cast<std::int64_t>(r) * out_stride + key);
  }
}

/// out[r] = sum over keys of weights[r][key] v[key] for kRows rows.
template <std::size_t kRows>
HWY_NOINLINE void few_values(std::int64_t size, const float* weights, std::int64_t weight_stride,
                             const float* v, std::int64_t v_stride, std::int64_t count, float* out,
                             std::int64_t out_stride) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto take = [&]<std::size_t kVectors>(std::int64_t e, auto load, auto store) HWY_ATTR {
    constexpr std::size_t kChains = kRows * kVectors <= 4 ? 2 : 1;  // sums that wait for each other
    Vector sums[kChains][kRows][kVectors];
    for (auto& chain : sums)
      for (auto& row : chain)
        for (Vector& sum : row) sum = hn::Zero(d);
    const auto add = [&](std::size_t chain, std::int64_t key) HWY_ATTR {
      const float* from = v + key * v_stride + e;
      Vector x[kVectors];
      for (std::size_t i = 0; i < kVectors; ++i)
        x[i] = load(from + static_cast<std::int64_t>(i) * lanes);
      for (std::size_t r = 0; r < kRows; ++r) {
        const Vector by = hn::Set(d, weights[static_cast<std::int64_t>(r) * weight_stride + key]);
        for (std::size_t i = 0; i < kVectors; ++i)
          sums[chain][r][i] = hn::MulAdd(by, x[i], sums[chain][r][i]);
      }
    };
    std::int64_t key = 0;
    for (; key + static_cast<std::int64_t>(kChains) <= count; key += kChains)
      for (std::size_t chain = 0; chain < kChains; ++chain)
        add(chain, key + static_cast<std::int64_t>(chain));
    for (; key < count; ++key) add(0, key);
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t i = 0; i < kVectors; ++i) {
        Vector sum = sums[0][r][i];
        if constexpr (kChains == 2) sum = hn::Add(sum, sums[1][r][i]);
        store(sum, out + static_cast<std::int64_t>(r) * out_stride + e +
                       static_cast<std::int64_t>(i) * lanes);
      }
  };
  const auto load = [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); };
  const auto store = [&](Vector x, float* at) HWY_ATTR { hn::StoreU(x, d, at); };
  constexpr std::int64_t kVectors = 4;
  std::int64_t e = 0;
  for (; e + kVectors * lanes <= size; e += kVectors * lanes)
    take.template operator()<kVectors>(e, load, store);
  for (; e + lanes <= size; e += lanes) take.template operator()<1>(e, load, store);
  if (const auto rest = static_cast<std::size_t>(size - e); rest > 0)
    take.template operator()<1>(
        e, [&](const float* at) HWY_ATTR { return hn::LoadN(d, at, rest); },
        [&](Vector x, float* at) HWY_ATTR { hn::StoreN(x, d, at, rest); });
}

/// Calls body<rows>(row) for `rows` rows, four, two and one at a time.
template <class Body>
HWY_INLINE void by_rows(std::int64_t rows, const Body& body) {
  std::int64_t row = 0;
  if constexpr (kMostFewRows >= 4)
    for (; row + 4 <= rows; row += 4) body.template operator()<4>(row);
  for (; row + 2 <= rows; row += 2) body.template operator()<2>(row);
  for (; row < rows; ++row) body.template operator()<1>(row);
}

/// What a row's logits become: from products, scaled already, to logits in units of ln(2), hidden where
/// the query does not see the key. `first`: the key of logits[0].
HWY_INLINE void finish_logits(const Attention& a, std::int64_t image, std::int64_t head,
                              std::int64_t query, std::int64_t first, std::int64_t count,
                              float* logits) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (a.softcap > 0) {
    const Vector inverse = constant(1 / a.softcap), cap = constant(a.softcap * kLog2e);
    for (std::int64_t i = 0; i < count; i += lanes) {  // memory up to the next vector is ours
      const Vector x = hn::LoadU(d, logits + i);
      hn::StoreU(hn::Mul(cap, tanh_of(hn::Mul(x, inverse))), d, logits + i);
    }
  }
  const AttentionBias& bias = a.bias;
  const std::int64_t at = image * bias.image + head * bias.head + query * bias.query;
  const KeyRange seen = seen_keys(a, image, query);
  const std::int64_t end = std::min(seen.end - first, count);
  if (bias.addends != nullptr)
    for (std::int64_t i = 0; i < end; ++i) {
      const float addend = bias.addends[at + (first + i) * bias.key];
      logits[i] = addend == kHiddenLogit ? addend : logits[i] + addend * kLog2e;
    }
  if (bias.visible != nullptr)
    for (std::int64_t i = 0; i < end; ++i)
      if (bias.visible[at + (first + i) * bias.key] == 0) logits[i] = kHiddenLogit;
  if (a.distances.addends != nullptr)
    for_each_distance(a.distances, head, first_position(a, image) + query, first, end,
                      [&](std::int64_t i, float addend) { logits[i] += addend * kLog2e; });
  for (std::int64_t i = 0; i < std::min(seen.first - first, count); ++i) logits[i] = kHiddenLogit;
  for (std::int64_t i = std::max<std::int64_t>(end, 0); i < count; ++i) logits[i] = kHiddenLogit;
}

struct Weighed {
  float most, sum;
};

/// logits[i] = 2^(logits[i] - most). The sum is NaN where a logit is NaN or +infinity.
HWY_INLINE Weighed weigh_row(std::int64_t count, float* logits) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Vector hidden = constant(kHiddenLogit);
  for (std::int64_t i = count; i % lanes != 0; ++i) logits[i] = kHiddenLogit;
  Vector most = hidden;
  auto nan = hn::FirstN(d, 0);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const Vector x = hn::LoadU(d, logits + i);
    most = hn::Max(most, x);
    nan = hn::Or(nan, hn::IsNaN(x));
  }
  const float highest = hn::ReduceMax(d, most);
  const bool undefined =
      !hn::AllFalse(d, nan) || !(highest < std::numeric_limits<float>::infinity());
  if (undefined) return {0, std::numeric_limits<float>::quiet_NaN()};
  const Vector shift = constant(highest == kHiddenLogit ? 0.0F : highest), low = constant(-126.0F);
  Vector sum = hn::Zero(d);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const Vector below = hn::Sub(hn::LoadU(d, logits + i), shift);
    const Vector weight = hn::IfThenElseZero(hn::Ge(below, low), exp2_within(hn::Max(below, low)));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, d, logits + i);
  }
  return {highest, hn::ReduceSum(d, sum)};
}

/// The logit without a value of a head, as the others in powers of two; -infinity: it has none.
HWY_INLINE float extra_logit(const Attention& a, std::int64_t head) {
  if (a.sinks != nullptr) return a.sinks[head] * kLog2e;
  return a.extra_zero ? 0.0F : kHiddenLogit;
}

/// One row's result from its parts, `stride` floats apart: a sum, the largest logit, the sum of weights.
HWY_NOINLINE void merge_parts(const Attention& a, std::int64_t head, const float* parts,
                              std::int64_t count, std::int64_t stride, float* out) {
  const std::int64_t size = a.sizes.value_size;
  const float extra = extra_logit(a, head);
  float most = extra;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, parts[i * stride + size]);
  const auto share = [&](float of) {
    return of == kHiddenLogit ? 0.0F
                              : hn::GetLane(exp2_within(constant(std::max(of - most, -126.0F))));
  };
  float sum = share(extra);
  for (std::int64_t i = 0; i < count; ++i)
    sum += share(parts[i * stride + size]) * parts[i * stride + size + 1];
  const float inverse = sum == 0 ? 0.0F : 1 / sum;
  for (std::int64_t e = 0; e < size; ++e) out[e] = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float by = share(parts[i * stride + size]) * inverse;
    for (std::int64_t e = 0; e < size; ++e) out[e] += parts[i * stride + e] * by;
  }
}

/// Rows of keys or values in memory.
struct FloatRows {
  const float* first;
  std::int64_t stride;
};

/// Rows [first, first + count) of a head: where they are, or, of integers, in `memory`.
HWY_INLINE FloatRows rows_of(const float* floats, const QuantisedHeads& integers,
                             const HeadStrides& strides, std::int64_t image, std::int64_t head,
                             std::int64_t first, std::int64_t count, std::int64_t size,
                             float* memory) {
  const std::int64_t at = image * strides.image + head * strides.head + first * strides.row;
  if (integers.data == nullptr) return {floats + at, strides.row};
  const float* scales = integers.scales + (integers.form.per_element ? head * size : 0);
  for (std::int64_t r = 0; r < count; ++r)
    widen_row(integers.form, scales, size, integers.data + at + r * strides.row, memory + r * size);
  return {memory, size};
}

/// One chunk of keys for all rows of a kv head: partial results, row by row.
HWY_NOINLINE void few_chunk(const Attention& a, const AttentionLayout& layout, std::int64_t image,
                            std::int64_t kv_head, std::int64_t chunk, float* scratch,
                            float* partial) {
  const AttentionSizes& s = a.sizes;
  const std::int64_t stride = AttentionLayout::partial_floats(s);
  const std::int64_t q_stride = rounded_up(s.size, kMostLanes);
  constexpr std::int64_t kLogits = kKeysOfChunk + kMostLanes;
  float* q = scratch;
  float* logits = scratch + layout.rows * q_stride;
  KeyRange keys{INT64_MAX, 0};
  const float scale = a.softcap > 0 ? a.scale : a.scale * kLog2e;
  const auto head_of = [&](std::int64_t r) { return kv_head * layout.group + r % layout.group; };
  for (std::int64_t r = 0; r < layout.rows; ++r) {
    const KeyRange seen = seen_keys(a, image, r / layout.group);
    keys = {std::min(keys.first, seen.first), std::max(keys.end, seen.end)};
    const float* from = a.q + image * a.q_strides.image + head_of(r) * a.q_strides.head +
                        r / layout.group * a.q_strides.row;
    for (std::int64_t e = 0; e < s.size; ++e) q[r * q_stride + e] = from[e] * scale;
    for (std::int64_t e = s.size; e < q_stride; ++e) q[r * q_stride + e] = 0;
  }
  const std::int64_t first = std::max(chunk * kKeysOfChunk, keys.first);
  const std::int64_t count = std::min((chunk + 1) * kKeysOfChunk, keys.end) - first;
  if (count <= 0) {
    for (std::int64_t r = 0; r < layout.rows; ++r) {
      std::fill_n(partial + r * stride, s.value_size, 0.0F);
      partial[r * stride + s.value_size] = kHiddenLogit;
      partial[r * stride + s.value_size + 1] = 0;
    }
    return;
  }
  float* wide = logits + layout.rows * kLogits;
  const FloatRows k =
      rows_of(a.k, a.integer_k, a.k_strides, image, kv_head, first, count, s.size, wide);
  const FloatRows v = rows_of(a.v, a.integer_v, a.v_strides, image, kv_head, first, count,
                              s.value_size, wide + kKeysOfChunk * s.size);
  by_rows(layout.rows, [&]<std::size_t kRows>(std::int64_t r) HWY_ATTR {
    few_logits<kRows>(s.size, q + r * q_stride, q_stride, k.first, k.stride, count,
                      logits + r * kLogits, kLogits);
  });
  for (std::int64_t r = 0; r < layout.rows; ++r) {
    float* row = logits + r * kLogits;
    finish_logits(a, image, head_of(r), r / layout.group, first, count, row);
    const Weighed weighed = weigh_row(count, row);
    partial[r * stride + s.value_size] = weighed.most;
    partial[r * stride + s.value_size + 1] = weighed.sum;
  }
  by_rows(layout.rows, [&]<std::size_t kRows>(std::int64_t r) HWY_ATTR {
    few_values<kRows>(s.value_size, logits + r * kLogits, kLogits, v.first, v.stride, count,
                      partial + r * stride, stride);
  });
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
