#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "../node_view.h"
#include "editor.h"
#include "fuse.h"

// GroupNormalization as exporters wrote it before opset 18: a reshape to [N, groups, ...], an
// InstanceNormalization, and a reshape back. The factors and addends of channels that follow are
// fold_affine()'s.
namespace ctxgen::onednn {

namespace {

/// One number for each of `channels` from one for each of fewer.
Result<Tensor> spread_over(const Tensor& given, std::int64_t channels) {
  const std::vector<float> values = floats_of(given);
  const std::int64_t each = channels / std::ssize(values);
  std::vector<float> all;
  for (std::int64_t c = 0; c < channels; ++c)
    all.push_back(values[static_cast<std::size_t>(c / each)]);
  return tensor_of(Dims{channels}, all);
}

/// The norm over the channels of what the first reshape reads, if that is what the three ops do.
Result<std::optional<ProgramOp>> joined(ProgramEditor& editor, const ProgramOp& front,
                                        const ProgramOp& norm, const ProgramOp& back) {
  const Operand src = front.inputs[0];
  const auto dims = editor.dims(src), inner = editor.dims(norm.inputs[0]);
  const bool same = src.kind == Operand::Kind::kValue && dims.size() >= 3 && inner.size() >= 3 &&
                    surely_equal(dims, editor.dims(Operand::value(back.outputs[0]))) &&
                    surely_equal(dims[0], inner[0]);
  if (!same) return std::nullopt;
  const std::int64_t channels = dims[1].value, parts = inner[1].value;
  if (parts < 1 || channels < parts || channels % parts != 0 || channels > kMostSpread)
    return std::nullopt;
  ProgramOp op = norm;
  op.inputs[0] = src;
  op.outputs = back.outputs;
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    if (op.inputs[i].kind == Operand::Kind::kNone) continue;
    const Tensor* given = editor.weight(op.inputs[i]);
    if (given == nullptr) return std::nullopt;
    const std::string name = editor.program().weights[op.inputs[i].index].name;
    Tensor spread = CTXGEN_TRY(spread_over(*given, channels));
    op.inputs[i] = CTXGEN_TRY(editor.add_weight(name, std::move(spread)));
  }
  return op;
}

}  // namespace

Status join_grouped_norms(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i) {
    if (editor.op(i).kind != kind::kReshape) continue;
    const std::uint32_t norm = editor.sole_producer(editor.op(i).inputs[0]);
    if (norm == ProgramEditor::kNoOp || editor.op(norm).kind != kind::kGroupNorm) continue;
    const std::uint32_t front = editor.sole_producer(editor.op(norm).inputs[0]);
    if (front == ProgramEditor::kNoOp || editor.op(front).kind != kind::kReshape) continue;
    std::optional<ProgramOp> op =
        CTXGEN_TRY(joined(editor, editor.op(front), editor.op(norm), editor.op(i)));
    if (!op) continue;
    editor.erase(front);
    editor.erase(norm);
    editor.replace(i, std::move(*op));
  }
  return {};
}

}  // namespace ctxgen::onednn
