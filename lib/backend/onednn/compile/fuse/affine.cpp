#include <algorithm>
#include <cmath>
#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "../node_view.h"
#include "editor.h"
#include "f32_range.h"
#include "fuse.h"

namespace ctxgen::onednn {

namespace {

/// y = x * scale[c] + shift[c]; each list has one element for all channels or one per channel.
struct Affine {
  std::vector<double> scale = {1.0}, shift = {0.0};
  [[nodiscard]] double scale_at(std::size_t c) const { return scale[scale.size() == 1 ? 0 : c]; }
  [[nodiscard]] double shift_at(std::size_t c) const { return shift[shift.size() == 1 ? 0 : c]; }
  [[nodiscard]] bool scales() const {
    return std::ranges::any_of(scale, [](double s) { return s != 1.0; });
  }
};

/// What an affine step is to be folded into: its result's rank, channel axis and channel count.
struct Target {
  std::uint32_t op = ProgramEditor::kNoOp;
  std::size_t rank = 0, axis = 0;
  std::int64_t channels = 0;
};

std::vector<double> doubles_of(const Tensor& tensor) {
  const std::vector<float> floats = floats_of(tensor);
  return {floats.begin(), floats.end()};
}

/// The values of a weight that varies along the channel axis only.
std::optional<std::vector<double>> per_channel(const Tensor& tensor, const Target& target) {
  const Dims& dims = tensor.dims();
  if (dims.size() > target.rank) return std::nullopt;
  const std::size_t offset = target.rank - dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool channel = offset + i == target.axis && dims[i] == target.channels;
    if (dims[i] != 1 && !channel) return std::nullopt;
  }
  return doubles_of(tensor);
}

std::optional<Affine> affine_of_binary(const ProgramEditor& editor, const ProgramOp& op,
                                       Operand src, const Target& target) {
  const bool swapped = op.inputs[1] == src;
  const Tensor* tensor = editor.weight(op.inputs[swapped ? 0 : 1]);
  if (tensor == nullptr) return std::nullopt;
  auto values = per_channel(*tensor, target);
  if (!values) return std::nullopt;
  const std::string alg = params_of<BinaryParams>(op).alg;
  Affine affine;
  if (alg == "add")
    affine.shift = std::move(*values);
  else if (alg == "mul")
    affine.scale = std::move(*values);
  else if (alg == "sub") {
    if (swapped)
      affine.scale = {-1.0};
    else
      std::ranges::transform(*values, values->begin(), std::negate<>());
    affine.shift = std::move(*values);
  } else if (alg == "div" && !swapped) {
    if (std::ranges::any_of(*values, [](double v) { return !std::isnormal(v); })) {
      return std::nullopt;
    }
    std::ranges::transform(*values, values->begin(), [](double v) { return 1.0 / v; });
    affine.scale = std::move(*values);
  } else {
    return std::nullopt;
  }
  return affine;
}

std::optional<Affine> affine_of(const ProgramEditor& editor, const ProgramOp& op, Operand src,
                                const Target& target) {
  if (is_eltwise(op, "linear")) {
    const PostOp step = post_op_of(op);
    return Affine{.scale = {step.alpha}, .shift = {step.beta}};
  }
  if (op.kind == kind::kScaleShift && target.axis == 1) {
    const Tensor* scale = editor.weight(op.inputs[1]);
    const Tensor* shift = editor.weight(op.inputs[2]);
    if (scale->element_count() != target.channels) return std::nullopt;
    return Affine{.scale = doubles_of(*scale), .shift = doubles_of(*shift)};
  }
  if (op.kind == kind::kBinary) return affine_of_binary(editor, op, src, target);
  return std::nullopt;
}

/// Output channels of a matmul: of the constant right side, or of the result if that is known.
std::optional<std::int64_t> matmul_width(const ProgramEditor& editor, const ProgramOp& op) {
  if (const Tensor* b = editor.weight(op.inputs[1])) {
    const Dims& dims = b->dims();
    return params_of<MatmulParams>(op).trans_b ? dims[dims.size() - 2] : dims.back();
  }
  const ProgramDim last = dims_of(editor.program(), Operand::value(op.outputs[0])).back();
  return last.value > 0 && last.value <= kMostSpread ? std::optional(last.value) : std::nullopt;
}

/// Whether scale and shift of a group normalisation are weights; an absent shift is one.
bool has_weights(const ProgramEditor& editor, const ProgramOp& norm) {
  if (norm.inputs.size() < 2 || editor.weight(norm.inputs[1]) == nullptr) return false;
  return norm.inputs.size() < 3 || norm.inputs[2].kind != Operand::Kind::kValue;
}

std::optional<Target> target_of(const ProgramEditor& editor, Operand src) {
  Target target{.op = editor.sole_producer(src)};
  if (target.op == ProgramEditor::kNoOp) return std::nullopt;
  const ProgramOp& op = editor.op(target.op);
  target.rank = editor.dims(src).size();
  if (!op.post_ops.empty() || target.rank < 2) return std::nullopt;
  const bool norm = op.kind == kind::kGroupNorm && has_weights(editor, op);
  if (norm || op.kind == kind::kConv || op.kind == kind::kDeconv || op.kind == kind::kScaleShift) {
    target.axis = 1;
    target.channels = editor.weight(op.inputs[1])->dims()[0];
    return target;
  }
  if (op.kind != kind::kMatmul) return std::nullopt;
  const auto width = matmul_width(editor, op);
  if (!width) return std::nullopt;
  target.axis = target.rank - 1;
  target.channels = *width;
  return target;
}

/// The weight with every channel multiplied: channels are `inner` elements apart. Nothing if f32
/// does not hold the products. One that is lost among larger ones does not matter (channels that
/// training has brought down to nothing have such weights); that all are does.
Result<std::optional<Tensor>> scaled(const Tensor& weight, const Affine& affine,
                                     std::int64_t channels, std::size_t inner) {
  std::vector<float> values = floats_of(weight);
  const auto count = static_cast<std::size_t>(channels);
  double largest = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double product = double{values[i]} * affine.scale_at(i / inner % count);
    if (!f32_holds_addend(product)) return std::nullopt;
    largest = std::max(largest, std::abs(product));
    values[i] = static_cast<float>(product);
  }
  if (!f32_holds_factor(largest)) return std::nullopt;
  return CTXGEN_TRY(tensor_of(weight.dims(), values));
}

/// bias * scale + shift, where an absent bias is 0. Nothing if f32 does not hold it.
Result<std::optional<Tensor>> shifted(const Tensor* bias, const Affine& affine,
                                      std::int64_t channels) {
  if (bias != nullptr && bias->element_count() != channels) return std::nullopt;
  std::vector<float> values(static_cast<std::size_t>(channels), 0.0F);
  if (bias != nullptr) values = floats_of(*bias);
  for (std::size_t c = 0; c < values.size(); ++c) {
    const double sum = double{values[c]} * affine.scale_at(c) + affine.shift_at(c);
    if (!f32_holds_addend(sum)) return std::nullopt;
    values[c] = static_cast<float>(sum);
  }
  return CTXGEN_TRY(tensor_of(Dims{channels}, values));
}

/// How far apart the channels of the target's weight are, in elements.
std::size_t channel_stride(const ProgramOp& op, const Tensor& weight) {
  if (op.kind == kind::kScaleShift || op.kind == kind::kGroupNorm) return 1;
  if (op.kind == kind::kMatmul) {
    return params_of<MatmulParams>(op).trans_b ? static_cast<std::size_t>(weight.dims().back()) : 1;
  }
  return static_cast<std::size_t>(weight.element_count() / weight.dims()[0]);
}

/// The target op with the affine step in its weights; nothing if it cannot take it.
Result<std::optional<ProgramOp>> folded(ProgramEditor& editor, const Target& target,
                                        const Affine& affine) {
  ProgramOp op = editor.op(target.op);
  if (op.inputs.size() < 3) op.inputs.resize(3);
  const Tensor* weight = editor.weight(op.inputs[1]);
  const Tensor* bias = editor.weight(op.inputs[2]);
  if (bias == nullptr && op.inputs[2].kind != Operand::Kind::kNone) return std::nullopt;
  std::optional<Tensor> new_weight, new_bias;
  if (affine.scales()) {
    if (weight == nullptr) return std::nullopt;
    new_weight = CTXGEN_TRY(scaled(*weight, affine, target.channels, channel_stride(op, *weight)));
    if (!new_weight) return std::nullopt;
  }
  const bool needed =
      bias != nullptr || std::ranges::any_of(affine.shift, [](double s) { return s != 0.0; });
  if (needed) {
    new_bias = CTXGEN_TRY(shifted(bias, affine, target.channels));
    if (!new_bias) return std::nullopt;
  }
  const std::string bias_name =
      bias != nullptr ? editor.program().weights[op.inputs[2].index].name : op.name + "/bias";
  if (new_weight) {
    const std::string name = editor.program().weights[op.inputs[1].index].name;
    op.inputs[1] = CTXGEN_TRY(editor.add_weight(name, *std::move(new_weight)));
  }
  if (new_bias)
    op.inputs[2] = CTXGEN_TRY(editor.add_weight(bias_name, *std::move(new_bias)));
  else
    op.inputs.pop_back();
  return op;
}

/// Whether the affine step at `index` went into the op before it, which then takes its place.
Result<bool> fold_into_producer(ProgramEditor& editor, std::uint32_t index) {
  const ProgramOp step = editor.op(index);
  for (std::size_t i = 0; i < step.inputs.size() && i < 2; ++i) {
    const std::optional<Target> target = target_of(editor, step.inputs[i]);
    if (!target) continue;
    const std::optional<Affine> affine = affine_of(editor, step, step.inputs[i], *target);
    if (!affine) continue;
    std::optional<ProgramOp> op = CTXGEN_TRY(folded(editor, *target, *affine));
    if (!op) continue;
    op->name = step.name;
    op->outputs = step.outputs;
    op->post_ops = step.post_ops;
    editor.erase(target->op);
    editor.replace(index, std::move(*op));
    return true;
  }
  return false;
}

}  // namespace

Status fold_affine(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = 0; i < editor.op_count(); ++i) {
    const ProgramOp& op = editor.op(i);
    const bool affine =
        op.kind == kind::kBinary || op.kind == kind::kScaleShift || is_eltwise(op, "linear");
    if (affine) (void)CTXGEN_TRY(fold_into_producer(editor, i));
  }
  return {};
}

}  // namespace ctxgen::onednn
