// com.microsoft Attention: it projects its input to queries, keys and values itself.
#include <format>

#include "ctxgen/onednn/op_kinds.h"

#include "../ops.h"
#include "attention_values.h"

namespace ctxgen::onednn {

namespace {

enum Input : std::size_t { kSource, kWeights, kRowBias, kMask, kPast, kBias, kPastLength };

/// One matrix for queries, keys and values of the same size, and what is added to its rows.
Refusal check_projection(const NodeView& n, std::int64_t heads) {
  const Tensor* weights = n.constant(kWeights);
  if (weights == nullptr) return "weights are not constant";
  if (!is_real(weights->type()) || weights->rank() != 2)
    return std::format("weights are {} {}", name_of(weights->type()), to_string(weights->dims()));
  const std::int64_t columns = weights->dims()[1];
  if (columns % (3 * heads) != 0) return std::format("{} columns for {} heads", columns, heads);
  if (const auto sizes = n.node().ints("qkv_hidden_sizes"))
    for (const std::int64_t size : *sizes)
      if (size != columns / 3) return std::format("qkv_hidden_sizes has {}", size);
  if (!n.has_input(kRowBias)) return std::nullopt;
  const Tensor* bias = n.constant(kRowBias);
  if (bias == nullptr) return "bias is not constant";
  if (!is_real(bias->type()) || bias->dims() != Dims{columns})
    return std::format("bias is {} {}", name_of(bias->type()), to_string(bias->dims()));
  return std::nullopt;
}

/// One that ONNX Runtime's fusions leave for all keys, [batch, 1], hides nothing, whatever it holds.
Refusal check_key_mask(const NodeView& n) {
  const std::vector<Dim> mask = n.input_dims(kMask), source = n.input_dims(kSource);
  const bool dummy = mask[1] == Dim::fixed(1) && source[1] != Dim::fixed(1);
  return dummy ? Refusal("mask_index of one key") : std::nullopt;
}

Read<AttentionParams> read_projected(const NodeView& n) {
  CTXGEN_REFUSE(require_f32(n, {kSource}));
  CTXGEN_REFUSE(require_ranked(n, kSource, "input", {3}));
  if (n.constant(kSource) != nullptr) return refuse("input is constant");
  const Node& node = n.node();
  AttentionParams params;
  constexpr std::int64_t kMostHeads = 1 << 20;
  params.heads = params.kv_heads = node.int_or("num_heads", 0);
  if (params.heads < 1 || params.heads > kMostHeads) return refuse("{} heads", params.heads);
  CTXGEN_REFUSE(check_projection(n, params.heads));
  for (const char* name : {"do_rotary", "past_present_share_buffer"})
    if (node.int_or(name, 0) != 0) return refuse("attribute {}", name);
  if (n.has_input(kPast) || n.has_input(kPastLength)) return refuse("past is used");
  if (n.output_wanted(1)) return refuse("present is used");
  params.scale = double{node.float_or("scale", 0.0F)};
  params.causal = node.int_or("unidirectional", 0) != 0;
  if (n.has_input(kBias)) CTXGEN_REFUSE(require_ranked(n, kBias, "attention_bias", {4}));
  if (n.has_input(kMask)) {
    if (n.has_input(kBias)) return refuse("mask_index with attention_bias");
    params.mask_value = CTXGEN_TRY(read_key_mask(n, kMask));
    CTXGEN_REFUSE(check_key_mask(n));
  }
  return params;
}

}  // namespace

Refusal check_projected_attention(const NodeView& n) { return refusal_of(read_projected(n)); }

Status lower_projected_attention(const NodeView& n, ProgramBuilder& builder) {
  const AttentionParams params = CTXGEN_TRY(accepted(read_projected(n), n));
  const Operand source = builder.operand(n.input(kSource));
  std::vector<ProgramDim> dims = builder.at(source.index).dims;
  dims.back() = {.value = n.constant(kWeights)->dims()[1]};
  const std::uint32_t rows = builder.temporary(n.output_value(0).name + "/rows", std::move(dims));
  ProgramOp product = builder.op(kind::kMatmul, n);
  encode(MatmulParams{}, product);
  std::vector<Operand> factors{source, builder.operand(n.input(kWeights))};
  if (n.has_input(kRowBias)) factors.push_back(builder.operand(n.input(kRowBias)));
  builder.add(std::move(product), SmallList<Operand>(factors.begin(), factors.end()), rows);
  ProgramOp op = builder.op(kind::kAttention, n);
  encode(params, op);
  AttentionInputs inputs;
  inputs[kAtQ] = Operand::value(rows);
  for (const std::size_t i : {kMask, kBias})
    if (n.has_input(i)) inputs[kAtBias] = builder.operand(n.input(i));
  add_attention(n, builder, std::move(op), inputs, false);
  return {};
}

}  // namespace ctxgen::onednn
