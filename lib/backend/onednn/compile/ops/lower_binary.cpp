#include <algorithm>
#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

std::string_view alg_of(const NodeView& n) {
  const std::string_view type = n.node().op_type;
  if (type == "Add" || type == "Sum" || type == "Mean") return "add";
  if (type == "Sub") return "sub";
  if (type == "Mul") return "mul";
  if (type == "Div") return "div";
  return type == "Max" ? "max" : "min";
}

/// How many dims of 1 must follow those of the second operand so that NumPy's rule does what the
/// `broadcast` and `axis` attributes of opsets 1 to 6 ask for.
Read<std::size_t> read_legacy_tail(const NodeView& n) {
  const Node& node = n.node();
  const std::size_t a = n.rank(0), b = n.rank(1);
  if (node.opset >= 7) return std::size_t{0};
  if (node.int_or("broadcast", 0) == 0) {
    if (a != b) return refuse("ranks {} and {} differ without broadcast", a, b);
    return std::size_t{0};
  }
  if (b > a) return refuse("second operand has the larger rank ({} and {})", a, b);
  if (node.attribute("axis") == nullptr) return std::size_t{0};
  const std::int64_t axis = CTXGEN_TRY(axis_of(node.int_or("axis", -1), a, true));
  if (static_cast<std::size_t>(axis) + b > a) {
    return refuse("axis {} with ranks {} and {}", axis, a, b);
  }
  return a - static_cast<std::size_t>(axis) - b;
}

Operand with_tail(const NodeView& n, std::size_t tail, ProgramBuilder& builder) {
  if (tail == 0) return builder.operand(n.input(1));
  const std::string name = n.input_value(1).name + "/aligned";
  if (const Tensor* constant = n.constant(1)) {
    Dims dims = constant->dims();
    for (std::size_t i = 0; i < tail; ++i) dims.push_back(1);
    return builder.weight(name, constant->with_dims(dims));
  }
  const Operand src = builder.operand(n.input(1));
  std::vector<ProgramDim> dims = builder.at(src.index).dims;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < tail; ++i) {
    axes.push_back(static_cast<std::int64_t>(dims.size()));
    dims.push_back({.value = 1});
  }
  const std::uint32_t aligned = builder.temporary(name, std::move(dims));
  ProgramOp op = builder.op(kind::kUnsqueeze, n);
  encode(AxesParams{std::move(axes)}, op);
  builder.add(std::move(op), {src}, aligned);
  return Operand::value(aligned);
}

/// A constant exponent, or nothing where it is a value.
Read<std::optional<float>> read_exponent(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0, 1})) return std::unexpected(*refusal);
  const Tensor* exponent = n.constant(1);
  if (exponent == nullptr || exponent->element_count() != 1) return std::optional<float>();
  if (exponent->rank() > n.rank(0)) return refuse("exponent has the larger rank");
  return floats_of(*exponent)[0];
}

}  // namespace

Refusal check_binary(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0, 1})) return refusal;
  return refusal_of(read_legacy_tail(n));
}

Status lower_binary(const NodeView& n, ProgramBuilder& builder) {
  const std::size_t tail = CTXGEN_TRY(accepted(read_legacy_tail(n), n));
  const Operand b = with_tail(n, tail, builder);
  builder.add_binary(n, alg_of(n), builder.operand(n.input(0)), b, builder.value(n.output(0)));
  return {};
}

Refusal check_variadic(const NodeView& n) { return require_all_f32(n); }

/// A chain over the operands; values first, so that no op has two constants.
Status lower_variadic(const NodeView& n, ProgramBuilder& builder) {
  std::vector<ValueId> ids = n.node().inputs;
  std::ranges::stable_partition(ids, [&](ValueId id) { return n.view().constant(id) == nullptr; });
  const std::uint32_t result = builder.value(n.output(0));
  const bool mean = n.node().op_type == "Mean" && ids.size() > 1;
  Operand sum = builder.operand(ids[0]);
  if (ids.size() == 1) {
    builder.add(builder.op(kind::kIdentity, n), {sum}, result);
    return {};
  }
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const bool last = i + 1 == ids.size() && !mean;
    const Operand next = builder.operand(ids[i]);
    const std::uint32_t partial =
        last ? result
             : builder.temporary(std::format("{}/{}", n.output_value(0).name, i),
                                 builder.broadcast(sum, next));
    builder.add_binary(n, alg_of(n), sum, next, partial);
    sum = Operand::value(partial);
  }
  if (mean) {
    builder.add_eltwise(n, "linear", 1.0F / static_cast<float>(ids.size()), 0.0F, sum, result);
  }
  return {};
}

Refusal check_pow(const NodeView& n) { return refusal_of(read_exponent(n)); }

/// oneDNN's pow is fast for few exponents only; the others take the C library's, in a loop.
Status lower_pow(const NodeView& n, ProgramBuilder& builder) {
  const std::optional<float> exponent = CTXGEN_TRY(accepted(read_exponent(n), n));
  const Operand src = builder.operand(n.input(0));
  const std::uint32_t result = builder.value(n.output(0));
  if (!exponent) {
    builder.add_binary(n, "power", src, builder.operand(n.input(1)), result);
  } else if (*exponent == 1.0F) {
    builder.add(builder.op(kind::kIdentity, n), {src}, result);
  } else if (*exponent == 2.0F) {
    builder.add_eltwise(n, "square", 0.0F, 0.0F, src, result);
  } else if (*exponent == 0.5F || *exponent == -1.0F) {
    builder.add_eltwise(n, "pow", 1.0F, *exponent, src, result);
  } else {
    builder.add_eltwise(n, "power", 0.0F, *exponent, src, result);
  }
  return {};
}

Refusal check_where(const NodeView& n) {
  CTXGEN_REFUSE(require_condition(n, 0));
  return require_f32(n, {1, 2});
}

Status lower_where(const NodeView& n, ProgramBuilder& builder) {
  builder.add(
      builder.op(kind::kSelect, n),
      {builder.operand(n.input(0)), builder.operand(n.input(1)), builder.operand(n.input(2))},
      builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
