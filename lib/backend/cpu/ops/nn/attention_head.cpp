#include "ops/nn/attention_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ctxgen/cpu/scratch.h"

#include "kernel/stop.h"

namespace ctxgen::cpu {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

template <class E>
double product_of(const AttendParams& params, const E* q, const E* k) {
  double sum = 0;
  for (std::int64_t i = 0; i < params.size; ++i) sum += static_cast<double>(q[i]) * k[i];
  return sum * params.scale;
}

double capped(const AttendParams& params, double logit) {
  return params.softcap > 0 ? params.softcap * std::tanh(logit / params.softcap) : logit;
}

// Turns logits into weights; returns false where every key is hidden.
bool softmax(ScratchVector<double>& logits, std::optional<double> extra) {
  double most = extra.value_or(kHidden);
  for (double x : logits)
    if (x > most || x != x) most = x;  // a NaN wins: no later x is greater than it
  if (most == kHidden) return false;
  double sum = extra ? std::exp(*extra - most) : 0.0;
  for (double& x : logits) {
    x = std::exp(x - most);
    sum += x;
  }
  for (double& x : logits) x /= sum;
  return true;
}

// The logits of one query after bias and cap.
template <class E>
void fill_logits(const AttendParams& params, const E* q, const RowsOf<E>& k, LogitBias bias,
                 std::int64_t s, ScratchVector<double>& logits, const LogitObserver* observe) {
  const auto seen = [&](LogitStage stage) {
    if (observe != nullptr && params.observed == stage) (*observe)(s, logits);
  };
  const bool all = observe != nullptr && params.observed == LogitStage::kProduct;
  ScratchVector<double> addends(logits.size());
  for (std::size_t t = 0; t < logits.size(); ++t) {
    const auto row = static_cast<std::int64_t>(t);
    addends[t] = bias(s, row);
    if (all || addends[t] != kHidden) logits[t] = product_of(params, q, k.data + row * k.stride);
  }
  seen(LogitStage::kProduct);
  for (std::size_t t = 0; t < logits.size(); ++t) {
    if (!params.cap_bias) logits[t] = capped(params, logits[t]);
    logits[t] = addends[t] == kHidden ? kHidden : logits[t] + addends[t];
  }
  seen(LogitStage::kBiased);
  if (params.cap_bias)
    for (double& logit : logits) logit = capped(params, logit);
  seen(LogitStage::kCapped);
}

template <class E>
void attend_rows(const AttendParams& params, const RowsOf<E>& q, const RowsOf<E>& k,
                 const RowsOf<E>& v, LogitBias bias, E* out, std::int64_t out_stride,
                 const LogitObserver* observe) {
  ScratchVector<double> weights(static_cast<std::size_t>(params.keys));
  ScratchVector<double> sums(static_cast<std::size_t>(params.value_size));
  for (std::int64_t s = 0; s < params.queries && !run_stopped(); ++s) {
    fill_logits(params, q.data + s * q.stride, k, bias, s, weights, observe);
    std::ranges::fill(sums, 0.0);
    if (softmax(weights, params.extra)) {
      for (std::int64_t t = 0; t < params.keys; ++t)
        for (std::size_t i = 0; i < sums.size(); ++i)
          sums[i] += weights[static_cast<std::size_t>(t)] *
                     v.data[t * v.stride + static_cast<std::int64_t>(i)];
    } else {
      std::ranges::fill(weights, 0.0);
    }
    if (observe != nullptr && params.observed == LogitStage::kWeight) (*observe)(s, weights);
    std::ranges::transform(sums, out + s * out_stride, [](double x) { return static_cast<E>(x); });
  }
}

}  // namespace

void attend(const AttendParams& params, const HeadRows& q, const HeadRows& k, const HeadRows& v,
            LogitBias bias, float* out, std::int64_t out_stride, const LogitObserver* observe) {
  attend_rows(params, q, k, v, bias, out, out_stride, observe);
}

void attend(const AttendParams& params, const RowsOf<double>& q, const RowsOf<double>& k,
            const RowsOf<double>& v, LogitBias bias, double* out, std::int64_t out_stride,
            const LogitObserver* observe) {
  attend_rows(params, q, k, v, bias, out, out_stride, observe);
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
