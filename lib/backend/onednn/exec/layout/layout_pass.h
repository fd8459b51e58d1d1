#pragma once

#include <span>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/program.h"

#include "plan/plan.h"

namespace ctxgen::onednn {

/// A post-op with its operand found in memory.
struct NodePostOp {
  const PostOp* post = nullptr;
  SlotId operand = kNone;
  bool in_place_sum = false;  // the operand's buffer is the destination itself
};

/// An op, or a copy between layouts (program_op null), over slots.
struct Node {
  std::uint32_t op = kNone;  // for copies the op that wanted it, for names
  const ProgramOp* program_op = nullptr;
  std::vector<SlotId> inputs;  // kNone: absent, or a packed weight
  std::vector<SlotId> outputs;
  std::vector<NodePostOp> post_ops;
  std::uint32_t packed_weight = kNone;
};

/// The program with every value placed in slots of a layout and the copies that this needs.
struct NodeGraph {
  std::vector<Slot> slots;
  std::vector<Buffer> buffers;
  std::vector<Node> nodes;
};

struct LayoutOptions {
  bool in_place_sums = true;
  bool strided_products = true;  // matmuls read transposed values in place
};

/// Chooses a layout for each value by fixed rules (see layout.h), turns reshapes into views where
/// bytes allow, lets concatenations grow in place, and puts outputs into the user's memory.
///
/// Requires  value_dims = infer_value_dims(program, ...).
/// Errors    UNSUPPORTED naming the op (a weight where a value is needed, other types than f32).
[[nodiscard]] Result<NodeGraph> choose_layouts(const Program& program,
                                               std::span<const Dims> value_dims,
                                               const LayoutOptions& options);

}  // namespace ctxgen::onednn
