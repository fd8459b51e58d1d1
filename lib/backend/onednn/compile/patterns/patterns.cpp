#include "patterns.h"

#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"

namespace ctxgen::onednn {

namespace {

std::optional<PatternMatch> match_at(const GraphView& view, NodeId id, MakesMasks makes) {
  const Node& node = view.graph().node(id);
  if (node.op_type == "QuantizeLinear") return match_wide_steps(view, id);
  if (!node.domain.empty()) return std::nullopt;
  if (node.op_type == "Erf") return match_gelu_erf(view, id);
  if (node.op_type == "Tanh") return match_gelu_tanh(view, id);
  if (node.op_type == "Softmax") return match_attention(view, id, makes);
  if (node.op_type == "MatMul" || node.op_type == "Gemm" || node.op_type == "Conv")
    return match_low_bit_product(view, id);
  if (node.op_type == "MatMulInteger" || node.op_type == "ConvInteger")
    return match_dynamic_product(view, id);
  if (node.op_type == "ReduceMean") {
    auto norm = match_layer_norm(view, id);
    return norm ? norm : match_rms_norm(view, id);
  }
  return std::nullopt;
}

}  // namespace

std::optional<PatternMatch> match_attention(const GraphView& view, NodeId softmax,
                                            MakesMasks makes) {
  auto found = find_attention_chain(view, softmax, makes);
  if (!found) return std::nullopt;
  PatternMatch match;
  match.kind = kind::kAttention;
  match.nodes = std::move(found->nodes);
  match.attention = std::make_shared<const AttentionChain>(std::move(found->chain));
  return match;
}

std::vector<PatternMatch> find_patterns(const GraphView& view, const NodeScope& scope,
                                        const std::vector<bool>& allowed, MakesMasks makes) {
  std::vector<bool> free = allowed;
  std::vector<PatternMatch> matches;
  const auto is_usable = [&](const PatternMatch& match) {
    return std::ranges::all_of(match.nodes, [&](NodeId id) { return scope.marked(free, id); });
  };
  for (std::size_t i = 0; i < scope.size(); ++i) {
    if (!free[i]) continue;
    std::optional<PatternMatch> match = match_at(view, scope.at(i), makes);
    // In a partition without the nodes of a mask, it is a value.
    for (MakesMasks fewer = makes;
         match && match->attention && !is_usable(*match) && fewer != MakesMasks::kNone;) {
      fewer = fewer_masks(fewer);
      match = match_at(view, scope.at(i), fewer);
    }
    if (!match || !is_usable(*match)) continue;
    for (const NodeId id : match->nodes) free[scope.place(id)] = false;
    matches.push_back(std::move(*match));
  }
  std::ranges::sort(matches, {}, [](const PatternMatch& match) { return match.nodes.back(); });
  return matches;
}

Status lower_pattern(const GraphView& view, const PatternMatch& match, ProgramBuilder& builder) {
  if (match.alg == "round") return lower_wide_steps(view, match, builder);
  const NodeView last(view, view.graph().node(match.nodes.back()));
  ProgramOp op = builder.op(match.kind, last);
  if (match.kind == kind::kByteMatmul || match.kind == kind::kByteConv)
    return lower_dynamic_product(view, match, std::move(op), builder);
  if (match.attention) return lower_attention_chain(*match.attention, std::move(op), builder);
  if (match.kind == kind::kLowBitMatmul || match.kind == kind::kLowBitConv)
    return lower_low_bit_product(view, match, std::move(op), builder);
  std::vector<Operand> inputs = {builder.operand(match.src)};
  if (match.kind == kind::kLayerNorm || match.kind == kind::kRmsNorm) {
    encode(NormParams{.axis = match.axis, .epsilon = double{match.epsilon}}, op);
    inputs.push_back(builder.operand(match.scale));
    if (match.kind == kind::kLayerNorm) inputs.push_back(builder.operand(match.shift));
  } else {
    set_eltwise(op, match.alg, 0.0F, 0.0F);
  }
  builder.add(std::move(op), inputs, builder.value(match.result));
  return {};
}

}  // namespace ctxgen::onednn
