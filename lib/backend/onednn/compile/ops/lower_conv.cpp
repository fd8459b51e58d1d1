#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "conv_params.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

Refusal check_channels(const NodeView& n, const Dims& weights, std::int64_t group) {
  if (group < 1 || weights[0] % group != 0) {
    return std::format("group {} does not divide {} output channels", group, weights[0]);
  }
  const std::vector<Dim> src = n.input_dims(0);
  const auto expected = checked_element_count(Dims{weights[1], group});
  if (src[1].is_fixed() && expected != static_cast<std::uint64_t>(src[1].value())) {
    return std::format("input has {} channels, weights take {} in {} groups", src[1].value(),
                       weights[1], group);
  }
  return std::nullopt;
}

Refusal check_bias(const NodeView& n, std::int64_t channels) {
  if (!n.has_input(2)) return std::nullopt;
  const auto bias = known_dims_f32(n, 2, "bias input");
  if (!bias) return bias.error();
  if (*bias != Dims{channels}) {
    return std::format("bias has dims {}, expected [{}]", to_string(*bias), channels);
  }
  return std::nullopt;
}

Read<ConvParams> read_conv(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  const Dims weights = CTXGEN_TRY(known_dims_f32(n, 1, "weight input"));
  ConvParams params = CTXGEN_TRY(read_conv_params(n, weights));
  CTXGEN_REFUSE(check_bias(n, weights[0]));
  return params;
}

}  // namespace

Read<ConvParams> read_conv_params(const NodeView& n, const Dims& weights) {
  const std::size_t rank = n.rank(0);
  if (rank < 3 || rank > 5) return refuse("rank {}, expected 3 to 5 (1 to 3 spatial dims)", rank);
  if (weights.size() != rank) {
    return refuse("weights have rank {}, expected {}", weights.size(), rank);
  }
  ConvParams params;
  params.group = n.node().int_or("group", 1);
  if (Refusal refusal = check_channels(n, weights, params.group)) {
    return std::unexpected(*refusal);
  }
  params.window = CTXGEN_TRY(read_window(n, rank - 2, list_of(weights.span().subspan(2))));
  return params;
}

Refusal check_conv(const NodeView& n) { return refusal_of(read_conv(n)); }

Status lower_conv(const NodeView& n, ProgramBuilder& builder) {
  return emit_conv(n, builder, builder.value(n.output(0)));
}

Status emit_conv(const NodeView& n, ProgramBuilder& builder, std::uint32_t result) {
  const ConvParams params = CTXGEN_TRY(accepted(read_conv(n), n));
  ProgramOp op = builder.op(n.constant(1) != nullptr ? kind::kConv : kind::kComputedConv, n);
  encode(params, op);
  builder.add(
      std::move(op),
      {builder.operand(n.input(0)), builder.operand(n.input(1)), builder.operand(n.input(2))},
      result);
  return {};
}

}  // namespace ctxgen::onednn
