#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernels_attention.h"

// Rows that see no key: rare, so plainly.
namespace ctxgen::onednn {

namespace {

constexpr float kHidden = -1e30F;  // a bias from here on hides

class Row {
 public:
  Row(const kernels::Attention& a, std::optional<float> mask_value, std::int64_t image,
      std::int64_t head, std::int64_t row)
      : a_(a),
        mask_value_(mask_value),
        keys_(std::min(a.sizes.keys, a.bias.keys)),
        seen_(a.causal ? std::min(a.position[image] + row + 1, keys_) : keys_),
        bias_(a.bias.addends + image * a.bias.image + head * a.bias.head + row * a.bias.query),
        query_(a.q + image * a.q_strides.image + head * a.q_strides.head + row * a.q_strides.row),
        out_(a.out + image * a.out_strides.image + head * a.out_strides.head +
             row * a.out_strides.row) {
    const std::int64_t own = head / (a.sizes.heads / a.sizes.kv_heads);
    if (a.distances.addends != nullptr) distances_ = a.distances.addends + head * a.distances.count;
    position_ = (a.position == nullptr ? 0 : a.position[image]) + row;
    key_rows_ = a.k + image * a.k_strides.image + own * a.k_strides.head;
    value_rows_ = a.v + image * a.v_strides.image + own * a.v_strides.head;
  }

  [[nodiscard]] bool sees_a_key() const {
    for (std::int64_t k = 0; k < seen_; ++k)
      if (!(bias_[k * a_.bias.key] <= kHidden)) return true;
    return false;
  }

  /// With logits of all keys, or of those that are not after the query.
  void attend(bool all) const {
    const std::int64_t count = all ? keys_ : seen_;
    float most = -std::numeric_limits<float>::infinity();
    for (std::int64_t k = 0; k < count; ++k) most = std::max(most, logit(k));
    if (most == -std::numeric_limits<float>::infinity()) return;
    double total = 0;
    std::fill_n(out_, a_.sizes.value_size, 0.0F);
    for (std::int64_t k = 0; k < count; ++k) total += weight(k, most);
    for (std::int64_t k = 0; k < count; ++k) {
      const auto share = static_cast<float>(weight(k, most) / total);
      if (share == 0) continue;
      for (std::int64_t i = 0; i < a_.sizes.value_size; ++i)
        out_[i] += share * value_rows_[k * a_.v_strides.row + i];
    }
  }

 private:
  [[nodiscard]] float logit(std::int64_t k) const {
    float score = std::numeric_limits<float>::lowest();
    if (k < seen_ || mask_value_) {
      double sum = 0;
      for (std::int64_t i = 0; i < a_.sizes.size; ++i)
        sum += double{query_[i]} * double{key_rows_[k * a_.k_strides.row + i]};
      score = static_cast<float>(sum) * a_.scale;
    }
    return score + (k < seen_ || !mask_value_ ? bias_[k * a_.bias.key] : *mask_value_) +
           distance(k);
  }
  [[nodiscard]] float distance(std::int64_t k) const {
    if (distances_ == nullptr) return 0;
    return distances_[std::clamp<std::int64_t>(position_ - k, 0, a_.distances.count - 1)];
  }
  [[nodiscard]] double weight(std::int64_t k, float most) const {
    return std::exp(double{logit(k)} - double{most});
  }

  const kernels::Attention& a_;
  std::optional<float> mask_value_;
  std::int64_t keys_, seen_;  // seen: those that are not after the query
  const float *bias_, *query_, *key_rows_ = nullptr, *value_rows_ = nullptr;
  const float* distances_ = nullptr;  // of the head
  std::int64_t position_ = 0;
  float* out_;
};

}  // namespace

void attend_hidden_rows(const kernels::Attention& a, bool finite_causal,
                        std::optional<float> mask_value) {
  for (std::int64_t image = 0; image < a.sizes.images; ++image)
    for (std::int64_t row = 0; row < a.sizes.queries; ++row)
      for (std::int64_t head = 0; head < a.sizes.heads; ++head) {
        const Row hidden(a, mask_value, image, head, row);
        if (!hidden.sees_a_key())
          hidden.attend(finite_causal);
        else if (a.bias.head == 0)
          break;  // nor is it in other heads
      }
}

}  // namespace ctxgen::onednn
