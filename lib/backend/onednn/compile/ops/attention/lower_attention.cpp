// Attention of the default domain, and MultiHeadAttention of com.microsoft.
#include <algorithm>
#include <array>
#include <format>

#include "ctxgen/onednn/op_kinds.h"

#include "../ops.h"
#include "attention_values.h"

namespace ctxgen::onednn {

namespace {

/// What both know by other places of their inputs.
struct Spelling {
  std::size_t bias, past_key, past_value;
  std::size_t lengths;  // kNoInput: it has none
  std::size_t inputs;   // of later ones none may be used
};
constexpr std::size_t kNoInput = SIZE_MAX, kMultiHeadBias = 3, kKeyMask = 4;
constexpr Spelling kOnnxAttention{
    .bias = 3, .past_key = 4, .past_value = 5, .lengths = 6, .inputs = 7};
constexpr Spelling kMultiHead{
    .bias = 5, .past_key = 6, .past_value = 7, .lengths = kNoInput, .inputs = 8};

Refusal check_mask(const NodeView& n, std::size_t i) {
  if (!n.has_input(i)) return std::nullopt;
  const Tensor* constant = n.constant(i);
  const ValueType& type = n.input_value(i).type;
  const DataType element = constant != nullptr ? constant->type() : type.element;
  if (!is_real(element) && element != DataType::kBool)
    return std::format("mask has element type {}", name_of(element));
  if (constant == nullptr && !type.has_rank()) return "rank of mask is unknown";
  if (n.rank(i) < 1 || n.rank(i) > 4) return std::format("mask has rank {}", n.rank(i));
  return std::nullopt;
}

Refusal check_tensors(const NodeView& n, const Spelling& spelling) {
  CTXGEN_REFUSE(require_f32(n, {0, 1, 2}));
  for (const std::size_t i : {0, 1, 2}) {
    CTXGEN_REFUSE(require_ranked(n, i, "query, key or value", {3, 4}));
    if (n.constant(i) != nullptr) return std::format("input {} is constant", i);
  }
  CTXGEN_REFUSE(check_mask(n, spelling.bias));
  if (n.has_input(spelling.past_key) != n.has_input(spelling.past_value))
    return "only one of past_key and past_value";
  if (n.has_input(spelling.past_key)) {
    CTXGEN_REFUSE(require_ranked(n, spelling.past_key, "past_key", {4}));
    CTXGEN_REFUSE(require_ranked(n, spelling.past_value, "past_value", {4}));
  }
  for (std::size_t i = spelling.inputs; i < n.input_count(); ++i)
    if (n.has_input(i)) return std::format("input {} is used", i);
  return require_present(n);
}

/// The number of heads: the attribute, or a dim of a tensor of rank 4.
Read<std::int64_t> heads_of(const NodeView& n, std::size_t i, std::string_view attribute) {
  std::int64_t heads = n.node().int_or(attribute, 0);
  if (heads == 0 && n.rank(i) == 4) {
    const Dim dim = n.input_dims(i)[1];
    if (!dim.is_fixed()) return refuse("the number of heads is unknown");
    heads = dim.value();
  }
  constexpr std::int64_t kMostHeads = 1 << 20;
  if (heads < 1 || heads > kMostHeads) return refuse("{} heads", heads);
  return heads;
}

/// What kind::kAttention calls the stage of output 3.
Read<std::string> stage_of_logits(const NodeView& n) {
  constexpr std::array kStages{"product", "masked", "capped", "weights"};
  const std::int64_t mode = n.node().int_or("qk_matmul_output_mode", 0);
  if (mode < 0 || mode >= std::ssize(kStages)) return refuse("qk_matmul_output_mode {}", mode);
  const ValueType& type = n.output_value(3).type;
  if (!type.is_tensor() || type.element != DataType::kFloat || !type.has_rank() || type.rank() != 4)
    return refuse("output 3 is not a tensor of f32 of rank 4");
  return kStages[static_cast<std::size_t>(mode)];
}

Read<AttentionParams> read_onnx(const NodeView& n) {
  CTXGEN_REFUSE(check_tensors(n, kOnnxAttention));
  for (const std::size_t i : {1, 2})
    if (n.rank(i) != n.rank(0)) return refuse("ranks {} and {}", n.rank(0), n.rank(i));
  const Node& node = n.node();
  AttentionParams params;
  params.heads = CTXGEN_TRY(heads_of(n, 0, "q_num_heads"));
  params.kv_heads = CTXGEN_TRY(heads_of(n, 1, "kv_num_heads"));
  if (params.heads % params.kv_heads != 0)
    return refuse("{} heads and {} of keys", params.heads, params.kv_heads);
  params.scale = double{node.float_or("scale", 0.0F)};
  params.softcap = double{node.float_or("softcap", 0.0F)};
  params.causal = node.int_or("is_causal", 0) != 0;
  params.short_bias = node.opset >= 24 && n.has_input(kOnnxAttention.bias);
  if (n.has_input(kOnnxAttention.lengths)) {
    CTXGEN_REFUSE(require_value(n, kOnnxAttention.lengths, {DataType::kInt64}));
    if (n.has_input(kOnnxAttention.past_key)) return refuse("lengths with a past");
    params.lengths = "count";
  }
  // ONNX's cap is over mask and product, so it makes a key visible again that the mask hides.
  if (params.softcap != 0 &&
      (params.causal || !params.lengths.empty() || n.has_input(kOnnxAttention.bias)))
    params.cap_sum = 1;
  if (n.output_wanted(3)) params.logits = CTXGEN_TRY(stage_of_logits(n));
  return params;
}

Read<AttentionParams> read_multi_head(const NodeView& n) {
  CTXGEN_REFUSE(check_tensors(n, kMultiHead));
  if (n.rank(0) != 3) return refuse("query has rank {}", n.rank(0));
  if (n.rank(1) != n.rank(2)) return refuse("ranks {} and {}", n.rank(1), n.rank(2));
  if (n.has_input(kMultiHeadBias)) {
    const Tensor* bias = n.constant(kMultiHeadBias);
    if (bias == nullptr) return refuse("bias is not constant");
    if (n.rank(1) != 3) return refuse("a bias of keys and values that are heads");
    const Dim hidden = n.input_dims(0)[2], values = n.input_dims(2)[2];
    if (!is_real(bias->type()) || !hidden.is_fixed() || !values.is_fixed() ||
        bias->dims() != Dims{2 * hidden.value() + values.value()})
      return refuse("bias is {} {}", name_of(bias->type()), to_string(bias->dims()));
  }
  if (n.output_wanted(3)) return refuse("output 3 is used");
  const Node& node = n.node();
  AttentionParams params;
  params.heads = CTXGEN_TRY(heads_of(n, 0, "num_heads"));
  params.kv_heads = params.heads;
  if (n.has_input(kKeyMask)) {
    if (n.has_input(kMultiHead.bias)) return refuse("key_padding_mask with attention_bias");
    params.mask_value = CTXGEN_TRY(read_key_mask(n, kKeyMask));
  }
  params.scale = double{node.float_or("scale", 0.0F)};
  params.causal = node.int_or("unidirectional", 0) != 0;
  if (n.has_input(kMultiHead.bias) && n.rank(kMultiHead.bias) != 4)
    return refuse("attention_bias has rank {}", n.rank(kMultiHead.bias));
  return params;
}

/// Queries, keys and values with their part of a MultiHeadAttention's bias.
Status add_parts_of_bias(const NodeView& n, ProgramBuilder& builder, AttentionInputs& inputs) {
  const Tensor* bias = n.has_input(kMultiHeadBias) ? n.constant(kMultiHeadBias) : nullptr;
  if (bias == nullptr) return {};
  const auto all = floats_of(*bias);
  const auto hidden = static_cast<std::size_t>(n.input_dims(0)[2].value());
  const std::string& name = n.output_value(0).name;
  const std::array<std::size_t, 4> cuts{0, hidden, 2 * hidden, all.size()};
  for (const std::size_t i : {kAtQ, kAtK, kAtV}) {
    const std::span part = std::span(all).subspan(cuts[i], cuts[i + 1] - cuts[i]);
    const Tensor vector = CTXGEN_TRY(tensor_of({std::ssize(part)}, part));
    const std::uint32_t sum =
        builder.temporary(std::format("{}/biased_{}", name, i), builder.at(inputs[i].index).dims);
    const Operand own = builder.weight(std::format("{}/bias_{}", name, i), vector);
    builder.add_binary(n, "add", inputs[i], own, sum);
    inputs[i] = Operand::value(sum);
  }
  return {};
}

/// A mask as an operand: constants of bool and other values as they are.
Operand mask_of(const NodeView& n, std::size_t i, ProgramBuilder& builder) {
  const Tensor* constant = n.has_input(i) ? n.constant(i) : nullptr;
  if (constant != nullptr && constant->type() == DataType::kBool)
    return builder.stored_weight(n.input_value(i).name, *constant);
  return builder.operand(n.input(i));
}

Status lower_heads(const NodeView& n, ProgramBuilder& builder, const AttentionParams& params,
                   const Spelling& spelling) {
  ProgramOp op = builder.op(kind::kAttention, n);
  encode(params, op);
  AttentionInputs inputs;
  for (const std::size_t i : {kAtQ, kAtK, kAtV}) inputs[i] = builder.operand(n.input(i));
  if (&spelling == &kMultiHead) CTXGEN_CHECK(add_parts_of_bias(n, builder, inputs));
  const bool past = n.has_input(spelling.past_key) && !is_empty(n, spelling.past_key);
  if (past) {
    inputs[kAtPastKey] = builder.operand(n.input(spelling.past_key));
    inputs[kAtPastValue] = builder.operand(n.input(spelling.past_value));
  }
  if (!params.lengths.empty()) inputs[kAtLengths] = builder.operand(n.input(spelling.lengths));
  inputs[kAtBias] = mask_of(n, params.mask_value ? kKeyMask : spelling.bias, builder);
  const bool present = past || n.output_wanted(1) || n.output_wanted(2) || !params.logits.empty();
  add_attention(n, builder, std::move(op), inputs, present);
  return {};
}

}  // namespace

Refusal check_attention(const NodeView& n) { return refusal_of(read_onnx(n)); }

Status lower_attention(const NodeView& n, ProgramBuilder& builder) {
  return lower_heads(n, builder, CTXGEN_TRY(accepted(read_onnx(n), n)), kOnnxAttention);
}

Refusal check_multi_head(const NodeView& n) { return refusal_of(read_multi_head(n)); }

Status lower_multi_head(const NodeView& n, ProgramBuilder& builder) {
  return lower_heads(n, builder, CTXGEN_TRY(accepted(read_multi_head(n), n)), kMultiHead);
}

}  // namespace ctxgen::onednn
