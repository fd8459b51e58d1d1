#include "ctxgen/onednn/op_kinds.h"

#include "editor.h"
#include "fuse.h"

namespace ctxgen::onednn {

namespace {

void drop(ProgramEditor& editor, std::uint32_t index) {
  const Operand source = editor.op(index).inputs[0];
  const std::uint32_t result = editor.op(index).outputs[0];
  if (!editor.is_output(result)) {
    editor.erase(index);
    editor.redirect(result, source);
    return;
  }
  // The result leaves the program: its source takes the result's place, if it stays inside.
  const std::uint32_t producer = editor.producer(source);
  if (producer == ProgramEditor::kNoOp || editor.is_output(source.index)) return;
  ProgramOp changed = editor.op(producer);
  for (std::uint32_t& output : changed.outputs) {
    if (output == source.index) output = result;
  }
  editor.erase(index);
  editor.redirect(source.index, Operand::value(result));
  editor.replace(producer, std::move(changed));
}

}  // namespace

void drop_identities(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i) {
    const ProgramOp& op = editor.op(i);
    if (op.kind == kind::kIdentity && op.inputs[0].kind == Operand::Kind::kValue) drop(editor, i);
  }
}

}  // namespace ctxgen::onednn
