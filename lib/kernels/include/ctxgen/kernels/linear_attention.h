#pragma once

#include <cstdint>

namespace ctxgen::kernels {

/// Linear attention: each head of values has a state S [size, width] of its own, and no cache that grows.
/// A step of decay a (per row of S), key k, value v and rate b does
///   S = a S + k (x) b (v - k (a S)),   or S = a S + k (x) v without rates,   and gives scale q S.
/// Arrays are dense: q [images, steps, q_heads, size], k [images, steps, k_heads, size], v [images, steps,
/// states, width], states [images, states, size, width], out [images, steps, outputs(), width].
struct LinearAttention {
  std::int64_t images = 0, steps = 0, q_heads = 0, k_heads = 0, states = 0, size = 0, width = 0;
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  const float* past = nullptr;   // states before the first step; null: zeros
  const float* decay = nullptr;  // factors [images, steps, states, decays]; null: 1
  std::int64_t decays = 1;       // 1, or size: one of each row of a state
  const float* rate = nullptr;   // [images, steps, rates]; null: no correction
  std::int64_t rates = 1;        // 1, or states
  float scale = 1;
  float *out = nullptr, *present = nullptr;  // present may be past, no other overlap

  /// Heads of the result: as many as queries or states, whichever are more.
  [[nodiscard]] std::int64_t outputs() const { return q_heads > states ? q_heads : states; }
};

/// Columns of a state that one call should take: they stay in the first cache over all steps.
[[nodiscard]] std::int64_t linear_attention_columns();

/// All steps of `columns` columns from `first` on of one image's state, and the results that read them.
/// Columns do not depend on each other: how they are cut does not change a result. Sums over `size` are f32,
/// in order; q S is computed as q (a S) + (q k) times what a step adds, so it may be NaN where parts of it
/// are infinite. NaN and infinity go through elsewhere.
///
/// Requires  q_heads and k_heads are divisors or multiples of states as outputs() says: q_heads divides
///           outputs(), k_heads and states as well.
/// Threads   any; the calling one does all the work. Calls for different columns may run at once.
void attend_linearly(const LinearAttention& attention, std::int64_t image, std::int64_t state,
                     std::int64_t first, std::int64_t columns);

}  // namespace ctxgen::kernels
