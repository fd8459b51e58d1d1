#include <algorithm>
#include <array>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"
#include "quantized/byte_weights.h"

// LSTM, GRU and RNN: weights in oneDNN's order of gates, results in ONNX's order of dims; DynamicQuantizeLSTM of
// com.microsoft: weights of bytes in ONNX's order.
namespace ctxgen::onednn {

namespace {

struct RnnAttributes {
  std::string cell, direction;
  std::int64_t directions = 1, gates = 1, hidden = 0, inputs = 0;
  bool batch_first = false;
  std::array<std::int64_t, 4> order{0, 1, 2, 3};  // oneDNN's gate g is ONNX's gate order[g]
  bool bytes = false;                             // DynamicQuantizeLSTM
  kernels::ByteMatrix weights, recurrent;         // where `bytes`, of one direction
};

bool is_lstm(const Node& node) {
  return node.op_type == "LSTM" || node.op_type == "DynamicQuantizeLSTM";
}

Refusal check_activations(const NodeView& n, RnnAttributes& params) {
  const std::string_view type = n.node().op_type;
  const Attribute* given = n.node().attribute("activations");
  std::vector<std::string> expected{"Tanh"};
  if (is_lstm(n.node())) expected = {"Sigmoid", "Tanh", "Tanh"};
  if (type == "GRU") expected = {"Sigmoid", "Tanh"};
  if (given == nullptr || given->strings.empty()) return std::nullopt;
  if (given->strings.size() != expected.size() * static_cast<std::size_t>(params.directions)) {
    return std::format("{} activations", given->strings.size());
  }
  if (type == "RNN" && given->strings[0] == "Relu") {
    expected = {"Relu"};
    params.cell = "relu";
  }
  for (std::size_t i = 0; i < given->strings.size(); ++i) {
    if (given->strings[i] != expected[i % expected.size()]) {
      return std::format("activation \"{}\"", given->strings[i]);
    }
  }
  return std::nullopt;
}

/// sequence_lens says nothing where every length is the whole one.
Refusal check_lengths(const NodeView& n, const RnnAttributes& params) {
  if (!n.has_input(4)) return std::nullopt;
  const auto lengths = constant_ints(n, 4, "sequence_lens");
  if (!lengths) return lengths.error();
  const Dim steps = n.input_dims(0)[params.batch_first ? 1 : 0];
  const bool whole = steps.is_fixed() && std::ranges::all_of(*lengths, [&](std::int64_t length) {
                       return length == steps.value();
                     });
  if (!whole) return "sequence_lens differ from the number of steps";
  return std::nullopt;
}

Refusal check_bias(const NodeView& n, const RnnAttributes& params) {
  if (!n.has_input(3)) return std::nullopt;
  const auto b = constant_f32(n, 3, "bias");
  if (!b) return b.error();
  if ((*b)->dims() != Dims{params.directions, 2 * params.gates * params.hidden})
    return std::format("bias is {}", to_string((*b)->dims()));
  return std::nullopt;
}

Refusal check_input_size(const NodeView& n, const RnnAttributes& params) {
  const Dim inputs = n.input_dims(0)[2];
  if (inputs.is_fixed() && inputs.value() != params.inputs)
    return std::format("input has {} features, weights take {}", inputs.value(), params.inputs);
  return std::nullopt;
}

Refusal check_weights(const NodeView& n, RnnAttributes& params) {
  const std::int64_t rows = params.gates * params.hidden;
  const auto w = constant_f32(n, 1, "weights");
  if (!w) return w.error();
  const auto r = constant_f32(n, 2, "recurrent weights");
  if (!r) return r.error();
  if ((*w)->rank() != 3) return std::format("weights have rank {}", (*w)->rank());
  params.inputs = (*w)->dims()[2];
  if ((*w)->dims() != Dims{params.directions, rows, params.inputs} ||
      (*r)->dims() != Dims{params.directions, rows, params.hidden}) {
    return std::format("weights are {} and {}", to_string((*w)->dims()), to_string((*r)->dims()));
  }
  CTXGEN_REFUSE(check_input_size(n, params));
  return check_bias(n, params);
}

// ---- DynamicQuantizeLSTM ----

/// Inputs of a matrix: its elements [D, K, 4 * hidden], scales and zero points [D] or [D, 4 * hidden].
struct ByteInputs {
  std::size_t values, scales, zeros;
};
constexpr ByteInputs kByteWeights{1, 8, 9}, kByteRecurrent{2, 10, 11};

/// The matrix of one direction; nothing of the tensors is kept.
ByteWeights direction_of(const NodeView& n, const ByteInputs& at, const kernels::ByteMatrix& matrix,
                         std::int64_t d) {
  const Tensor &values = *n.constant(at.values), &zeros = *n.constant(at.zeros);
  const bool per_column = zeros.rank() == 2 && zeros.dims()[1] > 1;
  return {.matrix = matrix,
          .source = {.is_signed = values.type() == DataType::kInt8,
                     .values = bytes_in(values) + d * matrix.k * matrix.n,
                     .zeros = bytes_in(zeros) + d * (per_column ? matrix.n : 1),
                     .zero_per_column = per_column}};
}

Refusal check_steps(const NodeView& n, std::size_t i, DataType type, const RnnAttributes& params,
                    std::string_view what) {
  const Tensor* given = n.has_input(i) ? n.constant(i) : nullptr;
  if (given == nullptr) return std::format("{} is not constant", what);
  const bool fits = given->dims() == Dims{params.directions} ||
                    given->dims() == Dims{params.directions, params.gates * params.hidden};
  if (given->type() != type || !fits)
    return std::format("{} is {} {}", what, name_of(given->type()), to_string(given->dims()));
  return std::nullopt;
}

Refusal read_byte_matrix(const NodeView& n, const ByteInputs& at, const RnnAttributes& params,
                         kernels::ByteMatrix& matrix) {
  const Tensor* values = n.has_input(at.values) ? n.constant(at.values) : nullptr;
  if (values == nullptr) return "weights are not constant";
  if (!is_byte(values->type())) return std::format("weights of type {}", name_of(values->type()));
  if (values->rank() != 3) return std::format("weights have rank {}", values->rank());
  matrix = {.k = values->dims()[1], .n = params.gates * params.hidden};
  if (values->dims() != Dims{params.directions, matrix.k, matrix.n} || !kernels::is_valid(matrix))
    return std::format("weights are {}", to_string(values->dims()));
  CTXGEN_REFUSE(check_steps(n, at.scales, DataType::kFloat, params, "scale of the weights"));
  CTXGEN_REFUSE(check_steps(n, at.zeros, values->type(), params, "zero point of the weights"));
  for (std::int64_t d = 0; d < params.directions; ++d)
    matrix.zeros =
        matrix.zeros || kernels::needs_zeros(direction_of(n, at, matrix, d).source, matrix.n);
  if (has_few_columns(matrix, values->bytes().size() / static_cast<std::size_t>(params.directions)))
    return std::format("{} columns are too few", matrix.n);
  return std::nullopt;
}

Refusal check_byte_weights(const NodeView& n, RnnAttributes& params) {
  CTXGEN_REFUSE(read_byte_matrix(n, kByteWeights, params, params.weights));
  params.weights.limits = true;  // a run multiplies all steps of x at once, but one of the state
  CTXGEN_REFUSE(read_byte_matrix(n, kByteRecurrent, params, params.recurrent));
  if (params.recurrent.k != params.hidden)
    return std::format("recurrent weights are {}", to_string(n.constant(2)->dims()));
  params.inputs = params.weights.k;
  CTXGEN_REFUSE(check_input_size(n, params));
  return check_bias(n, params);
}

/// The packed matrices of all directions, [D, bytes].
Result<Tensor> packed_directions(const NodeView& n, const ByteInputs& at,
                                 const kernels::ByteMatrix& matrix, std::int64_t directions) {
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(matrix));
  Tensor packed = CTXGEN_TRY(Tensor::allocate(DataType::kUint8, Dims{directions, bytes}));
  for (std::int64_t d = 0; d < directions; ++d)
    kernels::pack(matrix, direction_of(n, at, matrix, d).source,
                  packed.mutable_bytes().data() + d * bytes);
  return packed;
}

/// Scales [D, 1] or [D, 4 * hidden].
Result<Tensor> scales_of(const Tensor& given, std::int64_t directions) {
  return tensor_of(Dims{directions, given.element_count() / directions}, floats_of(given));
}

Refusal check_state(const NodeView& n, std::size_t i, const RnnAttributes& params) {
  if (!n.has_input(i)) return std::nullopt;
  const Tensor* constant = n.constant(i);
  const ValueType& type = n.input_value(i).type;
  const DataType element = constant != nullptr ? constant->type() : type.element;
  if (element != DataType::kFloat) return std::format("element type {}", name_of(element));
  const std::vector<Dim> dims = n.input_dims(i);
  const std::size_t first = params.batch_first ? 1 : 0;
  const bool fits = dims.size() == 3 && dims[first] == Dim::fixed(params.directions) &&
                    dims[2] == Dim::fixed(params.hidden);
  if (!fits)
    return std::format("initial state {} has other dims than directions and hidden size", i);
  return std::nullopt;
}

Refusal check_outputs(const NodeView& n) {
  for (std::size_t i = 0; i < n.output_count(); ++i) {
    if (!n.output(i).valid() || !n.output_wanted(i)) continue;
    const ValueType& type = n.output_value(i).type;
    if (!type.is_tensor() || !type.has_rank()) {
      return std::format("rank of \"{}\" is unknown", n.output_value(i).name);
    }
  }
  return std::nullopt;
}

Read<RnnAttributes> read_rnn(const NodeView& n) {
  const Node& node = n.node();
  if (!n.has_input(0)) return refuse("input is absent");
  const ValueType& x = n.input_value(0).type;
  if (n.constant(0) != nullptr || !x.is_tensor() || x.element != DataType::kFloat) {
    return refuse("input must be float32");
  }
  if (!x.has_rank() || x.rank() != 3) return refuse("input is not known to have rank 3");
  RnnAttributes params;
  params.direction = node.string_or("direction", "forward");
  if (params.direction != "forward" && params.direction != "reverse" &&
      params.direction != "bidirectional") {
    return refuse("direction is \"{}\"", params.direction);
  }
  params.directions = params.direction == "bidirectional" ? 2 : 1;
  params.cell = "tanh";
  if (is_lstm(node)) {
    params.bytes = node.op_type != "LSTM";
    params.cell = "lstm";
    params.gates = 4;
    if (!params.bytes) params.order = {0, 2, 3, 1};
  } else if (node.op_type == "GRU") {
    params.cell = node.int_or("linear_before_reset", 0) != 0 ? "lbr_gru" : "gru";
    params.gates = 3;
  }
  params.hidden = node.int_or("hidden_size", 0);
  if (params.hidden < 1 || params.hidden > 1 << 20) return refuse("hidden_size {}", params.hidden);
  params.batch_first = node.int_or("layout", 0) != 0;
  if (node.attribute("clip") != nullptr) return refuse("clip");
  if (node.int_or("input_forget", 0) != 0) return refuse("input_forget");
  if (n.has_input(7)) return refuse("peepholes");
  if (n.has_input(6) && !is_lstm(node)) return refuse("{} inputs", n.input_count());
  CTXGEN_REFUSE(check_activations(n, params));
  CTXGEN_REFUSE(params.bytes ? check_byte_weights(n, params) : check_weights(n, params));
  CTXGEN_REFUSE(check_lengths(n, params));
  for (const std::size_t i : {5, 6}) {
    CTXGEN_REFUSE(check_state(n, i, params));
  }
  CTXGEN_REFUSE(check_outputs(n));
  return params;
}

/// [D, G*H, I] with ONNX's gates to [D, I, G, H] with oneDNN's.
Result<Tensor> gate_weights(const Tensor& weights, const RnnAttributes& params) {
  const std::int64_t width = weights.dims()[2];
  const std::vector<float> from = floats_of(weights);
  std::vector<float> to(from.size());
  for (std::int64_t d = 0; d < params.directions; ++d)
    for (std::int64_t g = 0; g < params.gates; ++g)
      for (std::int64_t h = 0; h < params.hidden; ++h)
        for (std::int64_t i = 0; i < width; ++i) {
          const std::int64_t row = params.order[static_cast<std::size_t>(g)] * params.hidden + h;
          const std::int64_t source = (d * params.gates * params.hidden + row) * width + i;
          const std::int64_t target = ((d * width + i) * params.gates + g) * params.hidden + h;
          to[static_cast<std::size_t>(target)] = from[static_cast<std::size_t>(source)];
        }
  return tensor_of(Dims{params.directions, width, params.gates, params.hidden}, to);
}

/// ONNX's two biases as oneDNN's one: their sum, but for the candidate gate of a GRU that is linear
/// before the reset, whose recurrent part stays apart. Zeros where ONNX has none: oneDNN wants one.
Result<Tensor> gate_bias(const Tensor* bias, const RnnAttributes& params) {
  const bool lbr = params.cell == "lbr_gru";
  const std::int64_t rows = params.gates + (lbr ? 1 : 0);
  std::vector<float> from(
      static_cast<std::size_t>(2 * params.directions * params.gates * params.hidden), 0.0F);
  if (bias != nullptr) from = floats_of(*bias);
  std::vector<float> to;
  for (std::int64_t d = 0; d < params.directions; ++d)
    for (std::int64_t g = 0; g < rows; ++g)
      for (std::int64_t h = 0; h < params.hidden; ++h) {
        const std::int64_t gate = g < params.gates ? params.order[static_cast<std::size_t>(g)] : 2;
        const auto at = static_cast<std::size_t>(2 * d * params.gates * params.hidden +
                                                 gate * params.hidden + h);
        const auto recurrent = at + static_cast<std::size_t>(params.gates * params.hidden);
        if (lbr && g >= 2)
          to.push_back(from[g == 2 ? at : recurrent]);
        else
          to.push_back(from[at] + from[recurrent]);
      }
  return tensor_of(Dims{params.directions, rows, params.hidden}, to);
}

std::uint32_t add_transpose(const NodeView& n, Operand src, std::vector<std::int64_t> perm,
                            std::uint32_t result, ProgramBuilder& builder) {
  ProgramOp op = builder.op(kind::kTranspose, n);
  encode(TransposeParams{std::move(perm)}, op);
  builder.add(std::move(op), {src}, result);
  return result;
}

std::string_view view_name(const NodeView& n, ValueId id) {
  return n.view().graph().value(id).name;
}

/// A value with the first two dims of `src` exchanged where batches come first.
Operand steps_first(const NodeView& n, ValueId id, const RnnAttributes& params,
                    ProgramBuilder& builder) {
  const Operand given = builder.operand(id);
  if (!params.batch_first || given.kind == Operand::Kind::kNone) return given;
  std::vector<ProgramDim> dims(3);
  const std::uint32_t swapped =
      builder.temporary(std::format("{}/steps_first", view_name(n, id)), std::move(dims));
  return Operand::value(add_transpose(n, given, {1, 0, 2}, swapped, builder));
}

/// y [T, N, D*H] to ONNX's [T, D, N, H], or [N, T, D, H] where batches come first.
void add_sequence(const NodeView& n, std::uint32_t y, const RnnAttributes& params,
                  ProgramBuilder& builder) {
  const std::uint32_t result = builder.value(n.output(0));
  const std::uint32_t apart =
      builder.temporary(n.output_value(0).name + "/apart",
                        {{}, {}, {.value = params.directions}, {.value = params.hidden}});
  ProgramOp op = builder.op(kind::kReshape, n);
  encode(ReshapeParams{.shape = {0, 0, params.directions, params.hidden}}, op);
  builder.add(std::move(op), {Operand::value(y)}, apart);
  add_transpose(n, Operand::value(apart),
                params.batch_first ? std::vector<std::int64_t>{1, 0, 2, 3}
                                   : std::vector<std::int64_t>{0, 2, 1, 3},
                result, builder);
}

/// A result under the name of a node's output, or under none where it is not wanted.
std::uint32_t state_value(const NodeView& n, std::size_t i, const RnnAttributes& params,
                          ProgramBuilder& builder) {
  const bool direct = i < n.output_count() && n.output(i).valid() && !params.batch_first;
  if (direct) return builder.value(n.output(i));
  const std::string name = n.output(0).valid() ? n.output_value(0).name : n.node().name;
  return builder.temporary(std::format("{}/state{}", name, i),
                           {{.value = params.directions}, {}, {.value = params.hidden}});
}

/// Weights, recurrent weights and bias in oneDNN's order of gates.
Result<std::vector<Operand>> gate_operands(const NodeView& n, const RnnAttributes& params,
                                           ProgramBuilder& builder) {
  const std::string& name = n.input_value(1).name;
  const Tensor weights = CTXGEN_TRY(gate_weights(*n.constant(1), params));
  const Tensor recurrent = CTXGEN_TRY(gate_weights(*n.constant(2), params));
  const Tensor bias = CTXGEN_TRY(gate_bias(n.constant(3), params));
  return std::vector<Operand>{builder.weight(name + "/gates", weights),
                              builder.weight(n.input_value(2).name + "/gates", recurrent),
                              builder.weight(name + "/bias", bias)};
}

/// Packed matrices, their scales, and the bias.
Result<std::vector<Operand>> byte_operands(const NodeView& n, const RnnAttributes& params,
                                           ProgramBuilder& builder) {
  const std::int64_t d = params.directions;
  Tensor weights = CTXGEN_TRY(packed_directions(n, kByteWeights, params.weights, d));
  Tensor recurrent = CTXGEN_TRY(packed_directions(n, kByteRecurrent, params.recurrent, d));
  const Tensor scales = CTXGEN_TRY(scales_of(*n.constant(kByteWeights.scales), d));
  const Tensor recurrent_scales = CTXGEN_TRY(scales_of(*n.constant(kByteRecurrent.scales), d));
  Tensor bias = CTXGEN_TRY(gate_bias(n.constant(3), params));
  bias = CTXGEN_TRY(tensor_of(Dims{d, params.gates * params.hidden}, floats_of(bias)));
  const std::string &name = n.input_value(1).name, &other = n.input_value(2).name;
  return std::vector<Operand>{
      builder.stored_weight(name, std::move(weights)),
      builder.stored_weight(other, std::move(recurrent)), builder.weight(name + "/scales", scales),
      builder.weight(other + "/scales", recurrent_scales), builder.weight(name + "/bias", bias)};
}

ProgramOp layer_op(const NodeView& n, const RnnAttributes& params, ProgramBuilder& builder) {
  ProgramOp op = builder.op(params.bytes ? kind::kByteLstm : kind::kRnn, n);
  if (params.bytes)
    encode(ByteLstmParams{.inputs = params.inputs,
                          .units = params.hidden,
                          .weight_zeros = params.weights.zeros,
                          .recurrent_zeros = params.recurrent.zeros,
                          .limits = matrix_params(params.weights).limits,
                          .direction = params.direction},
           op);
  else
    encode(RnnParams{params.cell, params.direction}, op);
  return op;
}

}  // namespace

Refusal check_rnn(const NodeView& n) { return refusal_of(read_rnn(n)); }

Status lower_rnn(const NodeView& n, ProgramBuilder& builder) {
  const RnnAttributes params = CTXGEN_TRY(accepted(read_rnn(n), n));
  std::vector<Operand> inputs{steps_first(n, n.input(0), params, builder)};
  const auto constants = CTXGEN_TRY(params.bytes ? byte_operands(n, params, builder)
                                                 : gate_operands(n, params, builder));
  inputs.insert(inputs.end(), constants.begin(), constants.end());
  for (const std::size_t i : {5, 6}) inputs.push_back(steps_first(n, n.input(i), params, builder));
  const bool lstm = params.cell == "lstm";
  std::vector<std::uint32_t> outputs{builder.temporary(
      n.node().name + "/sequence", {{}, {}, {.value = params.directions * params.hidden}})};
  for (std::size_t i = 1; i < (lstm ? 3U : 2U); ++i)
    outputs.push_back(state_value(n, i, params, builder));
  const std::vector<std::uint32_t> states = outputs;
  builder.add(layer_op(n, params, builder), inputs, outputs);
  if (n.output_count() > 0 && n.output(0).valid()) add_sequence(n, states[0], params, builder);
  for (std::size_t i = 1; params.batch_first && i < states.size(); ++i)
    if (i < n.output_count() && n.output(i).valid())
      add_transpose(n, Operand::value(states[i]), {1, 0, 2}, builder.value(n.output(i)), builder);
  return {};
}

}  // namespace ctxgen::onednn
