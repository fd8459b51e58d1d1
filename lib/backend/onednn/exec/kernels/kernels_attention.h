#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/kernels/attention.h"
#include "ctxgen/kernels/rotary.h"

#include "plan/plan.h"

namespace ctxgen::onednn {

/// The longest rows of keys and values that are kept as integers.
inline constexpr std::int64_t kMostQuantisedSize = 1024;

/// What the lengths of an attention say of each image.
enum class AttentionLengths : std::uint8_t {
  kAll,
  kLast,  // int32: the place of the last key, which is that of the last query
  kCount,  // int64: how many keys there are; all where it is more than that, none where it is negative
};

/// What an attention is told in each run of how long things are, in the order of its KindRow::lengths.
struct AttentionNumbers {
  std::int64_t past = 0, past_value = 0;       // keys of the past keys and values
  std::int64_t bias_keys = 1;                  // the last dim of the bias
  std::int64_t added = -1, added_values = -1;  // rows of k and v; -1: as planned
  std::int64_t total = -1;                     // what `total` comes to; -1: the op has none
  std::int64_t capacity =
      0;  // rows of a head in memory that past and present share; 0: they do not
  [[nodiscard]] static AttentionNumbers of(const std::int64_t* all) {
    return {all[0], all[1], all[2], all[3], all[4], all[5], all[6]};
  }
};

/// What those come to.
struct AttentionSpan {
  std::int64_t past = 0, added = 0, keys = 0;
  std::int64_t past_rows = 0, rows = 0;  // in memory, of a head of the past and of the present
  bool first_prompt = false;    // kLast: queries are all there is, whatever the lengths say
  kernels::AttentionBias bias;  // without its address
};

/// One attention with its cache. Addresses that come with a run, and how many keys there are, are not
/// here.
struct AttentionWork {
  std::string name;          // for errors
  std::vector<float> sinks;  // per head; empty: none
  std::vector<float> q_norm,
      k_norm;  // factors of a head's root mean square norm, before it is turned
  float norm_epsilon = 0;
  std::vector<float> k_scales, v_scales;  // of caches of integers; sizes.quantised: there are such
  kernels::QuantisedForm cache;
  kernels::Attention attend;  // sizes, strides of what is read, scale...; q, k and v of the inputs
  AttentionNumbers planned;   // when the plan was made; a run without numbers has these
  std::int64_t added = 0;     // keys of k
  bool k_heads_first = false, v_heads_first = false;  // [images, heads, rows, size]
  std::array<std::int64_t, 4> bias_dims{1, 1, 1,
                                        1};  // images, heads, queries; the last is a number
  bool short_bias = false;                   // keys beyond those of the bias are hidden
  bool long_bias = false;                    // it may go on after the keys
  bool same_rows = false;                    // there are as many new keys as queries
  bool bottom_right = false;                 // the last query is at the place of the last key
  bool finite_causal = false;  // keys after a query have the lowest logit, not -infinity
  AttentionLengths lengths = AttentionLengths::kAll;
  kernels::RotaryPairs pairs = kernels::RotaryPairs::kHalves;
  std::int64_t positions = 0, half = 0;  // dims of cos and sin
  bool packed = false;                   // k and v are in q
  bool has_past = false, has_present = false, has_bias = false, has_rotary = false;
  bool has_logits = false;  // in attend.logits.stage
  DataType bias_type = DataType::kFloat;
  std::optional<float> mask_value;  // what is added where the bias, a mask of keys, hides

  /// Whether q is read from the scratch, and k not as it is.
  [[nodiscard]] bool prepares() const { return has_rotary || !q_norm.empty(); }
  /// Errors  INVALID_GRAPH naming the op: no attention has such lengths.
  [[nodiscard]] Result<AttentionSpan> span_of(const AttentionNumbers& numbers) const;
  /// What make_attention_kernel()'s scratch argument has to hold for so many keys.
  /// Errors  RESOURCE_LIMIT.
  [[nodiscard]] Result<std::uint64_t> scratch_bytes(std::int64_t keys) const;

 private:
  [[nodiscard]] Result<kernels::AttentionBias> bias_of(std::int64_t bias_keys,
                                                       std::int64_t keys) const;
};

/// Computes again the rows that a bias of numbers like the lowest float hides all keys from: attend() works with
/// logarithms to base 2, in which such numbers overflow. `finite_causal`: keys after a query count as having the lowest
/// float as logit, to which the bias is added, or as hidden by `mask_value` like others. Rows whose logits are all
/// -infinity stay.
///
/// Requires  a bias of numbers; no window, softcap, counts of keys or extra logit.
void attend_hidden_rows(const kernels::Attention& a, bool finite_causal,
                        std::optional<float> mask_value);

/// Appends new keys and values to past ones, normed and turned by their positions, and attends to all of them. Args:
/// q, k, v (not where they are packed), past key, past value, lengths, bias, cos, sin, distances, where there are
/// such; then the result, present key and present value [images, kv heads, keys, size], and logits, where there are
/// such; numbers (null: the planned ones); scratch.
///
/// Pasts and presents hold floats, or integers (`cache`); what is attended to are the numbers that these stand for.
///
/// A past that is where its present is, both as long, or with a capacity, is appended to in place.
///
/// Errors of a run  INVALID_ARGUMENT of a length or a position that is outside of the past, the present
///                  or the rotary caches; nothing is written outside of the results.
[[nodiscard]] std::shared_ptr<const Kernel> make_attention_kernel(AttentionWork work);

}  // namespace ctxgen::onednn
