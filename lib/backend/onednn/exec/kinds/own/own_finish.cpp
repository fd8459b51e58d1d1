#include "kinds/own/own_finish.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/params.h"

namespace ctxgen::onednn {

namespace {

/// Distances between neighbours in an operand, over rows and columns of a result.
struct Distances {
  std::int64_t row = 0, column = 0;
};

/// Nothing where rows are not equally far apart.
std::optional<Distances> distances(const Slot& operand, const Slot& dst, std::size_t column_axis) {
  if (operand.type != DataType::kFloat) return std::nullopt;
  const Dims strides = broadcast_strides(operand, dst.dims);
  Distances found{0, strides[column_axis]};
  std::int64_t rows = 1;  // of the dims so far
  for (std::size_t i = dst.dims.size(); i-- > 0;) {
    if (i == column_axis || dst.dims[i] == 1) continue;
    if (rows == 1) found.row = strides[i];
    if (strides[i] != found.row * rows) return std::nullopt;
    rows *= dst.dims[i];
  }
  return found;
}

}  // namespace

OwnFinish::OwnFinish(NodeBuilder& builder, std::size_t column_axis, std::int64_t pitch)
    : builder_(builder), dst_(builder.output()), column_axis_(column_axis) {
  form_.pitch = pitch;
  form_.has_bias = builder.has_input(2);
}

Status OwnFinish::take() {
  const std::span<const NodePostOp> all = builder_.node().post_ops;
  if (next_ < all.size() && take_start(all[next_])) ++next_;
  // The sums are written over what such a sum adds.
  const auto sums = [](const NodePostOp& stage) { return stage.in_place_sum; };
  if (std::ranges::any_of(all.subspan(next_), sums))
    return fail(ErrorCode::kUnsupported, "{}: a sum in place after others", label(builder_.op()));
  if (next_ < all.size() && take_clamp(*all[next_].post)) ++next_;
  const bool apart = builder_.way().steps == KernelWay::Steps::kApart;
  const auto runs_apart = [&](const NodePostOp& stage) {
    return apart && needs_exponential(stage.post->kind, stage.operand != kNone);
  };
  while (next_ < all.size() && form_.stages.size() < kMostPartStages && !runs_apart(all[next_]) &&
         take_stage(all[next_]))
    ++next_;
  return {};
}

Status OwnFinish::add(std::string implementation, std::shared_ptr<const Kernel> kernel,
                      PackedUse weight, const KernelCosts& costs) {
  std::vector<Arg> args{builder_.slot_arg(builder_.input(0)),
                        builder_.packed_arg(0, std::move(weight)), builder_.slot_arg(dst_)};
  if (costs.scratch_bytes > 0) args.push_back(scratch_arg());
  if (form_.has_bias) args.push_back(builder_.slot_arg(builder_.input(2)));
  if (form_.has_start) args.push_back(builder_.slot_arg(builder_.slot(start_)));
  for (const SlotId operand : operands_) args.push_back(builder_.slot_arg(builder_.slot(operand)));
  builder_.add_kernel(std::move(implementation), std::move(kernel), std::move(args), costs);
  return builder_.add_chain(dst_, dst_, std::span(builder_.node().post_ops).subspan(next_));
}

bool OwnFinish::take_start(const NodePostOp& stage) {
  if (stage.post->kind != "add" || stage.operand == kNone) return false;
  const auto apart = distances(builder_.slot(stage.operand), dst_, column_axis_);
  if (!apart || apart->column != 1) return false;
  const bool one_row = volume(dst_.dims) == form_.pitch;
  if (!one_row && apart->row < form_.pitch) return false;
  form_.has_start = true;
  form_.start_pitch = one_row ? form_.pitch : apart->row;
  start_ = stage.operand;
  return true;
}

bool OwnFinish::take_clamp(const PostOp& post) {
  if (post.kind == "relu" && post.alpha == 0.0F) {
    form_.low = 0;
  } else if (post.kind == "clip" && post.alpha <= post.beta) {
    form_.low = post.alpha;
    form_.high = post.beta;
  } else {
    return false;
  }
  return true;
}

bool OwnFinish::take_stage(const NodePostOp& stage) {
  const auto point = point_op(stage.post->kind, stage.operand != kNone);
  if (!point) return false;
  PartStage added{*point, stage.post->alpha, stage.post->beta, 0, 0};
  if (takes_operand(*point)) {
    if (stage.operand == kNone) return false;  // add_chain() says what is wrong
    const auto apart = distances(builder_.slot(stage.operand), dst_, column_axis_);
    if (!apart) return false;
    added.row_stride = apart->row;
    added.column_stride = apart->column;
    operands_.push_back(stage.operand);
  }
  form_.stages.push_back(added);
  return true;
}

}  // namespace ctxgen::onednn
