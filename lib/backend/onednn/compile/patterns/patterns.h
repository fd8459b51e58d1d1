#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../node_scope.h"
#include "../node_view.h"
#include "../program_builder.h"
#include "attention_chain.h"

namespace ctxgen::onednn {

/// Several nodes that together are one op, though not each of them could be lowered alone.
struct PatternMatch {
  std::vector<NodeId> nodes;  // ascending; the last one produces the result
  std::string kind;           // op kind
  ValueId src;
  ValueId result;
  std::string alg;  // eltwise: algorithm
  ValueId scale,
      shift;  // layer_norm: constants, may be absent; rms_norm: scale, a constant; byte_matmul, byte_conv: of the source, bias;
              // low_bit_matmul, low_bit_conv: bias
  ValueId factors;  // byte_matmul, byte_conv: scales of the weights
  NodeId anchor;  // byte_matmul, byte_conv, low_bit_matmul, low_bit_conv: the node that multiplies
  std::int64_t axis = -1;                           // layer_norm, rms_norm
  float epsilon = 0.0F;                             // layer_norm, rms_norm
  std::shared_ptr<const AttentionChain> attention;  // attention
};

/// Finds all patterns made of allowed nodes (by place in `scope`), in order of their last node; no
/// node is in two.
///
/// Determinism  depends on the graph and the filter only; a match found in the whole graph is found
///              again in every partition that holds its nodes.
/// `makes`: see AttentionChain::made, which all that read one of them must have.
[[nodiscard]] std::vector<PatternMatch> find_patterns(const GraphView& view, const NodeScope& scope,
                                                      const std::vector<bool>& allowed,
                                                      MakesMasks makes);

/// One finder per family: looks at the node that anchors the pattern.
[[nodiscard]] std::optional<PatternMatch> match_gelu_erf(const GraphView& view, NodeId erf);
[[nodiscard]] std::optional<PatternMatch> match_gelu_tanh(const GraphView& view, NodeId tanh);
[[nodiscard]] std::optional<PatternMatch> match_layer_norm(const GraphView& view, NodeId mean);

[[nodiscard]] std::optional<PatternMatch> match_rms_norm(const GraphView& view, NodeId mean);

[[nodiscard]] std::optional<PatternMatch> match_dynamic_product(const GraphView& view,
                                                                NodeId product);

/// What a match of match_dynamic_product() becomes, as `op`.
[[nodiscard]] Status lower_dynamic_product(const GraphView& view, const PatternMatch& match,
                                           ProgramOp op, ProgramBuilder& builder);

/// A MatMul, Gemm or Conv with what a DequantizeLinear makes of constant integers.
[[nodiscard]] std::optional<PatternMatch> match_low_bit_product(const GraphView& view,
                                                                NodeId product);
/// Whether the only reader of `dequantize` is such a product: folding would widen its weights.
[[nodiscard]] bool keeps_low_bits(const GraphView& view, NodeId dequantize);
/// What a match of match_low_bit_product() becomes, as `op`.
[[nodiscard]] Status lower_low_bit_product(const GraphView& view, const PatternMatch& match,
                                           ProgramOp op, ProgramBuilder& builder);

/// A QuantizeLinear to 16 bits and the DequantizeLinear after it: float32 rounded to steps.
[[nodiscard]] std::optional<PatternMatch> match_wide_steps(const GraphView& view, NodeId quantize);
/// What a match of match_wide_steps() becomes.
[[nodiscard]] Status lower_wide_steps(const GraphView& view, const PatternMatch& match,
                                      ProgramBuilder& builder);

/// An attention with a past, around a Softmax.
[[nodiscard]] std::optional<PatternMatch> match_attention(const GraphView& view, NodeId softmax,
                                                          MakesMasks makes);

[[nodiscard]] Status lower_pattern(const GraphView& view, const PatternMatch& match,
                                   ProgramBuilder& builder);

}  // namespace ctxgen::onednn
