#pragma once

#include <cstdint>
#include <functional>

namespace ctxgen::cpu {

/// Rows of one head in memory: row i starts at data + i * stride.
struct HeadRows {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

struct AttendParams {
  std::int64_t queries = 0, keys = 0, size = 0, value_size = 0;
  double scale = 1;
  double softcap = 0;  // 0: none
  bool extra_zero = false;  // smooth softmax: one more logit of 0 in the denominator
};

/// What is added to the logit of (query, key); -infinity hides the key.
using LogitBias = std::function<double(std::int64_t query, std::int64_t key)>;

/// out(query) = softmax(scale * q k^T + bias) v for one head. A query that sees no key gives zeros.
void attend(const AttendParams& params, const HeadRows& q, const HeadRows& k, const HeadRows& v,
            const LogitBias& bias, float* out, std::int64_t out_stride);

/// Rotates one head vector of `size` elements in place by `half` pairs of cos and sin: neighbours
/// (interleaved) or the first half against the second.
void rotate(float* head, const float* cos, const float* sin, std::int64_t half, bool interleaved);

}  // namespace ctxgen::cpu
