#pragma once

#include <cstdint>
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
  /// What the op adds to a logit by the distance of the key, [heads, distances].
  std::vector<float> by_distance;
  std::int64_t distances = 0;
  /// Biases and masks that all ops that read them make themselves, of `bias`, `by_distance` and flags. The nodes that make
  /// one are of the chain that reads it first.
  std::vector<ValueId> made;
  AttentionParams params;
  std::vector<NodeId> readers;  // nodes of the chain that read lists of sizes
  std::vector<NodeId> takers;   // nodes of the chain that read numbers or lists made of sizes
  std::vector<NodeId> shapes;   // that read values which nothing computes any more
  std::vector<ValueId> inside;  // those values
  [[nodiscard]] bool has_past() const { return past_key.valid(); }
};

/// What may be in AttentionChain::made: nothing, biases, or masks that are causal, too.
enum class MakesMasks : std::uint8_t { kNone, kBiases, kAll };
/// The next one with less in it.
[[nodiscard]] constexpr MakesMasks fewer_masks(MakesMasks makes) {
  return makes == MakesMasks::kAll ? MakesMasks::kBiases : MakesMasks::kNone;
}

/// The chain around a Softmax.
struct FoundAttention {
  std::vector<NodeId> nodes;  // ascending
  AttentionChain chain;
};
[[nodiscard]] std::optional<FoundAttention> find_attention_chain(const GraphView& view,
                                                                 NodeId softmax, MakesMasks makes);

/// What the chain becomes, as `op`.
[[nodiscard]] Status lower_attention_chain(const AttentionChain& chain, ProgramOp op,
                                           ProgramBuilder& builder);

}  // namespace ctxgen::onednn
