#include <cmath>
#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "../program_builder.h"
#include "editor.h"
#include "fuse.h"

namespace ctxgen::onednn {

namespace {

bool near(double value, double expected) {
  return std::abs(value - expected) <= 1e-5 * std::abs(expected);
}

/// Follows eltwise ops backwards from an operand, through values that nothing else reads.
class Chain {
 public:
  Chain(const ProgramEditor& editor, Operand from) : editor_(&editor), at_(from) {}

  /// Steps over an eltwise op of algorithm `alg`; nothing if there is none.
  std::optional<PostOp> step(std::string_view alg) {
    const std::uint32_t index = editor_->sole_producer(at_);
    if (index == ProgramEditor::kNoOp) return std::nullopt;
    const ProgramOp& op = editor_->op(index);
    if (!is_eltwise(op, alg) || !op.post_ops.empty()) return std::nullopt;
    ops_.push_back(index);
    at_ = op.inputs[0];
    return post_op_of(op);
  }
  [[nodiscard]] Operand at() const { return at_; }
  [[nodiscard]] const std::vector<std::uint32_t>& ops() const { return ops_; }

 private:
  const ProgramEditor* editor_;
  Operand at_;
  std::vector<std::uint32_t> ops_;
};

/// f(x) with f(x) * x = the activation, found after one side of a product.
struct Gate {
  PostOp activation;    // of x
  float factor = 1.0F;  // of its result
  std::vector<std::uint32_t> ops;
};

std::optional<Gate> gate_of(const ProgramEditor& editor, Operand side, Operand x) {
  Chain sigmoid(editor, side);
  if (sigmoid.step("sigmoid")) {
    if (sigmoid.at() == x) return Gate{eltwise_step("swish", 1.0F), 1.0F, sigmoid.ops()};
    const auto linear = sigmoid.step("linear");
    if (linear && linear->beta == 0.0F && sigmoid.at() == x) {
      return Gate{eltwise_step("swish", linear->alpha), 1.0F, sigmoid.ops()};
    }
  }
  Chain hard(editor, side);
  if (const auto step = hard.step("hardsigmoid"); step && hard.at() == x) {
    return Gate{eltwise_step("hardswish", step->alpha, step->beta), 1.0F, hard.ops()};
  }
  Chain mish(editor, side);
  if (mish.step("tanh")) {
    const auto soft = mish.step("soft_relu");
    if (soft && soft->alpha == 1.0F && mish.at() == x) {
      return Gate{eltwise_step("mish"), 1.0F, mish.ops()};
    }
  }
  // x * clip(a * x + b, 0, c) = c * hardswish(x; a / c, b / c)
  Chain clipped(editor, side);
  const auto clip = clipped.step("clip");
  const auto linear = clip ? clipped.step("linear") : std::nullopt;
  // Without an upper bound the factor would be infinite, or the slope lose its digits.
  constexpr float kMostBound = 1e6F;
  if (linear && clip->alpha == 0.0F && clip->beta > 1.0F / kMostBound && clip->beta < kMostBound &&
      clipped.at() == x) {
    const float c = clip->beta;
    return Gate{eltwise_step("hardswish", linear->alpha / c, linear->beta / c), c, clipped.ops()};
  }
  return std::nullopt;
}

void match_product(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp op = editor.op(index);
  if (params_of<BinaryParams>(op).alg != "mul") return;
  for (std::size_t i = 0; i < 2; ++i) {
    const Operand x = op.inputs[i];
    if (x.kind != Operand::Kind::kValue) continue;
    const auto gate = gate_of(editor, op.inputs[1 - i], x);
    if (!gate) continue;
    ProgramOp fused = op;
    fused.kind = kind::kEltwise;
    fused.inputs = {x};
    fused.params.clear();
    set_eltwise(fused, gate->activation.kind, gate->activation.alpha, gate->activation.beta);
    if (gate->factor != 1.0F) {
      fused.post_ops.insert(fused.post_ops.begin(), eltwise_step("linear", gate->factor));
    }
    for (const std::uint32_t erased : gate->ops) editor.erase(erased);
    editor.replace(index, std::move(fused));
    return;
  }
}

/// clip(a * x + b, 0, c) / c = hardsigmoid(x; a / c, b / c)
void match_hardsigmoid(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp op = editor.op(index);
  const PostOp last = post_op_of(op);
  Chain chain(editor, op.inputs[0]);
  const auto clip = chain.step("clip");
  const auto linear = clip ? chain.step("linear") : std::nullopt;
  if (!linear || clip->alpha != 0.0F || !(clip->beta > 0.0F) || last.beta != 0.0F) return;
  if (!near(double{last.alpha} * clip->beta, 1.0)) return;
  ProgramOp fused = op;
  fused.inputs = {chain.at()};
  set_eltwise(fused, "hardsigmoid", linear->alpha / clip->beta, linear->beta / clip->beta);
  for (const std::uint32_t erased : chain.ops()) editor.erase(erased);
  editor.replace(index, std::move(fused));
}

/// A linear step after an op that ends in a linear post-op: hardswish in its divided form.
void absorb_linear(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp op = editor.op(index);
  const std::uint32_t before = editor.sole_producer(op.inputs[0]);
  if (before == ProgramEditor::kNoOp) return;
  ProgramOp merged = editor.op(before);
  if (merged.kind != kind::kEltwise || merged.post_ops.empty()) return;
  PostOp& tail = merged.post_ops.back();
  if (tail.kind != "linear") return;
  const PostOp step = post_op_of(op);
  tail.beta = static_cast<float>(double{tail.beta} * step.alpha + step.beta);
  tail.alpha = static_cast<float>(double{tail.alpha} * step.alpha);
  if (near(tail.alpha, 1.0) && tail.beta == 0.0F) merged.post_ops.pop_back();
  merged.post_ops.insert(merged.post_ops.end(), op.post_ops.begin(), op.post_ops.end());
  merged.name = op.name;
  merged.outputs = op.outputs;
  editor.erase(before);
  editor.replace(index, std::move(merged));
}

}  // namespace

void match_activations(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i) {
    if (editor.op(i).kind == kind::kBinary) match_product(editor, i);
    if (is_eltwise(editor.op(i), "linear")) match_hardsigmoid(editor, i);
    if (is_eltwise(editor.op(i), "linear")) absorb_linear(editor, i);
  }
}

}  // namespace ctxgen::onednn
