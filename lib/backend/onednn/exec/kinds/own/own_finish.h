#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/part_finish.h"
#include "plan/builder.h"

namespace ctxgen::onednn {

/// Bias (input 2) and post-ops of a node as an own kernel of sums takes them, and its step.
class OwnFinish {
 public:
  /// `column_axis`: the dim of the node's dst that are columns, its stride is 1; `pitch`: floats from a row of the
  /// result to the next one.
  OwnFinish(NodeBuilder& builder, std::size_t column_axis, std::int64_t pitch);

  /// Takes post-ops up to the first one that a part of the result cannot have.
  /// Errors  UNSUPPORTED if a sum in place is not the first post-op.
  [[nodiscard]] Status take();
  [[nodiscard]] const PartFinish& form() const { return form_; }
  /// The kernel, with the arguments src, `weight`, result, scratch if costs have some, and those of the finish; then the
  /// post-ops that were not taken.
  [[nodiscard]] Status add(std::string implementation, std::shared_ptr<const Kernel> kernel,
                           PackedUse weight, const KernelCosts& costs);

 private:
  [[nodiscard]] bool take_start(const NodePostOp& stage);
  [[nodiscard]] bool take_clamp(const PostOp& post);
  [[nodiscard]] bool take_stage(const NodePostOp& stage);

  NodeBuilder& builder_;
  const Slot& dst_;
  std::size_t column_axis_;
  PartFinish form_;
  std::size_t next_ = 0;  // of the node's post-ops, the first that is not taken
  SlotId start_ = kNone;
  std::vector<SlotId> operands_;
};

}  // namespace ctxgen::onednn
