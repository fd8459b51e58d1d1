#include <algorithm>
#include <cmath>
#include <numbers>

#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels.h"
#include "kinds/kind_rows.h"
#include "plan/builder.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// "point": element-wise work over quantised, f16 and bf16 tensors.
namespace ctxgen::onednn {

namespace {

/// One value of an element-wise word, in double precision; nothing for words without one here.
std::optional<double> evaluate(const PostOp& step, double x) {
  const double a = step.alpha, b = step.beta;
  const std::string_view word = step.kind;
  const auto clamp01 = [](double v) { return std::min(std::max(v, 0.0), 1.0); };
  const auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
  if (word == "relu") return x < 0 ? a * x : x;
  if (word == "clip") return std::min(std::max(x, a), b);
  if (word == "linear") return a * x + b;
  if (word == "abs") return std::fabs(x);
  if (word == "square") return x * x;
  if (word == "sqrt") return std::sqrt(x);
  if (word == "exp") return std::exp(x);
  if (word == "log") return std::log(x);
  if (word == "tanh") return std::tanh(x);
  if (word == "elu") return x < 0 ? a * std::expm1(x) : x;
  if (word == "sigmoid") return sigmoid(x);
  if (word == "swish") return x * sigmoid(a * x);
  if (word == "hardswish") return x * clamp01(a * x + b);
  if (word == "hardsigmoid") return clamp01(a * x + b);
  if (word == "gelu_erf") return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
  if (word == "mish") return x * std::tanh(std::log1p(std::exp(x)));
  return std::nullopt;
}

/// The quantisation of a tensor. Integers need a scale that is a positive number.
Result<Stored> stored_of(const NodeBuilder& builder, DataType type, std::string_view which,
                         double scale, double zero) {
  Stored stored{type, static_cast<float>(scale), static_cast<float>(zero)};
  if (type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16)
    return stored;
  if (!(stored.scale > 0) || !std::isfinite(stored.scale) || !(std::fabs(zero) <= 255))
    return fail(ErrorCode::kCorruptContext, "{}: {} scale {} and zero point {}",
                label(builder.op()), which, scale, zero);
  return stored;
}

/// All 256 results where the words are more than the loops can do, or need an exponential each.
Result<bool> add_table(NodeBuilder& builder, const Stored& from, const Stored& to) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  if (!is_byte(src.type) || src.strides != dst.strides || element_bytes(to.type) == 2) return false;
  std::vector<std::byte> table(256 * element_bytes(dst.type));
  for (std::size_t i = 0; i < 256; ++i) {
    const int code =
        src.type == DataType::kInt8 && i > 127 ? static_cast<int>(i) - 256 : static_cast<int>(i);
    // Rounded to f32 after each step, as the model's own f32 values are.
    float x = (static_cast<float>(code) - from.zero) * from.scale;
    for (const NodePostOp& stage : builder.node().post_ops) {
      const auto y = evaluate(*stage.post, double{x});
      if (!y || stage.operand != kNone) return false;
      x = static_cast<float>(*y);
    }
    store_row(to, 1, &x, table.data() + i * element_bytes(dst.type));
  }
  builder.add_kernel("loop:table",
                     make_table_kernel(volume(dst.dims), element_bytes(dst.type), table),
                     {builder.slot_arg(src), builder.slot_arg(dst)});
  return true;
}

/// Whether elements are where those of `slot` are.
bool walks_like(const Dims& strides, const Slot& slot) {
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (slot.dims[i] != 1 && strides[i] != slot.strides[i]) return false;
  return true;
}

Status check_point_types(const Program& program, const ProgramOp& op) {
  CTXGEN_CHECK(expect_type(program, op, op.inputs[0],
                           {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16,
                            DataType::kUint8, DataType::kInt8, DataType::kInt32}));
  return expect_type(program, op, Operand::value(op.outputs[0]), kStoredTypes);
}

Status build_point(NodeBuilder& builder) {
  constexpr std::size_t kMostStages = 16;
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const auto params = CTXGEN_TRY(decode<PointParams>(builder.op()));
  const Stored from = CTXGEN_TRY(stored_of(builder, src.type, "input", params.in_scale.value_or(1),
                                           static_cast<double>(params.in_zero.value_or(0))));
  const Stored to = CTXGEN_TRY(stored_of(builder, dst.type, "output", params.out_scale.value_or(1),
                                         static_cast<double>(params.out_zero.value_or(0))));
  std::vector<PointStage> stages;
  std::vector<Stored> operands;
  std::vector<Arg> args{builder.slot_arg(src), builder.slot_arg(dst)};
  for (const NodePostOp& stage : builder.node().post_ops) {
    const auto point = point_op(stage.post->kind, stage.operand != kNone);
    const bool looped = point && stages.size() < kMostStages;
    if ((!looped || needs_exponential(*point)) && CTXGEN_TRY(add_table(builder, from, to)))
      return {};
    if (!looped)
      return fail(ErrorCode::kUnsupported, "{}: no loop for step \"{}\"", label(builder.op()),
                  stage.post->kind);
    PointStage added{*point, stage.post->alpha, stage.post->beta, {}};
    if (takes_operand(*point)) {
      if (stage.operand == kNone)
        return fail(ErrorCode::kCorruptContext, "{}: step \"{}\" has no operand",
                    label(builder.op()), stage.post->kind);
      const Slot& operand = builder.slot(stage.operand);
      operands.push_back(CTXGEN_TRY(
          stored_of(builder, operand.type, "operand", stage.post->alpha, stage.post->beta)));
      added.strides = broadcast_strides(operand, dst.dims);
      args.push_back(builder.slot_arg(operand));
    }
    stages.push_back(added);
  }
  const bool alike = walks_like(broadcast_strides(src, dst.dims), dst) &&
                     std::ranges::all_of(stages, [&](const PointStage& stage) {
                       return !takes_operand(stage.op) || walks_like(stage.strides, dst);
                     });
  if (auto sum =
          alike ? make_byte_sum_kernel(volume(dst.dims), stages, from, to, operands) : nullptr) {
    builder.add_kernel("loop:byte_sum", std::move(sum), std::move(args));
    return {};
  }
  builder.add_kernel("loop:typed",
                     make_typed_kernel(dst.dims, broadcast_strides(src, dst.dims), dst.strides,
                                       std::move(stages), from, to, std::move(operands)),
                     std::move(args));
  return {};
}

}  // namespace

constinit const KindRow kPointRow{
    .name = kind::kPoint,
    .number = 20,
    .inputs = {1, 1},
    .traits = {.keeps_dims = true, .exact = true, .typed_operands = true},
    .types = check_point_types,
    .shape = same_shape,
    .place = place_walking,
    .build = build_point,
};

}  // namespace ctxgen::onednn
