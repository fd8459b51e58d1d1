#include <algorithm>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/recurrent.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kernels/recurrent/kernels_rnn.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/rounding.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

memory::desc rnn_md(const memory::dims& dims, memory::format_tag tag) {
  return {dims, memory::data_type::f32, tag};
}

/// What all cells share: descriptors of one layer. "ref" in the name of oneDNN's implementation
/// means products with separate gates here, which are fast (docs/onednn.md, "Recurrent networks").
struct RnnDescriptors {
  memory::desc src, src_iter, src_iter_c, weights, weights_iter, bias, dst, dst_iter, dst_iter_c;
  dnnl::rnn_direction direction = dnnl::rnn_direction::unidirectional_left2right;
};

RnnDescriptors descriptors_of(const NodeBuilder& builder, std::string_view direction, bool lbr,
                              bool lstm) {
  using tag = memory::format_tag;
  const Dims& x = builder.input(0).dims;
  const Dims& w = builder.input(1).dims;
  const std::int64_t d = w[0], gates = w[2], out = w[3];
  const memory::dims state{1, d, x[1], out};
  RnnDescriptors s;
  s.src = rnn_md({x[0], x[1], x[2]}, tag::tnc);
  s.weights = rnn_md({1, d, x[2], gates, out}, tag::ldigo);
  s.weights_iter = rnn_md({1, d, out, gates, out}, tag::ldigo);
  s.dst = rnn_md({x[0], x[1], d * out}, tag::tnc);
  s.dst_iter = rnn_md(state, tag::ldnc);
  if (lstm) s.dst_iter_c = s.dst_iter;
  s.bias = rnn_md({1, d, gates + (lbr ? 1 : 0), out}, tag::ldgo);
  if (builder.has_input(4)) s.src_iter = rnn_md(state, tag::ldnc);
  if (builder.has_input(5)) s.src_iter_c = rnn_md(state, tag::ldnc);
  if (direction == "reverse") s.direction = dnnl::rnn_direction::unidirectional_right2left;
  if (direction == "bidirectional") s.direction = dnnl::rnn_direction::bidirectional_concat;
  return s;
}

std::vector<Arg> arguments(const NodeBuilder& builder, const RnnDescriptors& s, bool lstm) {
  std::vector<Arg> args{builder.slot_arg(DNNL_ARG_SRC_LAYER, s.src, builder.input(0)),
                        builder.slot_arg(DNNL_ARG_WEIGHTS_LAYER, s.weights, builder.input(1)),
                        builder.slot_arg(DNNL_ARG_WEIGHTS_ITER, s.weights_iter, builder.input(2)),
                        builder.slot_arg(DNNL_ARG_BIAS, s.bias, builder.input(3)),
                        builder.slot_arg(DNNL_ARG_DST_LAYER, s.dst, builder.output(0)),
                        builder.slot_arg(DNNL_ARG_DST_ITER, s.dst_iter, builder.output(1))};
  if (builder.has_input(4))
    args.push_back(builder.slot_arg(DNNL_ARG_SRC_ITER, s.src_iter, builder.input(4)));
  if (builder.has_input(5))
    args.push_back(builder.slot_arg(DNNL_ARG_SRC_ITER_C, s.src_iter_c, builder.input(5)));
  if (lstm) args.push_back(builder.slot_arg(DNNL_ARG_DST_ITER_C, s.dst_iter_c, builder.output(2)));
  return args;
}

Result<ShapeOutputs> rnn_shape(const ProgramOp& op, ShapeInputs in) {
  const auto [cell, direction] = CTXGEN_TRY(decode<RnnParams>(op));
  const bool lstm = cell == "lstm", lbr = cell == "lbr_gru";
  const bool plain = cell == "tanh" || cell == "relu";
  if (!lstm && !lbr && !plain && cell != "gru")
    return fail(ErrorCode::kUnsupported, "{}: cell \"{}\"", label(op), cell);
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return fail(ErrorCode::kUnsupported, "{}: direction \"{}\"", label(op), direction);
  const std::int64_t d = direction == "bidirectional" ? 2 : 1;
  const std::int64_t gates = lstm ? 4 : plain ? 1 : 3;
  const Dims& x = in[0].dims;
  const Dims& w = in[1].dims;
  if (x.size() != 3 || w.size() != 4)
    return fail(ErrorCode::kInvalidGraph, "{}: source {}, weights {}", label(op), to_string(x),
                to_string(w));
  const std::int64_t out = w[3];
  const Dims state{d, x[1], out};
  const Dims expected[] = {
      x,    {d, x[2], gates, out}, {d, out, gates, out}, {d, gates + (lbr ? 1 : 0), out}, state,
      state};
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i].present && (in[i].dims != expected[i] || (i == 5 && !lstm)))
      return fail(ErrorCode::kInvalidGraph, "{}: input {} is {}, expected {}", label(op), i,
                  to_string(in[i].dims), to_string(expected[i]));
  ShapeOutputs outputs;
  if (out > kMaxParam) return fail(ErrorCode::kResourceLimit, "{}: {} units", label(op), out);
  outputs.push_back(Dims{x[0], x[1], d * out});
  outputs.push_back(state);
  if (lstm) outputs.push_back(state);
  return outputs;
}

/// At each step a sum over the input and the state: [T, N, I], [D, O, G, O].
std::int64_t rnn_terms(const Program& program, const ProgramOp& op) {
  return std::min(
      dim_from_back(program, op, 0, 2) *
          std::min(dim_from_back(program, op, 0, 0) + dim_from_back(program, op, 2, 0), kMostTerms),
      kMostTerms);
}

/// Each weight, once per step and row of the batch.
double multiplications_of(const NodeBuilder& builder) {
  const Dims& x = builder.input(0).dims;
  const double rows = static_cast<double>(x[0]) * static_cast<double>(x[1]);
  return rows * (static_cast<double>(volume(builder.input(1).dims)) +
                 static_cast<double>(volume(builder.input(2).dims)));
}

/// Multiplications of a short layer: oneDNN's products would cost more to call than to do, and their code
/// is made in the first run.
constexpr double kShortLayer = 1 << 23;

/// The layer as our own loops see it.
RnnShape shape_of(const NodeBuilder& builder, RnnCell cell, std::string_view direction) {
  const Dims& x = builder.input(0).dims;
  const Dims& w = builder.input(1).dims;
  return {.cell = cell,
          .steps = x[0],
          .batch = x[1],
          .inputs = x[2],
          .units = w[3],
          .directions = w[0],
          .reversed = direction == "reverse",
          .has_state = builder.has_input(4),
          .has_cell = builder.has_input(5)};
}

/// Whether our own loops are faster than oneDNN's, measured by bench/kernels (docs/onednn.md, "Recurrent
/// networks"). With AVX-512 that is so on Intel's cores; elsewhere for batches, for the GRU whose products
/// depend on each other, for short layers, and where two directions run at once.
bool runs_in_loops(const NodeBuilder& builder, const RnnShape& shape) {
  const InstructionSet usable = usable_instruction_set();
  if (!includes(usable, InstructionSet::kAvx512Core))
    return includes(usable, InstructionSet::kAvx2);
  return kernels::streams_one_row() || shape.batch > 1 || shape.cell == RnnCell::kGru ||
         multiplications_of(builder) < kShortLayer ||
         (builder.context().threads > 1 && shape.runs_apart());
}

Status build_loop(NodeBuilder& builder, const RnnShape& shape) {
  if (shape.scratch_bytes() > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: {} bytes to work in", label(builder.op()),
                shape.scratch_bytes());
  std::vector<Arg> args;
  for (std::size_t i = 0; i < 4; ++i) args.push_back(builder.slot_arg(builder.input(i)));
  for (std::size_t i = 0; i < builder.node().outputs.size(); ++i)
    args.push_back(builder.slot_arg(builder.output(i)));
  for (std::size_t i = 4; i < 6; ++i)
    if (builder.has_input(i)) args.push_back(builder.slot_arg(builder.input(i)));
  args.push_back(scratch_arg());
  builder.add_kernel(
      "loop:rnn", make_rnn_kernel(shape), std::move(args),
      {.flops = 2 * multiplications_of(builder), .scratch_bytes = shape.scratch_bytes()});
  return {};
}

Status build_rnn(NodeBuilder& builder) {
  const auto [cell, direction] = CTXGEN_TRY(decode<RnnParams>(builder.op()));
  const auto known = rnn_cell(cell);
  if (known)
    if (const RnnShape shape = shape_of(builder, *known, direction); runs_in_loops(builder, shape))
      return build_loop(builder, shape);
  const bool lstm = cell == "lstm";
  const RnnDescriptors s = descriptors_of(builder, direction, cell == "lbr_gru", lstm);
  const std::vector<Arg> args = arguments(builder, s, lstm);
  const auto inference = dnnl::prop_kind::forward_inference;
  const auto& engine = cpu_engine();
  if (lstm)
    return builder.add_primitive<dnnl::lstm_forward>(
        [&](const dnnl::primitive_attr& attr) {
          return dnnl::lstm_forward::primitive_desc(
              engine, inference, s.direction, s.src, s.src_iter, s.src_iter_c, s.weights,
              s.weights_iter, s.bias, s.dst, s.dst_iter, s.dst_iter_c, attr);
        },
        args, References::kAllowed);
  if (cell == "gru")
    return builder.add_primitive<dnnl::gru_forward>(
        [&](const dnnl::primitive_attr& attr) {
          return dnnl::gru_forward::primitive_desc(engine, inference, s.direction, s.src,
                                                   s.src_iter, s.weights, s.weights_iter, s.bias,
                                                   s.dst, s.dst_iter, attr);
        },
        args, References::kAllowed);
  if (cell == "lbr_gru")
    return builder.add_primitive<dnnl::lbr_gru_forward>(
        [&](const dnnl::primitive_attr& attr) {
          return dnnl::lbr_gru_forward::primitive_desc(engine, inference, s.direction, s.src,
                                                       s.src_iter, s.weights, s.weights_iter,
                                                       s.bias, s.dst, s.dst_iter, attr);
        },
        args, References::kAllowed);
  return builder.add_primitive<dnnl::vanilla_rnn_forward>(
      [&](const dnnl::primitive_attr& attr) {
        return dnnl::vanilla_rnn_forward::primitive_desc(
            engine, inference,
            cell == "relu" ? dnnl::algorithm::eltwise_relu : dnnl::algorithm::eltwise_tanh,
            s.direction, s.src, s.src_iter, s.weights, s.weights_iter, s.bias, s.dst, s.dst_iter,
            attr);
      },
      args, References::kAllowed);
}

}  // namespace

constinit const KindRow kRnnRow{
    .name = kind::kRnn,
    .number = 34,
    .inputs = {4, 6},
    .traits = {.post_ops = false},
    .types = check_f32_types,
    .shape = rnn_shape,
    .terms = rnn_terms,
    .place = place_dense,
    .build = build_rnn,
};

}  // namespace ctxgen::onednn
