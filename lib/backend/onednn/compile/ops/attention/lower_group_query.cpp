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

constexpr std::size_t kTotal = 6, kCosInput = 7, kBiasInput = 10, kSinks = 11;

struct GroupQuery {
  AttentionParams params;
  DimLists total;  // of no number where it is in the parameters
};

Refusal check_inputs(const NodeView& n) {
  CTXGEN_REFUSE(require_f32(n, {0}));
  CTXGEN_REFUSE(require_ranked(n, 0, "query", {3}));
  if (n.constant(0) != nullptr) return "query is constant";
  if (n.has_input(1) != n.has_input(2)) return "only one of key and value";
  if (n.has_input(1)) {
    CTXGEN_REFUSE(require_ranked(n, 1, "key", {3}));
    CTXGEN_REFUSE(require_ranked(n, 2, "value", {3}));
  }
  if (n.has_input(3) != n.has_input(4)) return "only one of past_key and past_value";
  if (n.has_input(3)) {
    CTXGEN_REFUSE(require_ranked(n, 3, "past_key", {4}));
    CTXGEN_REFUSE(require_ranked(n, 4, "past_value", {4}));
  }
  if (const Tensor* lengths = n.has_input(5) ? n.constant(5) : nullptr) {
    if (lengths->type() != DataType::kInt32 || lengths->rank() == 0)
      return "seqlens_k is not a list of int32";
  } else {
    CTXGEN_REFUSE(require_value(n, 5, {DataType::kInt32}));
  }
  if (n.has_input(kBiasInput)) CTXGEN_REFUSE(require_ranked(n, kBiasInput, "attention_bias", {4}));
  for (std::size_t i = 9; i < n.input_count(); ++i)
    if (n.has_input(i) && i != kBiasInput && i != kSinks) return std::format("input {} is used", i);
  return require_present(n);
}

Refusal check_attributes(const Node& node) {
  for (const std::string_view name : {"k_quant_type", "v_quant_type"})
    if (const std::string_view type = node.string_or(name, "NONE"); type != "NONE")
      return std::format("{} is {}", name, type);
  if (const std::int64_t output = node.int_or("qk_output", 0); output != 0)
    return std::format("qk_output is {}", output);
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
  params.causal = true;
  params.smooth = node.int_or("smooth_softmax", 0) > 0;
  CTXGEN_REFUSE(read_sinks(n, params));
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
  add_attention(n, builder, std::move(op), inputs, true, sized);
  return {};
}

}  // namespace ctxgen::onednn
