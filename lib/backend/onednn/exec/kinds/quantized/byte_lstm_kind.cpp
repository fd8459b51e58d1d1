#include <limits>
#include <utility>

#include "ctxgen/onednn/op_kinds.h"

#include "kernels/recurrent/kernels_byte_lstm.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/rounding.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// LSTM layers whose source and state are rounded to bytes in each run, by exact products of bytes: the same on
// every instruction set.
namespace ctxgen::onednn {

namespace {

enum LstmInput : std::uint8_t {
  kSource,
  kWeights,
  kRecurrent,
  kWeightScales,
  kRecurrentScales,
  kGateBias,
  kFirstState,
  kFirstCell,
  kLstmInputs
};
constexpr std::size_t kLstmOutputs = 3;

Status check_lstm_types(const Program& program, const ProgramOp& op) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const bool matrix = i == kWeights || i == kRecurrent;
    CTXGEN_CHECK(
        expect_type(program, op, op.inputs[i], {matrix ? DataType::kUint8 : DataType::kFloat}));
    if (matrix && op.inputs[i].kind != Operand::Kind::kWeight)
      return fail(ErrorCode::kUnsupported, "{}: a matrix is not a weight", label(op));
  }
  if (op.outputs.size() != kLstmOutputs)
    return fail(ErrorCode::kInvalidGraph, "{}: {} outputs, expected {}", label(op),
                op.outputs.size(), kLstmOutputs);
  for (const std::uint32_t value : op.outputs)
    CTXGEN_CHECK(expect_type(program, op, Operand::value(value), {DataType::kFloat}));
  return {};
}

/// What the parameters say of a layer; the steps and the batch are 0.
Result<ByteLstmShape> layer_of(const ProgramOp& op) {
  const auto params = CTXGEN_TRY(decode<ByteLstmParams>(op));
  if (params.direction != "forward" && params.direction != "reverse" &&
      params.direction != "bidirectional")
    return fail(ErrorCode::kUnsupported, "{}: direction \"{}\"", label(op), params.direction);
  constexpr std::int64_t kMostUnits = std::numeric_limits<std::int32_t>::max() / 4;
  if (params.units < 1 || params.units > kMostUnits)
    return fail(ErrorCode::kInvalidGraph, "{}: {} units", label(op), params.units);
  ByteLstmShape layer{
      .inputs = params.inputs,
      .units = params.units,
      .directions = params.direction == "bidirectional" ? 2 : 1,
      .reversed = params.direction == "reverse",
      .weights = {.k = params.inputs,
                  .n = 4 * params.units,
                  .zeros = params.weight_zeros,
                  .limits = params.limits.value_or(0) != 0},
      .recurrent = {.k = params.units, .n = 4 * params.units, .zeros = params.recurrent_zeros}};
  if (!kernels::is_valid(layer.weights) || !kernels::is_valid(layer.recurrent))
    return fail(ErrorCode::kInvalidGraph, "{}: {} inputs, {} units", label(op), params.inputs,
                params.units);
  return layer;
}

Result<ShapeOutputs> byte_lstm_shape(const ProgramOp& op, ShapeInputs in) {
  const ByteLstmShape layer = CTXGEN_TRY(layer_of(op));
  const Dims& x = in[kSource].dims;
  if (x.size() != 3 || x[2] != layer.inputs)
    return fail(ErrorCode::kInvalidGraph, "{}: source {} of {} inputs", label(op), to_string(x),
                layer.inputs);
  const std::int64_t d = layer.directions, columns = 4 * layer.units;
  const Dims state{d, x[1], layer.units};
  const auto expect = [&](std::size_t i, const Dims& dims, const Dims& or_dims) -> Status {
    if (i >= in.size() || !in[i].present || in[i].dims == dims || in[i].dims == or_dims) return {};
    return fail(ErrorCode::kInvalidGraph, "{}: input {} is {}, expected {}", label(op), i,
                to_string(in[i].dims), to_string(dims));
  };
  for (const auto& [i, matrix] :
       {std::pair(kWeights, &layer.weights), std::pair(kRecurrent, &layer.recurrent)}) {
    const Dims& packed = in[i].dims;
    if (packed.size() != 2 || packed[0] != d ||
        std::cmp_not_equal(packed[1], kernels::packed_bytes(*matrix)))
      return fail(ErrorCode::kInvalidGraph, "{}: packed matrix {}, expected {} times {} bytes",
                  label(op), to_string(packed), d, kernels::packed_bytes(*matrix));
  }
  for (const LstmInput scales : {kWeightScales, kRecurrentScales})
    CTXGEN_CHECK(expect(scales, {d, columns}, {d, 1}));
  CTXGEN_CHECK(expect(kGateBias, {d, columns}, {d, columns}));
  for (const LstmInput first : {kFirstState, kFirstCell}) CTXGEN_CHECK(expect(first, state, state));
  ShapeOutputs outputs;
  outputs.push_back(Dims{x[0], x[1], d * layer.units});
  outputs.push_back(state);
  outputs.push_back(state);
  return outputs;
}

/// Sums are exact; a step rounds them by two scales each, adds them and the bias, and the cell follows.
std::int64_t byte_lstm_terms(const Program& program, const ProgramOp& op) {
  constexpr std::int64_t kOfStep = 8;
  return std::min(kOfStep * dim_from_back(program, op, 0, 2), kMostTerms);
}

bool always(const ProgramOp& /*op*/) { return true; }

Status build_byte_lstm(NodeBuilder& builder) {
  ByteLstmShape layer = CTXGEN_TRY(layer_of(builder.op()));
  const Dims& x = builder.input(kSource).dims;
  layer.steps = x[0];
  layer.batch = x[1];
  layer.weight_scale_per_column = builder.input(kWeightScales).dims[1] > 1;
  layer.recurrent_scale_per_column = builder.input(kRecurrentScales).dims[1] > 1;
  layer.has_state = builder.has_input(kFirstState);
  layer.has_cell = builder.has_input(kFirstCell);
  const auto scratch = layer.scratch_bytes();
  if (!scratch || *scratch > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: {} steps of {} sequences", label(builder.op()),
                layer.steps, layer.batch);
  std::vector<Arg> args;
  for (std::size_t i = 0; i <= kGateBias; ++i) args.push_back(builder.slot_arg(builder.input(i)));
  for (std::size_t i = 0; i < kLstmOutputs; ++i)
    args.push_back(builder.slot_arg(builder.output(i)));
  for (const LstmInput i : {kFirstState, kFirstCell})
    if (builder.has_input(i)) args.push_back(builder.slot_arg(builder.input(i)));
  args.push_back(scratch_arg());
  const double rows = static_cast<double>(layer.steps) * static_cast<double>(layer.batch);
  builder.add_kernel("loop:byte_lstm", make_byte_lstm_kernel(layer), std::move(args),
                     {.flops = 2 * rows * static_cast<double>(4 * layer.units) *
                               static_cast<double>(layer.inputs + layer.units) *
                               static_cast<double>(layer.directions),
                      .scratch_bytes = *scratch});
  return {};
}

}  // namespace

constinit const KindRow kByteLstmRow{
    .name = kind::kByteLstm,
    .number = 47,
    .inputs = {kGateBias + 1, kLstmInputs},
    .traits = {.post_ops = false},
    .types = check_lstm_types,
    .shape = byte_lstm_shape,
    .terms = byte_lstm_terms,
    .quantises = always,
    .place = place_dense,
    .build = build_byte_lstm,
};

}  // namespace ctxgen::onednn
