#include <algorithm>

#include "ctxgen/onednn/kind_traits.h"
#include "ctxgen/onednn/op_kinds.h"

#include "fuse.h"
#include "quantized.h"

// Moving data and taking maxima commute with quantisation (it is the same monotone function of every
// element): the conversion goes before them, where it often meets its inverse or a product.
namespace ctxgen::onednn {

namespace {

bool is_maximum(const ProgramOp& op) {
  return traits_of(op).pools && params_of<GlobalPoolParams>(op).mode == "max";  // as PoolParams has
}

/// Exchanges a mover of one input with the conversion that alone reads it.
void exchange(ProgramEditor& editor, std::uint32_t mover_at, std::uint32_t quantize_at) {
  ProgramOp mover = editor.op(mover_at), quantize = editor.op(quantize_at);
  const std::uint32_t between = mover.outputs[0];
  editor.erase(quantize_at);
  editor.erase(mover_at);
  editor.set_value(between, result_type(editor, quantize), editor.dims(mover.inputs[0]));
  quantize.inputs = {mover.inputs[0]};
  mover.outputs = quantize.outputs;
  mover.inputs = {Operand::value(between)};
  quantize.outputs = {between};
  editor.replace(mover_at, std::move(quantize));
  editor.replace(quantize_at, std::move(mover));
}

/// Whether each input of a concatenation can be made of the type and steps wanted where it stands:
/// its conversion to real numbers is read by nothing else, or has these steps already.
bool inputs_convert(const ProgramEditor& editor, const ProgramOp& concat, DataType type,
                    const Steps& steps) {
  return std::ranges::all_of(concat.inputs, [&](const Operand& input) {
    const ProgramOp* made = dequantize_of(editor, input);
    if (made == nullptr) return false;
    const bool same = type_of(editor, made->inputs[0]) == type && steps_in(*made) == steps;
    return same || editor.sole_producer(input) != ProgramEditor::kNoOp;
  });
}

void quantize_inputs(ProgramEditor& editor, std::uint32_t concat_at, std::uint32_t quantize_at) {
  ProgramOp concat = editor.op(concat_at);
  const ProgramOp quantize = editor.op(quantize_at);
  const DataType type = result_type(editor, quantize);
  const Steps steps = steps_out(quantize);
  if (!concat.post_ops.empty() || !inputs_convert(editor, concat, type, steps)) return;
  for (Operand& input : concat.inputs) {
    const std::uint32_t made_at = editor.producer(input);
    ProgramOp made = editor.op(made_at);
    if (type_of(editor, made.inputs[0]) == type && steps_in(made) == steps) {
      input = made.inputs[0];
      continue;
    }
    encode(PointParams{.out_scale = steps.scale, .out_zero = steps.zero}, made);
    editor.set_value(input.index, type, editor.dims(input));
    editor.replace(made_at, std::move(made));
  }
  concat.outputs = quantize.outputs;
  editor.erase(concat_at);
  editor.replace(quantize_at, std::move(concat));
}

}  // namespace

void move_quantize_up(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = editor.op_count(); i-- > 0;) {
    if (editor.erased(i) || !is_quantize(editor, editor.op(i))) continue;
    const std::uint32_t before = editor.sole_producer(editor.op(i).inputs[0]);
    if (before == ProgramEditor::kNoOp) continue;
    const ProgramOp& mover = editor.op(before);
    if (!mover.post_ops.empty() || mover.inputs[0].kind != Operand::Kind::kValue) continue;
    // Quantising what a slice throws away pays only where it costs nothing.
    const bool slices = mover.kind == kind::kSlice && dequantize_of(editor, mover.inputs[0]);
    // Further inputs only lend their sizes; they stay with the mover as it is.
    const bool single = mover.inputs.size() == 1 || traits_of(mover).concatenates;
    if (!single) continue;
    if (traits_of(mover).rearranges || is_maximum(mover) || slices)
      exchange(editor, before, i);
    else if (traits_of(mover).concatenates)
      quantize_inputs(editor, before, i);
  }
}

}  // namespace ctxgen::onednn
