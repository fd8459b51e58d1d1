#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ctxgen/base/function_ref.h"

namespace ctxgen::cpu {

/// Rows of one head in memory: row i starts at data + i * stride.
template <class E>
struct RowsOf {
  const E* data = nullptr;
  std::int64_t stride = 0;
};
using HeadRows = RowsOf<float>;

/// The stages of a logit: the scaled product, with its bias, after the soft cap, and the weight.
enum class LogitStage { kProduct, kBiased, kCapped, kWeight };

struct AttendParams {
  std::int64_t queries = 0, keys = 0, size = 0, value_size = 0;
  double scale = 1;
  double softcap = 0;     // 0: none
  bool cap_bias = false;  // the cap is over product and bias (ONNX), not over the product alone
  std::optional<double> extra =
      {};  // one more logit in the denominator: 0 for smooth softmax, a sink
  LogitStage observed = LogitStage::kProduct;
};

/// What is added to the logit of (query, key); -infinity hides the key.
using LogitBias = FunctionRef<double(std::int64_t query, std::int64_t key)>;
/// Sees the logits of one query at the stage `observed`.
using LogitObserver = FunctionRef<void(std::int64_t query, std::span<const double> logits)>;

/// out(query) = softmax(scale * q k^T + bias) v for one head. A query that sees no key gives zeros.
void attend(const AttendParams& params, const HeadRows& q, const HeadRows& k, const HeadRows& v,
            LogitBias bias, float* out, std::int64_t out_stride,
            const LogitObserver* observe = nullptr);
void attend(const AttendParams& params, const RowsOf<double>& q, const RowsOf<double>& k,
            const RowsOf<double>& v, LogitBias bias, double* out, std::int64_t out_stride,
            const LogitObserver* observe = nullptr);

/// Rotates one head vector of `size` elements in place by `half` pairs of cos and sin: neighbours
/// (interleaved) or the first half against the second.
void rotate(float* head, const float* cos, const float* sin, std::int64_t half, bool interleaved);

}  // namespace ctxgen::cpu
