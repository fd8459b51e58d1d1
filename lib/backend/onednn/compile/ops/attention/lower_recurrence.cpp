// LinearAttention and CausalConvWithState, of the default domain and of com.microsoft.
#include <algorithm>
#include <format>

#include "ctxgen/onednn/op_kinds.h"

#include "../ops.h"
#include "attention_values.h"

namespace ctxgen::onednn {

namespace {

bool is_onnx(const NodeView& n) { return n.node().domain.empty(); }

Refusal check_optional(const NodeView& n, std::size_t i, std::string_view what, std::size_t rank) {
  return n.has_input(i) ? require_ranked(n, i, what, {rank}) : std::nullopt;
}

/// Both are given; the state may be of another float type than the result.
Refusal check_outputs(const NodeView& n, std::size_t state_rank) {
  if (n.output_count() == 0 || !n.output(0).valid()) return "first output is absent";
  for (std::size_t i = 0; i < std::min<std::size_t>(n.output_count(), 2); ++i) {
    if (!n.output(i).valid()) continue;
    const ValueType& type = n.output_value(i).type;
    const std::size_t rank = i == 0 ? n.rank(0) : state_rank;
    if (!type.is_tensor() || !type.has_rank() || type.rank() != rank)
      return std::format("output {} is not known to have rank {}", i, rank);
    if (!is_real(type.element))
      return std::format("output {} has element type {}", i, name_of(type.element));
  }
  return std::nullopt;
}

void add_with_state(const NodeView& n, ProgramBuilder& builder, ProgramOp op,
                    std::vector<Operand> inputs, std::size_t state_rank) {
  while (inputs.back().kind == Operand::Kind::kNone) inputs.pop_back();
  const std::uint32_t result = builder.value(n.output(0));
  const std::uint32_t state = n.output(1).valid()
                                  ? builder.value(n.output(1))
                                  : builder.temporary(n.output_value(0).name + "/state",
                                                      std::vector<ProgramDim>(state_rank));
  builder.add(std::move(op), SmallList<Operand>(inputs.begin(), inputs.end()),
              SmallList<std::uint32_t>{result, state});
}

// ---- LinearAttention ----

struct LinearAttributes {
  LinearAttentionParams params;
  bool decays = false, corrects = false;
};

Read<LinearAttributes> read_linear(const NodeView& n) {
  CTXGEN_REFUSE(require_ranked(n, 0, "query", {3}));
  CTXGEN_REFUSE(require_ranked(n, 1, "key", {3}));
  CTXGEN_REFUSE(require_ranked(n, 2, "value", {3}));
  for (const std::size_t i : {0, 1, 2})
    if (n.constant(i) != nullptr) return refuse("input {} is constant", i);
  CTXGEN_REFUSE(check_optional(n, 3, "past_state", 4));
  CTXGEN_REFUSE(check_optional(n, 4, "decay", 3));
  CTXGEN_REFUSE(check_optional(n, 5, "beta", 3));
  CTXGEN_REFUSE(check_outputs(n, 4));
  const Node& node = n.node();
  LinearAttributes read;
  const std::string rule = std::string(node.string_or("update_rule", "gated_delta"));
  read.decays = rule == "gated" || rule == "gated_delta";
  read.corrects = rule == "delta" || rule == "gated_delta";
  if (!read.decays && !read.corrects && rule != "linear") return refuse("update_rule \"{}\"", rule);
  const bool decay = n.has_input(4), beta = n.has_input(5);
  const bool enough = (decay || !read.decays) && (beta || !read.corrects);
  if (!enough || (is_onnx(n) && (decay != read.decays || beta != read.corrects)))
    return refuse("decay and beta do not fit update_rule \"{}\"", rule);
  if (node.int_or("state_window", 0) != 0) return refuse("state_window");
  read.params.heads = node.int_or("q_num_heads", 0);
  read.params.states = node.int_or("kv_num_heads", 0);
  read.params.scale = double{node.float_or("scale", 0.0F)};
  constexpr std::int64_t kMostHeads = 1 << 20;
  const std::int64_t least = std::min(read.params.heads, read.params.states);
  const std::int64_t most = std::max(read.params.heads, read.params.states);
  if (least < 1 || most > kMostHeads || most % least != 0 ||
      (is_onnx(n) && read.params.heads < read.params.states))
    return refuse("{} heads of queries, {} of values", read.params.heads, read.params.states);
  return read;
}

// ---- CausalConvWithState ----

Read<CausalConvParams> read_causal(const NodeView& n) {
  CTXGEN_REFUSE(require_ranked(n, 0, "input", {3}));
  if (n.constant(0) != nullptr) return refuse("input is constant");
  CTXGEN_REFUSE(require_ranked(n, 1, "weight", {3}));
  CTXGEN_REFUSE(check_optional(n, 2, "bias", 1));
  CTXGEN_REFUSE(check_optional(n, 3, "past_state", 3));
  CTXGEN_REFUSE(check_outputs(n, 3));
  const Node& node = n.node();
  const std::string activation = std::string(node.string_or("activation", "none"));
  if (activation != "none" && activation != "silu" && activation != "swish")
    return refuse("activation \"{}\"", activation);
  if (!is_onnx(n)) {
    if (node.int_or("ndim", 1) != 1) return refuse("ndim {}", node.int_or("ndim", 1));
    if (node.int_or("state_window", 0) != 0) return refuse("state_window");
    if (node.int_or("dilation", 1) != 1) return refuse("dilation {}", node.int_or("dilation", 1));
    if (node.int_or("channels_last", 0) != 0) return refuse("channels_last");
  }
  return CausalConvParams{.swish = activation != "none"};
}

}  // namespace

Refusal check_linear_attention(const NodeView& n) { return refusal_of(read_linear(n)); }

Status lower_linear_attention(const NodeView& n, ProgramBuilder& builder) {
  const LinearAttributes read = CTXGEN_TRY(accepted(read_linear(n), n));
  ProgramOp op = builder.op(kind::kLinearAttention, n);
  encode(read.params, op);
  std::vector<Operand> inputs(6);
  for (const std::size_t i : {0, 1, 2}) inputs[i] = builder.operand(n.input(i));
  if (n.has_input(3)) inputs[3] = builder.operand(n.input(3));
  if (read.decays) inputs[4] = builder.operand(n.input(4));
  if (read.corrects) inputs[5] = builder.operand(n.input(5));
  add_with_state(n, builder, std::move(op), std::move(inputs), 4);
  return {};
}

Refusal check_causal_conv(const NodeView& n) { return refusal_of(read_causal(n)); }

Status lower_causal_conv(const NodeView& n, ProgramBuilder& builder) {
  const CausalConvParams params = CTXGEN_TRY(accepted(read_causal(n), n));
  ProgramOp op = builder.op(kind::kCausalConv, n);
  encode(params, op);
  std::vector<Operand> inputs(4);
  for (std::size_t i = 0; i < 4; ++i)
    if (n.has_input(i)) inputs[i] = builder.operand(n.input(i));
  add_with_state(n, builder, std::move(op), std::move(inputs), 3);
  return {};
}

}  // namespace ctxgen::onednn
