#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ctxgen/kernels/attention.h"
#include "ctxgen/kernels/rotary.h"

#include "plan/plan.h"

namespace ctxgen::onednn {

/// What the lengths of an attention say of each image.
enum class AttentionLengths : std::uint8_t {
  kAll,
  kLast,  // int32: the place of the last key, which is that of the last query
  kCount,  // int64: how many keys there are; all where it is more than that, none where it is negative
};

/// One attention with its cache. Addresses that come with a run are null here.
struct AttentionWork {
  std::string name;           // for errors
  kernels::Attention attend;  // sizes, strides of what is read, scale...; q, k and v of the inputs
  std::int64_t past = 0;      // keys of past_key
  std::int64_t added = 0;     // keys of k
  bool first_prompt = false;  // kLast: queries are all there is, whatever the lengths say
  AttentionLengths lengths = AttentionLengths::kAll;
  kernels::RotaryPairs pairs = kernels::RotaryPairs::kHalves;
  std::int64_t positions = 0, half = 0;  // dims of cos and sin
  bool packed = false;                   // k and v are in q
  bool has_past = false, has_present = false, has_bias = false, has_rotary = false;
  bool bias_is_bool = false;

  /// What make_attention_kernel()'s last argument has to hold; nothing beyond 2^63.
  [[nodiscard]] std::optional<std::uint64_t> scratch_bytes() const;
};

/// Appends new keys and values to past ones, turned by their positions, and attends to all of them. Args:
/// q, k, v (not where they are packed), past key, past value, lengths, bias, cos, sin, where there are
/// such; then the result, present key and present value [images, kv heads, keys, size], where there are
/// such; scratch.
///
/// Errors of a run  INVALID_ARGUMENT of a length or a position that is outside of the past, the present
///                  or the rotary caches; nothing is written outside of the results.
[[nodiscard]] std::shared_ptr<const Kernel> make_attention_kernel(AttentionWork work);

}  // namespace ctxgen::onednn
