#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "ctxgen/base/half.h"
#include "ctxgen/onednn/op_kinds.h"

#include "fuse.h"
#include "narrow.h"

// Constant f32 operands of products, convolutions and lookups become bf16 or f16, where the user asked for
// it (dnnl:weights) or the model has them so. Kernels widen them, which is exact.
namespace ctxgen::onednn {

namespace {

/// Of the root of the mean squared difference over that of the elements: more is not rounding but
/// a range that the type does not have.
double most_error(DataType type) { return type == DataType::kBfloat16 ? 0x1p-8 : 0x1p-11; }

std::uint16_t narrowed(float x, DataType type) {
  return type == DataType::kBfloat16 ? float_to_bfloat16(x) : float_to_float16(x);
}
float widened(std::uint16_t bits, DataType type) {
  return type == DataType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

/// Nothing where the type does not hold the values.
Result<std::optional<Tensor>> narrow_tensor(const Tensor& tensor, DataType type) {
  Tensor made = CTXGEN_TRY(Tensor::allocate(type, tensor.dims()));
  const std::span<const std::byte> from = tensor.bytes();
  const std::span<std::byte> to = made.mutable_bytes();
  double squares = 0, differences = 0;
  for (std::size_t i = 0; i * sizeof(float) < from.size(); ++i) {
    float x = 0;
    std::memcpy(&x, from.data() + i * sizeof x, sizeof x);
    const std::uint16_t bits = narrowed(x, type);
    std::memcpy(to.data() + i * sizeof bits, &bits, sizeof bits);
    const float stored = widened(bits, type);
    if (!std::isfinite(stored)) return std::optional<Tensor>();
    const double apart = double{x} - double{stored};
    squares += double{x} * double{x};
    differences += apart * apart;
  }
  if (differences > squares * most_error(type) * most_error(type)) return std::optional<Tensor>();
  return std::optional(std::move(made));
}

}  // namespace

std::optional<std::size_t> narrow_operand(const Lowered& lowered, const ProgramOp& op) {
  const auto constant = [&](std::size_t i) -> const Tensor* {
    if (i >= op.inputs.size() || op.inputs[i].kind != Operand::Kind::kWeight) return nullptr;
    const Tensor& tensor = lowered.weights[op.inputs[i].index];
    return tensor.type() == DataType::kFloat ? &tensor : nullptr;
  };
  if (op.kind == kind::kLookup && constant(0) != nullptr) return 0;
  const Tensor* weight = constant(1);
  if (weight == nullptr || op.inputs[0].kind != Operand::Kind::kValue) return std::nullopt;
  const Dims& dims = weight->dims();
  if (op.kind == kind::kMatmul && dims.size() == 2 && !params_of<MatmulParams>(op).trans_a)
    return 1;
  // What panels hold; other convolutions have few weights, or kernels that read f32 alone.
  constexpr std::int64_t kLeastResults = 8, kLeastOfGroup = 16;
  if (op.kind != kind::kConv || dims.size() < 3 || dims.size() > 4) return std::nullopt;
  const std::int64_t group = params_of<ConvParams>(op).group;
  const bool panels = group == 1 ? dims[0] >= kLeastResults
                                 : dims[0] / group >= kLeastOfGroup && dims[1] >= kLeastOfGroup;
  return panels ? std::optional<std::size_t>(1) : std::nullopt;
}

Result<Operand> WeightNarrower::narrow(Operand weight, DataType type) {
  const auto [found, added] = made_.try_emplace({weight.index, type}, weight);
  if (!added) return found->second;
  auto tensor = CTXGEN_TRY(narrow_tensor(lowered_->weights[weight.index], type));
  if (!tensor) return weight;
  Tensor kept = CTXGEN_TRY(keep_in(lowered_->spill, *std::move(tensor)));
  const auto index = static_cast<std::uint32_t>(lowered_->weights.size());
  lowered_->program.weights.push_back({.name = lowered_->program.weights[weight.index].name,
                                       .type = type,
                                       .dims = kept.dims(),
                                       .packed = {}});
  lowered_->weights.push_back(std::move(kept));
  return found->second = Operand::weight(index);
}

Status narrow_weights(Lowered& lowered) {
  const auto wants = [](const DnnlOptions& o) { return o.narrow_weights.has_value(); };
  if (!lowered.narrow_kernels || (!any_options(lowered, wants) && lowered.source_types.empty()))
    return {};
  WeightNarrower narrower(lowered);
  for (ProgramOp& op : lowered.program.ops) {
    const auto place = narrow_operand(lowered, op);
    if (!place) continue;
    const auto source = lowered.source_types.find(op.inputs[*place].index);
    const auto type = source != lowered.source_types.end() ? source->second
                                                           : options_of(lowered, op).narrow_weights;
    if (type) op.inputs[*place] = CTXGEN_TRY(narrower.narrow(op.inputs[*place], *type));
  }
  return {};
}

}  // namespace ctxgen::onednn
