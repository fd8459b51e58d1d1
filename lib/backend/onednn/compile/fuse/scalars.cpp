#include <cmath>
#include <limits>
#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "../node_view.h"
#include "../program_builder.h"
#include "editor.h"
#include "f32_range.h"
#include "fuse.h"

namespace ctxgen::onednn {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The number of a one-element weight that cannot raise the rank of `other`.
std::optional<float> scalar_beside(const ProgramEditor& editor, Operand weight, Operand other) {
  const Tensor* tensor = editor.weight(weight);
  if (tensor == nullptr || tensor->element_count() != 1) return std::nullopt;
  if (other.kind != Operand::Kind::kValue) return std::nullopt;
  if (tensor->rank() > editor.dims(other).size()) return std::nullopt;
  return floats_of(*tensor)[0];
}

/// x <alg> c, or c <alg> x if `swapped`, as an eltwise step.
std::optional<PostOp> as_eltwise(std::string_view alg, float c, bool swapped) {
  if (alg == "add") return eltwise_step("linear", 1.0F, c);
  if (alg == "mul") return eltwise_step("linear", c);
  if (alg == "sub") {
    return swapped ? eltwise_step("linear", -1.0F, c) : eltwise_step("linear", 1.0F, -c);
  }
  if (alg == "div" && swapped) return eltwise_step("pow", c, -1.0F);
  // 1/c that is 0, infinite or subnormal would lose what the division keeps.
  if (alg == "div" && std::isnormal(1.0F / c)) return eltwise_step("linear", 1.0F / c);
  if (alg == "max" && c == 0.0F) return eltwise_step("relu");
  if (alg == "max") return eltwise_step("clip", c, kInfinity);
  if (alg == "min") return eltwise_step("clip", -kInfinity, c);
  return std::nullopt;
}

void simplify_binary(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp& op = editor.op(index);
  for (const bool swapped : {false, true}) {
    const Operand src = op.inputs[swapped ? 1 : 0], other = op.inputs[swapped ? 0 : 1];
    const auto c = scalar_beside(editor, other, src);
    if (!c || !std::isfinite(*c)) continue;
    const auto step = as_eltwise(params_of<BinaryParams>(op).alg, *c, swapped);
    if (!step) continue;
    ProgramOp eltwise = op;
    eltwise.kind = kind::kEltwise;
    eltwise.inputs = {src};
    eltwise.params.clear();
    set_eltwise(eltwise, step->kind, step->alpha, step->beta);
    editor.replace(index, std::move(eltwise));
    return;
  }
}

/// linear after linear is linear; the later op takes over.
void merge_linear(ProgramEditor& editor, std::uint32_t index) {
  const std::uint32_t before = editor.sole_producer(editor.op(index).inputs[0]);
  if (before == ProgramEditor::kNoOp) return;
  const ProgramOp& first = editor.op(before);
  if (!is_eltwise(first, "linear") || !first.post_ops.empty()) return;
  const PostOp a = post_op_of(first), b = post_op_of(editor.op(index));
  const double factor = double{a.alpha} * b.alpha, sum = double{a.beta} * b.alpha + b.beta;
  if (factor == 0 || !f32_holds_factor(factor) || !f32_holds_addend(sum)) return;
  ProgramOp merged = editor.op(index);
  merged.inputs = first.inputs;
  set_eltwise(merged, "linear", static_cast<float>(factor), static_cast<float>(sum));
  editor.erase(before);
  editor.replace(index, std::move(merged));
}

}  // namespace

void simplify_scalars(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i) {
    if (editor.op(i).kind == kind::kBinary) simplify_binary(editor, i);
    if (is_eltwise(editor.op(i), "linear")) merge_linear(editor, i);
  }
}

}  // namespace ctxgen::onednn
