#pragma once

#include <memory>

#include "ctxgen/kernels/causal_conv.h"
#include "ctxgen/kernels/linear_attention.h"

#include "plan/plan.h"

namespace ctxgen::onednn {

/// Args: q, k, v, past, decay (logarithms of factors), rate, where `attention` has a size for them; then the
/// result, the present states, scratch of linear_attention_bytes(). Addresses are null here: has_past,
/// has_decay and has_rate say what is there.
struct LinearAttentionWork {
  kernels::LinearAttention attend;
  bool has_past = false, has_decay = false, has_rate = false;
  [[nodiscard]] std::int64_t decay_count() const {
    return has_decay ? attend.images * attend.steps * attend.states * attend.decays : 0;
  }
};
[[nodiscard]] std::shared_ptr<const Kernel> make_linear_attention_kernel(LinearAttentionWork work);

/// Args: x, weights, bias, past, where there are such; then the result, the present state, scratch of
/// scratch_bytes().
struct CausalConvWork {
  kernels::CausalConv conv;
  std::int64_t images = 0;
  bool has_bias = false, has_past = false;
  [[nodiscard]] std::uint64_t scratch_bytes() const;
};
[[nodiscard]] std::shared_ptr<const Kernel> make_causal_conv_kernel(CausalConvWork work);

}  // namespace ctxgen::onednn
