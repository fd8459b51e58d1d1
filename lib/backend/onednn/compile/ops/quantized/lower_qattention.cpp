#include <cmath>

#include "ctxgen/onednn/op_kinds.h"

#include "../../op_row.h"
#include "../attention/attention_values.h"
#include "../ops.h"
#include "byte_weights.h"

// com.microsoft: QAttention, as ONNX Runtime's quantize_dynamic writes what was a fused Attention: one
// product of bytes makes the rows of queries, keys and values, which attention takes as they are.
namespace ctxgen::onednn {

namespace {

enum Input : std::size_t {
  kSource,
  kWeights,
  kRowBias,
  kSourceScale,
  kWeightScale,
  kMask,
  kSourceZero,
  kWeightZero,
  kPast
};

struct QAttention {
  ByteWeights weights;
  AttentionParams params;
  double mask_value = 0;
};

/// Ones for the keys that a sequence has, int32 [batch, keys]. One of [batch, 1] or [1, 1] hides nothing in
/// ONNX Runtime: added to all logits of a row, it changes no result here.
Refusal check_key_mask(const NodeView& n) {
  if (!n.has_input(kMask)) return std::nullopt;
  CTXGEN_REFUSE(require_value(n, kMask, {DataType::kInt32}));
  if (n.rank(kMask) != 2) return std::format("mask_index has rank {}, expected 2", n.rank(kMask));
  const std::vector<Dim> dims = n.input_dims(kMask), source = n.input_dims(kSource);
  const bool dummy = dims[1] == Dim::fixed(1) && source[1] != Dim::fixed(1);
  return dummy ? Refusal("mask_index of one key") : std::nullopt;
}

Refusal check_operands(const NodeView& n, const ByteWeights& weights) {
  const std::int64_t columns = weights.matrix.n;
  if (!n.has_input(kSourceScale) || !n.has_input(kWeightScale)) return "a scale is absent";
  CTXGEN_REFUSE(require_one(n, kSourceScale, DataType::kFloat, "scale of the input"));
  CTXGEN_REFUSE(
      require_one(n, kSourceZero, n.input_value(kSource).type.element, "zero point of the input"));
  CTXGEN_REFUSE(require_vector(n, kWeightScale, columns, "scale of the weights"));
  CTXGEN_REFUSE(require_vector(n, kRowBias, columns, "bias"));
  if (n.has_input(kRowBias) && n.constant(kRowBias)->element_count() != columns)
    return std::format("bias of {} elements", n.constant(kRowBias)->element_count());
  if (n.has_input(kPast)) return "past is used";
  if (n.output_wanted(1)) return "present is used";
  return check_key_mask(n);
}

Read<QAttention> read_qattention(const NodeView& n) {
  QAttention read{.weights = CTXGEN_TRY(read_byte_weights(n, kWeights, kWeightZero)),
                  .params = {},
                  .mask_value = 0};
  CTXGEN_REFUSE(require_byte_rows(n, kSource, read.weights.matrix.k));
  if (n.rank(kSource) != 3) return refuse("input has rank {}, expected 3", n.rank(kSource));
  CTXGEN_REFUSE(check_operands(n, read.weights));
  if (n.output_value(0).type.element != DataType::kFloat) return refuse("result is not float32");
  const Node& node = n.node();
  const std::int64_t heads = node.int_or("num_heads", 0), columns = read.weights.matrix.n;
  constexpr std::int64_t kMostHeads = 1 << 20;
  if (heads < 1 || heads > kMostHeads || columns % (3 * heads) != 0)
    return refuse("{} heads, {} columns", heads, columns);
  for (const char* name : {"do_rotary", "past_present_share_buffer"})
    if (node.int_or(name, 0) != 0) return refuse("attribute {}", name);
  read.params.heads = read.params.kv_heads = heads;
  read.params.scale = double{node.float_or("scale", 0.0F)};
  read.params.causal = node.int_or("unidirectional", 0) != 0;
  read.mask_value = double{node.float_or("mask_filter_value", -10000.0F)};
  if (!(read.mask_value < 0) || !std::isfinite(read.mask_value) ||
      !std::isfinite(read.params.scale))
    return refuse("mask_filter_value {}, scale {}", read.mask_value, read.params.scale);
  return read;
}

/// A mask [batch, keys] as what is added to logits, [batch, 1, 1, keys]: (mask - 1) * -value, but at least
/// `value` and at most 0, so that every number below 1 hides.
Operand added_mask(const NodeView& n, double value, ProgramBuilder& builder) {
  const Operand mask = builder.operand(n.input(kMask));
  const std::string& name = n.input_value(kMask).name;
  const std::vector<ProgramDim> dims = builder.at(mask.index).dims;
  const std::uint32_t real = builder.temporary(name + "/real", dims);
  ProgramOp point = builder.op(kind::kPoint, n);
  encode(PointParams{.in_scale = -value, .in_zero = 1}, point);
  point.post_ops.push_back(
      {.kind = "clip", .alpha = static_cast<float>(value), .beta = 0.0F, .operand = {}});
  builder.add(std::move(point), {mask}, real);
  const std::uint32_t added =
      builder.temporary(name + "/added", {dims[0], {.value = 1}, {.value = 1}, dims[1]});
  ProgramOp unsqueeze = builder.op(kind::kUnsqueeze, n);
  encode(AxesParams{.axes = {1, 2}}, unsqueeze);
  builder.add(std::move(unsqueeze), {Operand::value(real)}, added);
  return Operand::value(added);
}

}  // namespace

Refusal check_qattention(const NodeView& n) { return refusal_of(read_qattention(n)); }

Status lower_qattention(const NodeView& n, ProgramBuilder& builder) {
  const QAttention read = CTXGEN_TRY(accepted(read_qattention(n), n));
  const Operand source = builder.operand(n.input(kSource));
  std::vector<ProgramDim> dims = builder.at(source.index).dims;
  dims.back() = {.value = read.weights.matrix.n};
  const std::uint32_t rows = builder.temporary(n.output_value(0).name + "/rows", dims);
  const auto given = [&](std::size_t i) {
    return byte_operand(n.view(), n.has_input(i) ? n.input(i) : ValueId{}, builder);
  };
  CTXGEN_CHECK(add_byte_matmul(n, kWeights, read.weights,
                               {.a = source,
                                .zero = given(kSourceZero),
                                .scale = given(kSourceScale),
                                .scales = given(kWeightScale),
                                .bias = given(kRowBias)},
                               builder.op(kind::kByteMatmul, n), rows, builder));
  ProgramOp op = builder.op(kind::kAttention, n);
  encode(read.params, op);
  AttentionInputs inputs;
  inputs[kAtQ] = Operand::value(rows);
  if (n.has_input(kMask)) inputs[kAtBias] = added_mask(n, read.mask_value, builder);
  add_attention(n, builder, std::move(op), inputs, false);
  return {};
}

}  // namespace ctxgen::onednn
