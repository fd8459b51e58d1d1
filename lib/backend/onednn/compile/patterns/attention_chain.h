#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ctxgen/onednn/kind_params.h"

#include "../node_view.h"
#include "../program_builder.h"

namespace ctxgen::onednn {

/// Attention as exporters write it node by node: keys and values grow by Concat or are of any length, heads
/// of queries share keys by Expand and Reshape, MatMul, a scale, a mask, Softmax, MatMul.
struct AttentionChain {
  ValueId q, key, value;                                     // [batch, heads, rows, size]
  ValueId past_key, past_value, present_key, present_value;  // all of them, or none
  ValueId bias, result;                                      // bias: may be absent
  /// What the op adds to a logit by the distance of the key, [heads, distances]: part of `made_bias`.
  std::vector<float> by_distance;
  std::int64_t distances = 0;
  /// A bias that all ops that read it make themselves, of `bias` and `by_distance`; may be absent. The nodes that make it
  /// are of the chain that reads it first.
  ValueId made_bias;
  AttentionParams params;
  std::vector<NodeId> readers;  // nodes of the chain that read lists of sizes
  std::vector<NodeId> takers;   // nodes of the chain that read numbers or lists made of sizes
  std::vector<NodeId> shapes;   // that read values which nothing computes any more
  std::vector<ValueId> inside;  // those values
  [[nodiscard]] bool has_past() const { return past_key.valid(); }
};

/// The chain around a Softmax. `makes_biases`: whether a bias may be a `made_bias`.
struct FoundAttention {
  std::vector<NodeId> nodes;  // ascending
  AttentionChain chain;
};
[[nodiscard]] std::optional<FoundAttention> find_attention_chain(const GraphView& view,
                                                                 NodeId softmax, bool makes_biases);

/// What the chain becomes, as `op`.
[[nodiscard]] Status lower_attention_chain(const AttentionChain& chain, ProgramOp op,
                                           ProgramBuilder& builder);

}  // namespace ctxgen::onednn
