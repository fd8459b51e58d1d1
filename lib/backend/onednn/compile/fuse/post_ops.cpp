#include <algorithm>
#include <iterator>
#include <optional>

#include "ctxgen/onednn/kind_traits.h"
#include "ctxgen/onednn/op_kinds.h"

#include "editor.h"
#include "fuse.h"

namespace ctxgen::onednn {

namespace {

// Chains of eight keep oneDNN's fast kernels (docs/onednn.md, "Post-ops").
constexpr std::size_t kMaxPostOps = 8;

/// Whether the operand broadcasts to the result in every run. Which shapes a oneDNN kernel takes
/// after it is the planner's business: what it cannot attach runs in place on the result.
bool broadcasts_to(const std::vector<ProgramDim>& operand, const std::vector<ProgramDim>& result) {
  if (operand.size() > result.size()) return false;
  const std::size_t offset = result.size() - operand.size();
  for (std::size_t i = 0; i < operand.size(); ++i) {
    if (operand[i].value != 1 && !surely_equal(operand[i], result[offset + i])) return false;
  }
  return true;
}

bool commutes(std::string_view alg) {
  return alg == "add" || alg == "mul" || alg == "max" || alg == "min";
}

/// Puts the step at `index` after the op `before`, which moves to the step's place: there all that
/// the step reads is computed, and nothing else reads what moves.
void attach(ProgramEditor& editor, std::uint32_t before, std::uint32_t index, PostOp step) {
  const ProgramOp later = editor.op(index);
  ProgramOp fused = editor.op(before);
  fused.name = later.name;
  fused.outputs = later.outputs;
  fused.post_ops.push_back(std::move(step));
  std::ranges::copy(later.post_ops, std::back_inserter(fused.post_ops));
  editor.erase(before);
  editor.replace(index, std::move(fused));
}

bool has_room(const ProgramOp& op, const ProgramOp& step) {
  return op.post_ops.size() + 1 + step.post_ops.size() <= kMaxPostOps;
}

void attach_eltwise(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp& step = editor.op(index);
  const std::uint32_t before = editor.sole_producer(step.inputs[0]);
  if (before == ProgramEditor::kNoOp || !traits_of(editor.op(before)).absorbs_eltwise) return;
  if (!has_room(editor.op(before), step)) return;
  attach(editor, before, index, post_op_of(step));
}

/// Whether the op that computes input `side` of the binary op can take it as a post-op.
bool fits_behind(const ProgramEditor& editor, const ProgramOp& step, std::size_t side) {
  const std::uint32_t before = editor.sole_producer(step.inputs[side]);
  if (before == ProgramEditor::kNoOp || !traits_of(editor.op(before)).absorbs_binary) return false;
  if (!has_room(editor.op(before), step)) return false;
  if (side == 1 && !commutes(params_of<BinaryParams>(step).alg)) return false;
  const auto result = editor.dims(Operand::value(step.outputs[0]));
  return surely_equal(editor.dims(step.inputs[side]), result) &&
         broadcasts_to(editor.dims(step.inputs[1 - side]), result);
}

void attach_binary(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp& step = editor.op(index);
  std::optional<std::size_t> best;
  // A product gains more than an element-wise op; of two the later one, so that less stays alive.
  const auto rank = [&](std::size_t side) {
    const std::uint32_t before = editor.producer(step.inputs[side]);
    return std::pair(traits_of(editor.op(before)).product, before);
  };
  for (std::size_t side = 0; side < 2; ++side) {
    if (!fits_behind(editor, step, side)) continue;
    if (!best || rank(side) > rank(*best)) best = side;
  }
  if (!best) return;
  attach(editor, editor.producer(step.inputs[*best]), index,
         {.kind = params_of<BinaryParams>(step).alg, .operand = step.inputs[1 - *best]});
}

}  // namespace

void fuse_post_ops(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i) {
    if (editor.op(i).kind == kind::kEltwise) attach_eltwise(editor, i);
    if (editor.op(i).kind == kind::kBinary) attach_binary(editor, i);
  }
}

}  // namespace ctxgen::onednn
