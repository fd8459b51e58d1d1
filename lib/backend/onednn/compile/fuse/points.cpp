#include <algorithm>
#include <array>
#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "../node_view.h"
#include "fuse.h"
#include "quantized.h"

// Element-wise work over integers and f16 in one pass: conversions join the ops between them.
namespace ctxgen::onednn {

namespace {

constexpr std::size_t kMostSteps = 16;  // as many as the loops of onednn/exec take

bool has_loop(std::string_view word) {
  constexpr std::array<std::string_view, 14> kWords = {
      "add",  "sub",    "mul", "div",    "max",  "min",       "relu",
      "clip", "linear", "abs", "square", "sqrt", "hardswish", "hardsigmoid"};
  return std::ranges::find(kWords, word) != kWords.end();
}

/// Words whose 256 results can be tabulated for an 8-bit source.
bool has_table(std::string_view word) {
  constexpr std::array<std::string_view, 8> kWords = {"exp",     "log",   "tanh",     "elu",
                                                      "sigmoid", "swish", "gelu_erf", "mish"};
  return std::ranges::find(kWords, word) != kWords.end();
}

/// The binary op as a first step over one of its operands; nothing if none has the result's dims.
std::optional<ProgramOp> binary_as_point(const Program& program, const ProgramOp& op) {
  const std::string alg = params_of<BinaryParams>(op).alg;
  const bool commutes = alg == "add" || alg == "mul" || alg == "max" || alg == "min";
  const ProgramValue& result = program.values[op.outputs[0]];
  for (std::size_t i = 0; i < (commutes ? 2U : 1U); ++i) {
    const Operand src = op.inputs[i];
    if (src.kind != Operand::Kind::kValue || !result.has_rank ||
        !program.values[src.index].has_rank ||
        !surely_equal(program.values[src.index].dims, result.dims))
      continue;
    ProgramOp point = op;
    point.kind = kind::kPoint;
    point.params.clear();
    point.inputs = {src};
    point.post_ops.insert(point.post_ops.begin(), {.kind = alg, .operand = op.inputs[1 - i]});
    return point;
  }
  return std::nullopt;
}

/// Whether onednn/exec has a loop, or a table, for the op.
bool runs(const ProgramEditor& editor, const ProgramOp& point) {
  if (point.post_ops.size() > kMostSteps) return false;
  if (std::ranges::all_of(point.post_ops, [](const PostOp& step) { return has_loop(step.kind); })) {
    return true;
  }
  return is_byte(type_of(editor, point.inputs[0])) && !is_half(result_type(editor, point)) &&
         std::ranges::all_of(point.post_ops, [](const PostOp& step) {
           return step.operand.kind == Operand::Kind::kNone &&
                  (has_loop(step.kind) || has_table(step.kind));
         });
}

/// Both ops in one: first's source and steps, then second's steps and result.
ProgramOp joined(const ProgramOp& first, const ProgramOp& second) {
  ProgramOp made = second;
  made.inputs = first.inputs;
  made.post_ops = first.post_ops;
  std::ranges::copy(second.post_ops, std::back_inserter(made.post_ops));
  const auto from = params_of<PointParams>(first);
  encode(PointParams{.in_scale = from.in_scale, .in_zero = from.in_zero}, made);
  return made;
}

/// Joins the op at `index` with the one that computes its source, where one of them converts.
bool join_source(ProgramEditor& editor, std::uint32_t index) {
  const auto second = as_point(editor.program(), editor.op(index));
  if (!second) return false;
  const Operand src = second->inputs[0];
  const std::uint32_t before = editor.producer(src);
  if (before == ProgramEditor::kNoOp || type_of(editor, src) != DataType::kFloat) return false;
  const ProgramOp& producer = editor.op(before);
  if (producer.kind != kind::kPoint && editor.op(index).kind != kind::kPoint) return false;
  const auto first = as_point(editor.program(), producer);
  if (!first) return false;
  // What others read as well may be done twice if it is a conversion only.
  const bool alone = editor.sole_producer(src) == before;
  if (!alone && !(producer.kind == kind::kPoint && producer.post_ops.empty())) return false;
  ProgramOp made = joined(*first, *second);
  if (!runs(editor, made)) return false;
  if (alone) editor.erase(before);
  editor.replace(index, std::move(made));
  return true;
}

/// Steps read integer operands as they are stored.
void join_operands(ProgramEditor& editor, std::uint32_t index) {
  ProgramOp op = editor.op(index);
  for (PostOp& step : op.post_ops) {
    const ProgramOp* made = dequantize_of(editor, step.operand);
    if (made == nullptr) continue;
    step.alpha = static_cast<float>(steps_in(*made).scale);
    step.beta = static_cast<float>(steps_in(*made).zero);
    step.operand = made->inputs[0];
  }
  editor.replace(index, std::move(op));
}

/// Integers made real and back by the same steps.
bool changes_nothing(const ProgramEditor& editor, const ProgramOp& op) {
  const DataType type = type_of(editor, op.inputs[0]);
  return op.post_ops.empty() && type == result_type(editor, op) &&
         (!is_byte(type) || steps_in(op) == steps_out(op));
}

}  // namespace

std::optional<ProgramOp> as_point(const Program& program, const ProgramOp& op) {
  if (op.kind == kind::kPoint) return op;
  if (op.kind == kind::kBinary) return binary_as_point(program, op);
  if (op.kind != kind::kEltwise) return std::nullopt;
  ProgramOp point = op;
  point.kind = kind::kPoint;
  point.params.clear();
  point.post_ops.insert(point.post_ops.begin(), post_op_of(op));
  return point;
}

void join_points(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i) {
    while (!editor.erased(i) && join_source(editor, i)) {
    }
    if (editor.erased(i) || editor.op(i).kind != kind::kPoint) continue;
    join_operands(editor, i);
    if (!changes_nothing(editor, editor.op(i))) continue;
    ProgramOp identity = editor.op(i);
    identity.kind = kind::kIdentity;
    identity.params.clear();
    editor.replace(i, std::move(identity));
  }
}

}  // namespace ctxgen::onednn
