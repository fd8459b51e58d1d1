#include "attention_values.h"

#include <algorithm>
#include <cmath>
#include <format>

namespace ctxgen::onednn {

namespace {

Refusal check_tensor(const ValueType& type, std::string_view what,
                     std::initializer_list<std::size_t> ranks) {
  if (!type.is_tensor() || !type.has_rank()) return std::format("rank of {} is unknown", what);
  if (!is_real(type.element))
    return std::format("{} has element type {}", what, name_of(type.element));
  if (std::ranges::find(ranks, type.rank()) == ranks.end())
    return std::format("{} has rank {}", what, type.rank());
  return std::nullopt;
}

}  // namespace

Refusal require_ranked(const NodeView& n, std::size_t i, std::string_view what,
                       std::initializer_list<std::size_t> ranks) {
  if (!n.has_input(i)) return std::format("{} is absent", what);
  const Tensor* constant = n.constant(i);
  if (constant == nullptr) return check_tensor(n.input_value(i).type, what, ranks);
  if (!is_real(constant->type()))
    return std::format("{} has element type {}", what, name_of(constant->type()));
  if (std::ranges::find(ranks, constant->rank()) == ranks.end())
    return std::format("{} has rank {}", what, constant->rank());
  return std::nullopt;
}

Refusal require_present(const NodeView& n, DataType integers) {
  for (const std::size_t i : {1, 2}) {
    if (!n.output(i).valid()) continue;
    const ValueType& type = n.output_value(i).type;
    if (integers == DataType::kUndefined)
      CTXGEN_REFUSE(check_tensor(type, "present", {4}));
    else if (!type.is_tensor() || type.element != integers || !type.has_rank() || type.rank() != 4)
      return std::format("present is not {} of rank 4", name_of(integers));
  }
  return std::nullopt;
}

Read<double> read_key_mask(const NodeView& n, std::size_t i) {
  CTXGEN_REFUSE(require_value(n, i, {DataType::kInt32}));
  if (n.rank(i) != 2) return refuse("a mask of keys of rank {}", n.rank(i));
  const double value = double{n.node().float_or("mask_filter_value", -10000.0F)};
  if (!(value < 0) || !std::isfinite(value)) return refuse("mask_filter_value {}", value);
  return value;
}

bool is_empty(const NodeView& n, std::size_t i) {
  return std::ranges::any_of(n.input_dims(i),
                             [](const Dim& dim) { return dim.is_fixed() && dim.value() == 0; });
}

void add_attention(const NodeView& n, ProgramBuilder& builder, ProgramOp op,
                   const AttentionInputs& inputs, bool present, std::span<const Operand> sized,
                   DataType cache) {
  std::vector<Operand> operands(inputs.begin(), inputs.end());
  if (sized.empty())
    while (operands.back().kind == Operand::Kind::kNone) operands.pop_back();
  operands.insert(operands.end(), sized.begin(), sized.end());
  std::vector<std::uint32_t> outputs{builder.value(n.output(0))};
  for (const std::size_t i : {1, 2}) {
    if (!present) break;
    outputs.push_back(n.output(i).valid() ? builder.value(n.output(i))
                                          : builder.temporary(n.output_value(0).name + "/present",
                                                              std::vector<ProgramDim>(4), cache));
  }
  if (find_param(op, "logits") != nullptr) outputs.push_back(builder.value(n.output(3)));
  builder.add(std::move(op), SmallList<Operand>(operands.begin(), operands.end()),
              SmallList<std::uint32_t>(outputs.begin(), outputs.end()));
}

}  // namespace ctxgen::onednn
