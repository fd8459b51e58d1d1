#include "attention_core.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ctxgen::cpu {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

double logit_of(const AttendParams& params, const float* q, const float* k) {
  double sum = 0;
  for (std::int64_t i = 0; i < params.size; ++i) sum += static_cast<double>(q[i]) * k[i];
  sum *= params.scale;
  return params.softcap > 0 ? params.softcap * std::tanh(sum / params.softcap) : sum;
}

// Turns logits into weights; returns false where every key is hidden.
bool softmax(std::vector<double>& logits, bool extra_zero) {
  double most = extra_zero ? 0.0 : kHidden;
  for (double x : logits) most = std::max(most, x);
  if (most == kHidden) return false;
  double sum = extra_zero ? std::exp(-most) : 0.0;
  for (double& x : logits) {
    x = std::exp(x - most);
    sum += x;
  }
  for (double& x : logits) x /= sum;
  return true;
}

}  // namespace

void attend(const AttendParams& params, const HeadRows& q, const HeadRows& k, const HeadRows& v,
            const LogitBias& bias, float* out, std::int64_t out_stride) {
  std::vector<double> weights(static_cast<std::size_t>(params.keys));
  std::vector<double> sums(static_cast<std::size_t>(params.value_size));
  for (std::int64_t s = 0; s < params.queries; ++s) {
    for (std::int64_t t = 0; t < params.keys; ++t) {
      const double addend = bias(s, t);
      weights[static_cast<std::size_t>(t)] =
          addend == kHidden
              ? kHidden
              : logit_of(params, q.data + s * q.stride, k.data + t * k.stride) + addend;
    }
    std::ranges::fill(sums, 0.0);
    if (softmax(weights, params.extra_zero))
      for (std::int64_t t = 0; t < params.keys; ++t)
        for (std::size_t i = 0; i < sums.size(); ++i)
          sums[i] += weights[static_cast<std::size_t>(t)] *
                     v.data[t * v.stride + static_cast<std::int64_t>(i)];
    std::ranges::transform(sums, out + s * out_stride,
                           [](double x) { return static_cast<float>(x); });
  }
}

void rotate(float* head, const float* cos, const float* sin, std::int64_t half, bool interleaved) {
  for (std::int64_t i = 0; i < half; ++i) {
    float& x = head[interleaved ? 2 * i : i];
    float& y = head[interleaved ? 2 * i + 1 : i + half];
    const float rotated = x * cos[i] - y * sin[i];
    y = x * sin[i] + y * cos[i];
    x = rotated;
  }
}

}  // namespace ctxgen::cpu
