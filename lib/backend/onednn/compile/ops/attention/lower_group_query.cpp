// com.microsoft GroupQueryAttention: heads that share keys, rotary embedding, a cache.
#include <algorithm>
#include <array>
#include <cmath>
#include <format>

#include "ctxgen/onednn/op_kinds.h"

#include "../../dim_list.h"
#include "../ops.h"
#include "attention_values.h"

namespace ctxgen::onednn {

namespace {

constexpr std::size_t kTotal = 6, kCosInput = 7, kBiasInput = 10, kSinks = 11, kKeyScale = 12,
                      kValueScale = 13, kQueryNorm = 14, kKeyNorm = 15;

struct GroupQuery {
  AttentionParams params;
  DimLists total;  // of no number where it is in the parameters
};

/// Pasts and presents of floats, or of integers with their scales.
Refusal read_caches(const NodeView& n, AttentionParams& params) {
  constexpr std::int64_t kMostScales = 1 << 16;
  const Node& node = n.node();
  const std::string_view type = node.string_or("k_quant_type", "NONE");
  if (node.string_or("v_quant_type", "NONE") != type) return "k_quant_type and v_quant_type differ";
  if (n.has_input(3) != n.has_input(4)) return "only one of past_key and past_value";
  if (type == "NONE") {
    for (const std::size_t i : {kKeyScale, kValueScale})
      if (n.has_input(i)) return std::format("input {} is used", i);
    if (n.has_input(3)) {
      CTXGEN_REFUSE(require_ranked(n, 3, "past_key", {4}));
      CTXGEN_REFUSE(require_ranked(n, 4, "past_value", {4}));
    }
    return require_present(n);
  }
  const std::int64_t bits = node.int_or("kv_cache_bit_width", 0);
  if ((type != "PER_TENSOR" && type != "PER_CHANNEL") || (bits != 4 && bits != 8))
    return std::format("k_quant_type is {} of {} bits", type, bits);
  params.cache_bits = bits;
  for (const std::size_t i : {3, 4})
    if (n.has_input(i)) CTXGEN_REFUSE(require_value(n, i, {params.cache_type()}));
  for (const auto& [i, scales] :
       {std::pair(kKeyScale, &params.k_scales), std::pair(kValueScale, &params.v_scales)}) {
    const Tensor* constant = n.has_input(i) ? n.constant(i) : nullptr;
    if (constant == nullptr) return std::format("scale {} is not constant", i);
    if (constant->type() != DataType::kFloat || constant->element_count() > kMostScales ||
        (type == "PER_TENSOR") != (constant->element_count() == 1))
      return std::format("scale {} is {} {}", i, name_of(constant->type()),
                         to_string(constant->dims()));
    for (const float scale : floats_of(*constant)) scales->push_back(double{scale});
  }
  return require_present(n, params.cache_type());
}

Refusal check_inputs(const NodeView& n) {
  CTXGEN_REFUSE(require_f32(n, {0}));
  CTXGEN_REFUSE(require_ranked(n, 0, "query", {3}));
  if (n.constant(0) != nullptr) return "query is constant";
  if (n.has_input(1) != n.has_input(2)) return "only one of key and value";
  if (n.has_input(1)) {
    CTXGEN_REFUSE(require_ranked(n, 1, "key", {3}));
    CTXGEN_REFUSE(require_ranked(n, 2, "value", {3}));
  }
  if (const Tensor* lengths = n.has_input(5) ? n.constant(5) : nullptr) {
    if (lengths->type() != DataType::kInt32 || lengths->rank() == 0)
      return "seqlens_k is not a list of int32";
  } else {
    CTXGEN_REFUSE(require_value(n, 5, {DataType::kInt32}));
  }
  if (n.has_input(kBiasInput)) CTXGEN_REFUSE(require_ranked(n, kBiasInput, "attention_bias", {4}));
  if (n.has_input(9)) return "position_ids is used";
  for (std::size_t i = kKeyNorm + 1; i < n.input_count(); ++i)
    if (n.has_input(i)) return std::format("input {} is used", i);
  return std::nullopt;
}

Refusal check_attributes(const Node& node) {
  for (const std::string_view name : {"qk_output", "sliding_window_cache"})
    if (const std::int64_t value = node.int_or(name, 0); value != 0)
      return std::format("{} is {}", name, value);
  if (node.int_or("causal", 1) == 0 && node.int_or("local_window_size", -1) > 0)
    return "a window that is not causal";
  return std::nullopt;
}

/// One more logit for each head.
Refusal read_sinks(const NodeView& n, AttentionParams& params) {
  constexpr float kMost = 1e30F;  // of what the op takes
  if (!n.has_input(kSinks)) return std::nullopt;
  const Tensor* sinks = n.constant(kSinks);
  if (sinks == nullptr) return "head_sink is not constant";
  if (params.heads > 4096) return std::format("head_sink of {} heads", params.heads);
  if (!is_real(sinks->type()) || sinks->dims() != Dims{params.heads})
    return std::format("head_sink is {} {}", name_of(sinks->type()), to_string(sinks->dims()));
  for (const float sink : floats_of(*sinks)) {
    if (!(std::fabs(sink) <= kMost)) return std::format("head_sink has {}", sink);
    params.sinks.push_back(double{sink});
  }
  params.smooth = false;
  return std::nullopt;
}

/// Factors of root mean square norms of the heads of queries and keys.
Refusal read_norms(const NodeView& n, AttentionParams& params) {
  constexpr std::int64_t kMostFactors = 4096;
  if (n.has_input(kQueryNorm) != n.has_input(kKeyNorm))
    return "only one of q_norm_weight and k_norm_weight";
  if (!n.has_input(kQueryNorm)) return std::nullopt;
  for (const auto& [i, factors] :
       {std::pair(kQueryNorm, &params.q_norm), std::pair(kKeyNorm, &params.k_norm)}) {
    const Tensor* weights = n.constant(i);
    if (weights == nullptr) return std::format("input {} is not constant", i);
    if (!is_real(weights->type()) || weights->rank() != 1 ||
        weights->element_count() > kMostFactors)
      return std::format("input {} is {} {}", i, name_of(weights->type()),
                         to_string(weights->dims()));
    for (const float factor : floats_of(*weights)) factors->push_back(double{factor});
  }
  const Dim hidden = n.input_dims(0)[2];
  const std::int64_t shares = params.heads + (n.has_input(1) ? 0 : 2 * params.kv_heads);
  const std::int64_t size = hidden.is_fixed() ? hidden.value() / shares : -1;
  if (std::ssize(params.q_norm) != size || std::ssize(params.k_norm) != size || size < 1)
    return std::format("norms of {} and {} elements for heads of {}", params.q_norm.size(),
                       params.k_norm.size(), size);
  params.norm_epsilon = double{n.node().float_or("qk_norm_epsilon", 1e-6F)};
  return std::nullopt;
}

Read<GroupQuery> read_group_query(const NodeView& n) {
  CTXGEN_REFUSE(check_inputs(n));
  CTXGEN_REFUSE(check_attributes(n.node()));
  const Node& node = n.node();
  GroupQuery read;
  AttentionParams& params = read.params;
  params.heads = node.int_or("num_heads", 0);
  params.kv_heads = node.int_or("kv_num_heads", 0);
  constexpr std::int64_t kMostHeads = 1 << 20;
  if (params.heads < 1 || params.kv_heads < 1 || params.heads > kMostHeads ||
      params.heads % params.kv_heads != 0)
    return refuse("{} heads and {} of keys", params.heads, params.kv_heads);
  params.scale = double{node.float_or("scale", 0.0F)};
  params.softcap = double{node.float_or("softcap", 0.0F)};
  params.window = std::max<std::int64_t>(0, node.int_or("local_window_size", -1));
  params.causal = node.int_or("causal", 1) != 0;
  params.smooth = node.int_or("smooth_softmax", 0) > 0;
  CTXGEN_REFUSE(read_sinks(n, params));
  CTXGEN_REFUSE(read_norms(n, params));
  CTXGEN_REFUSE(read_caches(n, params));
  params.lengths = "last";
  // Its keys are the total, those of a buffer may be more.
  params.short_bias = params.long_bias = n.has_input(kBiasInput);
  if (node.int_or("do_rotary", 0) != 0) {
    for (const std::size_t i : {kCosInput, kCosInput + 1})
      CTXGEN_REFUSE(require_ranked(n, i, "a rotary cache", {2}));
    params.rotary = node.int_or("rotary_interleaved", 0) != 0 ? "neighbours" : "halves";
  }
  read.total = CTXGEN_TRY(read_dim_lists(n, std::array{kTotal}, AttentionInputs().size()));
  if (read.total.lists[0].count != 1)
    return refuse("total_sequence_length has {} numbers", read.total.lists[0].count);
  return read;
}

}  // namespace

Refusal check_group_query(const NodeView& n) { return refusal_of(read_group_query(n)); }

Status lower_group_query(const NodeView& n, ProgramBuilder& builder) {
  const GroupQuery read = CTXGEN_TRY(accepted(read_group_query(n), n));
  ProgramOp op = builder.op(kind::kAttention, n);
  encode(read.params, op);
  add_list(op, "total", read.total.lists[0]);
  AttentionInputs inputs;
  const bool past = n.has_input(3) && !is_empty(n, 3);
  for (const std::size_t i : {kAtQ, kAtK, kAtV}) inputs[i] = builder.operand(n.input(i));
  for (const std::size_t i : {kAtPastKey, kAtPastValue})
    if (past) inputs[i] = builder.operand(n.input(i));
  inputs[kAtLengths] = n.constant(5) == nullptr
                           ? builder.operand(n.input(5))
                           : builder.stored_weight(n.input_value(5).name, *n.constant(5));
  if (n.has_input(kBiasInput)) inputs[kAtBias] = builder.operand(n.input(kBiasInput));
  if (!read.params.rotary.empty()) {
    inputs[kAtCos] = builder.operand(n.input(kCosInput));
    inputs[kAtSin] = builder.operand(n.input(kCosInput + 1));
  }
  std::vector<Operand> sized;
  add_sized(op, read.total, builder, sized);
  add_attention(n, builder, std::move(op), inputs, true, sized, read.params.cache_type());
  return {};
}

}  // namespace ctxgen::onednn
