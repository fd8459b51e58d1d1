#include "ctxgen/kernels/linear_attention.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "states/linear_attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

// Vectors of columns whose sums are kept in registers: with two sums each they hide what an addition takes.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr std::size_t kVectors = kManyRegisters ? 4 : 2;

/// kCount vectors of columns, the last one of `rest` columns where kMasked.
template <std::size_t kCount, bool kMasked>
struct Columns {
  std::size_t rest;

  HWY_INLINE Vector load(const float* row, std::size_t i) const {
    const float* at = row + i * hn::Lanes(Tag());
    return kMasked ? hn::LoadN(Tag(), at, rest) : hn::LoadU(Tag(), at);
  }
  HWY_INLINE void store(Vector x, float* row, std::size_t i) const {
    float* at = row + i * hn::Lanes(Tag());
    if constexpr (kMasked)
      hn::StoreN(x, Tag(), at, rest);
    else
      hn::StoreU(x, Tag(), at);
  }
};

HWY_INLINE float dot_of(const float* a, const float* b, std::int64_t n) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  Vector sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    sum = hn::MulAdd(hn::LoadN(d, a + i, rest), hn::LoadN(d, b + i, rest), sum);
  }
  return hn::ReduceSum(d, sum);
}

/// What the next step asks of the rows of a state.
struct Look {
  const float* decay;  // of row i: decay[i * decay_step]
  std::int64_t decay_step;
  const float *key, *query;
};

/// Rows of a state. Those in memory are as far apart as the state is wide, often a power of two: they would
/// take the same few places of the first cache. So steps work on a copy, unless it has very many rows.
struct Rows {
  float* data;
  std::int64_t stride;
};
constexpr std::int64_t kMostCopied = 256;

/// One image's state of a head, some columns at a time.
class State {
 public:
  State(const LinearAttention& a, std::int64_t image, std::int64_t head)
      : a_(a), image_(image), head_(head) {}

  /// `copy`: room for kMostCopied rows of kVectors vectors.
  template <std::size_t kCount, bool kMasked>
  HWY_INLINE void run(std::int64_t column, std::size_t rest, float* copy) const {
    const Columns<kCount, kMasked> columns{rest};
    const std::int64_t at = (image_ * a_.states + head_) * a_.size * a_.width + column;
    const Rows present{a_.present + at, a_.width};
    Rows work = present;
    if (a_.size <= kMostCopied) work = {copy, static_cast<std::int64_t>(kCount * hn::Lanes(Tag()))};
    Rows from{a_.past == nullptr ? nullptr : const_cast<float*>(a_.past) + at, a_.width};
    if (a_.past == nullptr) {
      for (std::int64_t i = 0; i < a_.size; ++i)
        unrolled<kCount>([&](auto c) CTXGEN_UNROLLED {
          columns.store(hn::Zero(Tag()), work.data + i * work.stride, c);
        });
      from = work;
    }
    Vector added[kCount], seen[kCount], read[kCount];
    if (a_.steps == 0)
      return sweep<false, false>(columns, from, present, nullptr, added, Look{}, seen, read);
    Look look{};
    for (std::int64_t t = 0; t < a_.steps; ++t) {
      const float* last_key = look.key;
      look = look_at(t);
      if (t == 0)
        sweep<false, true>(columns, from, work, last_key, added, look, seen, read);
      else
        sweep<true, true>(columns, work, work, last_key, added, look, seen, read);
      add_value(columns, t, column, seen, added);
      write_results(columns, t, column, look, work, read, added);
    }
    sweep<true, false>(columns, work, present, look.key, added, Look{}, seen, read);
  }

 private:
  [[nodiscard]] std::int64_t step(std::int64_t t) const { return image_ * a_.steps + t; }
  [[nodiscard]] std::int64_t readers() const { return a_.outputs() / a_.states; }
  [[nodiscard]] const float* query(std::int64_t t, std::int64_t reader) const {
    const std::int64_t head = (head_ * readers() + reader) / (a_.outputs() / a_.q_heads);
    return a_.q + (step(t) * a_.q_heads + head) * a_.size;
  }

  [[nodiscard]] Look look_at(std::int64_t t) const {
    static constexpr float kOne = 1;
    Look look{.decay = &kOne, .decay_step = 0, .key = nullptr, .query = query(t, 0)};
    if (a_.decay != nullptr) look.decay = a_.decay + (step(t) * a_.states + head_) * a_.decays;
    if (a_.decay != nullptr && a_.decays > 1) look.decay_step = 1;
    look.key = a_.k + (step(t) * a_.k_heads + head_ / (a_.states / a_.k_heads)) * a_.size;
    return look;
  }

  /// Adds what the last step does to each row, then takes the next one's decay from it: what stays in `to` is
  /// decayed for the step that comes. `seen` and `read`: its key and query times that.
  template <bool kAdds, bool kLooks, std::size_t kCount, bool kMasked>
  HWY_INLINE void sweep(const Columns<kCount, kMasked>& columns, Rows from, Rows to,
                        const float* last_key, const Vector (&added)[kCount], const Look& look,
                        Vector (&seen)[kCount], Vector (&read)[kCount]) const {
    const Tag d;
    if constexpr (kLooks)
      unrolled<kCount>([&](auto c) CTXGEN_UNROLLED { seen[c] = read[c] = hn::Zero(d); });
    const float* decay = look.decay;
    for (std::int64_t i = 0; i < a_.size; ++i, from.data += from.stride, to.data += to.stride) {
      Vector row[kCount];
      unrolled<kCount>([&](auto c) CTXGEN_UNROLLED { row[c] = columns.load(from.data, c); });
      if constexpr (kAdds) {
        const Vector key = hn::Set(d, last_key[i]);
        unrolled<kCount>([&](auto c)
                             CTXGEN_UNROLLED { row[c] = hn::MulAdd(key, added[c], row[c]); });
      }
      if constexpr (kLooks) {
        const Vector factor = hn::Set(d, *decay);
        const Vector key = hn::Set(d, look.key[i]);
        const Vector query = hn::Set(d, look.query[i]);
        decay += look.decay_step;
        unrolled<kCount>([&](auto c) CTXGEN_UNROLLED {
          row[c] = hn::Mul(row[c], factor);
          seen[c] = hn::MulAdd(key, row[c], seen[c]);
          read[c] = hn::MulAdd(query, row[c], read[c]);
        });
      }
      unrolled<kCount>([&](auto c) CTXGEN_UNROLLED { columns.store(row[c], to.data, c); });
    }
  }

  /// What the step adds to the state is its key times this.
  template <std::size_t kCount, bool kMasked>
  HWY_INLINE void add_value(const Columns<kCount, kMasked>& columns, std::int64_t t,
                            std::int64_t column, const Vector (&seen)[kCount],
                            Vector (&added)[kCount]) const {
    const float* value = a_.v + (step(t) * a_.states + head_) * a_.width + column;
    unrolled<kCount>([&](auto c) CTXGEN_UNROLLED { added[c] = columns.load(value, c); });
    if (a_.rate == nullptr) return;
    const Vector rate = hn::Set(Tag(), a_.rate[step(t) * a_.rates + (a_.rates == 1 ? 0 : head_)]);
    unrolled<kCount>([&](auto c)
                         CTXGEN_UNROLLED { added[c] = hn::Mul(rate, hn::Sub(added[c], seen[c])); });
  }

  /// `read`: the first reader's query times the state before the step's value, which `state` holds.
  template <std::size_t kCount, bool kMasked>
  HWY_INLINE void write_results(const Columns<kCount, kMasked>& columns, std::int64_t t,
                                std::int64_t column, const Look& look, const Rows& state,
                                Vector (&read)[kCount], const Vector (&added)[kCount]) const {
    const Tag d;
    for (std::int64_t reader = 0; reader < readers(); ++reader) {
      const float* q = query(t, reader);
      if (reader > 0) {
        unrolled<kCount>([&](auto c) CTXGEN_UNROLLED { read[c] = hn::Zero(d); });
        for (std::int64_t i = 0; i < a_.size; ++i)
          unrolled<kCount>([&](auto c) CTXGEN_UNROLLED {
            read[c] = hn::MulAdd(hn::Set(d, q[i]), columns.load(state.data + i * state.stride, c),
                                 read[c]);
          });
      }
      const Vector share = hn::Set(d, dot_of(q, look.key, a_.size));
      const Vector scale = hn::Set(d, a_.scale);
      float* out = a_.out + (step(t) * a_.outputs() + head_ * readers() + reader) * a_.width;
      unrolled<kCount>([&](auto c) CTXGEN_UNROLLED {
        columns.store(hn::Mul(scale, hn::MulAdd(share, added[c], read[c])), out + column, c);
      });
    }
  }

  const LinearAttention& a_;
  std::int64_t image_, head_;
};

std::int64_t columns_at_once() { return static_cast<std::int64_t>(kVectors * hn::Lanes(Tag())); }

HWY_NOINLINE void attend_columns(const LinearAttention& a, std::int64_t image, std::int64_t head,
                                 std::int64_t first, std::int64_t columns) {
  const State state(a, image, head);
  HWY_ALIGN float copy[kMostCopied * kVectors * hn::MaxLanes(Tag())];
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag()));
  std::int64_t column = first;
  const std::int64_t end = first + columns;
  for (; column + columns_at_once() <= end; column += columns_at_once())
    state.run<kVectors, false>(column, 0, copy);
  for (; column + lanes <= end; column += lanes) state.run<1, false>(column, 0, copy);
  if (column < end) state.run<1, true>(column, static_cast<std::size_t>(end - column), copy);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

std::int64_t linear_attention_columns() { CTXGEN_DISPATCH(columns_at_once()); }

void attend_linearly(const LinearAttention& attention, std::int64_t image, std::int64_t state,
                     std::int64_t first, std::int64_t columns) {
  CTXGEN_DISPATCH(attend_columns(attention, image, state, first, columns));
}

}  // namespace ctxgen::kernels
#endif
