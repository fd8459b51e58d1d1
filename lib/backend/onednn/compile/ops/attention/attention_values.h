#pragma once

#include <array>
#include <initializer_list>

#include "ctxgen/onednn/kind_params.h"

#include "../../op_row.h"

// What the spellings of attention share.
namespace ctxgen::onednn {

/// Inputs of kind::kAttention by their places; absent where nothing is put there.
using AttentionInputs = std::array<Operand, 9>;
enum AttentionPlace : std::size_t {
  kAtQ,
  kAtK,
  kAtV,
  kAtPastKey,
  kAtPastValue,
  kAtLengths,
  kAtBias,
  kAtCos,
  kAtSin
};

/// Whether input `i` is a float tensor of one of the ranks; a value's dims may be 0.
[[nodiscard]] Refusal require_ranked(const NodeView& n, std::size_t i, std::string_view what,
                                     std::initializer_list<std::size_t> ranks);
/// Whether outputs 1 and 2, where the node has them, are tensors of rank 4, of floats or of a type of integers.
[[nodiscard]] Refusal require_present(const NodeView& n, DataType integers = DataType::kUndefined);
/// What a mask of ones and zeros, int32 [batch, keys], adds to the logits of keys that it hides: the node's
/// mask_filter_value.
[[nodiscard]] Read<double> read_key_mask(const NodeView& n, std::size_t i);
/// Whether a dim of the value is known to be 0: it holds nothing.
[[nodiscard]] bool is_empty(const NodeView& n, std::size_t i);

/// The op without the inputs after the last one that is there, and with outputs 0 to 2, or output 0 alone
/// where `present` is false; with output 3 where the op has the parameter `logits`. `sized`: inputs that are
/// there for their dims. `cache`: the type of presents.
void add_attention(const NodeView& n, ProgramBuilder& builder, ProgramOp op,
                   const AttentionInputs& inputs, bool present, std::span<const Operand> sized = {},
                   DataType cache = DataType::kFloat);

}  // namespace ctxgen::onednn
