#include "ctxgen/onednn/defaults.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "ctxgen/onednn/kind_params.h"
#include "ctxgen/onednn/op_kinds.h"

#include "plan/params.h"
#include "plan/payload.h"

namespace ctxgen::onednn {
namespace {

/// Appends what one program consists of to another one that has the same inputs.
class Appender {
 public:
  Appender(Program& to, const Program& from)
      : to_(to), from_(from), weights_before_(static_cast<std::uint32_t>(to.weights.size())) {
    CTXGEN_ASSERT(to.inputs.size() == from.inputs.size());
    for (const std::string& symbol : from.symbols) symbols_.push_back(symbol_of(symbol));
    values_.assign(from.values.size(), UINT32_MAX);
    for (std::size_t i = 0; i < from.inputs.size(); ++i) values_[from.inputs[i]] = to.inputs[i];
    for (std::uint32_t v = 0; v < values_.size(); ++v)
      if (values_[v] == UINT32_MAX) values_[v] = copy_value(v);
    to.weights.insert(to.weights.end(), from.weights.begin(), from.weights.end());
    for (const ProgramOp& op : from.ops) to.ops.push_back(moved(op));
  }
  /// The value of `to` that stands for one of `from`.
  [[nodiscard]] std::uint32_t value(std::uint32_t index) const { return values_[index]; }
  /// One more value like it, which nothing writes yet.
  std::uint32_t copy_value(std::uint32_t index) {
    ProgramValue value = from_.values[index];
    for (ProgramDim& dim : value.dims)
      if (dim.symbol >= 0) dim.symbol = symbols_[static_cast<std::size_t>(dim.symbol)];
    to_.values.push_back(std::move(value));
    return static_cast<std::uint32_t>(to_.values.size() - 1);
  }

 private:
  std::int32_t symbol_of(const std::string& name) {
    const auto found = std::ranges::find(to_.symbols, name);
    const auto index = static_cast<std::int32_t>(found - to_.symbols.begin());
    if (found == to_.symbols.end()) to_.symbols.push_back(name);
    return index;
  }
  [[nodiscard]] Operand moved(Operand operand) const {
    if (operand.kind == Operand::Kind::kValue) operand.index = values_[operand.index];
    if (operand.kind == Operand::Kind::kWeight) operand.index += weights_before_;
    return operand;
  }
  [[nodiscard]] ProgramOp moved(ProgramOp op) const {
    for (Operand& operand : op.inputs) operand = moved(operand);
    for (PostOp& post : op.post_ops) post.operand = moved(post.operand);
    for (std::uint32_t& output : op.outputs) output = values_[output];
    return op;
  }

  Program& to_;
  const Program& from_;
  std::uint32_t weights_before_;
  std::vector<std::int32_t> symbols_;  // of from_, in to_
  std::vector<std::uint32_t> values_;  // likewise
};

DefaultsParams encoded(std::span<const DefaultInput> defaults) {
  DefaultsParams params;
  for (const DefaultInput& one : defaults) {
    params.inputs.push_back(one.input);
    params.high.push_back(std::bit_cast<std::int64_t>(one.content.high));
    params.low.push_back(std::bit_cast<std::int64_t>(one.content.low));
  }
  return params;
}

Result<std::vector<DefaultInput>> defaults_of(const Program& program, const ProgramOp& op) {
  const auto params = CTXGEN_TRY(decode<DefaultsParams>(op));
  const auto& [inputs, high, low] = params;
  if (inputs.empty() || inputs.size() != high.size() || inputs.size() != low.size())
    return fail(ErrorCode::kCorruptContext, "{}: {} inputs with {} and {} halves of hashes",
                label(op), inputs.size(), high.size(), low.size());
  std::vector<DefaultInput> defaults;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] < 0 || std::cmp_greater_equal(inputs[i], program.inputs.size()))
      return fail(ErrorCode::kCorruptContext, "{}: input {} of {}", label(op), inputs[i],
                  program.inputs.size());
    defaults.push_back(
        {static_cast<std::uint32_t>(inputs[i]),
         {std::bit_cast<std::uint64_t>(high[i]), std::bit_cast<std::uint64_t>(low[i])}});
  }
  return defaults;
}

/// Which ops the values of `outputs` come from. Requires  the order of a program.
std::vector<bool> ops_before(const Program& program, std::span<const std::uint32_t> outputs) {
  std::vector<bool> wanted(program.values.size(), false);
  for (const std::uint32_t output : outputs) wanted[output] = true;
  std::vector<bool> kept(program.ops.size(), false);
  const auto want = [&](const Operand& operand) {
    if (operand.kind == Operand::Kind::kValue) wanted[operand.index] = true;
  };
  for (std::size_t i = program.ops.size(); i-- > 0;) {
    const ProgramOp& op = program.ops[i];
    kept[i] = std::ranges::any_of(op.outputs, [&](std::uint32_t v) { return wanted[v]; });
    if (!kept[i]) continue;
    std::ranges::for_each(op.inputs, want);
    for (const PostOp& post : op.post_ops) want(post.operand);
  }
  return kept;
}

/// The part of the program that makes `outputs`: indices of values and weights stay, weights that it
/// does not read have no stored form.
Program part_of(const Program& program, std::vector<std::uint32_t> outputs,
                const std::vector<bool>& kept) {
  Program part{.name = program.name,
               .source = program.source,
               .symbols = program.symbols,
               .values = program.values,
               .inputs = program.inputs,
               .outputs = std::move(outputs),
               .weights = program.weights,
               .ops = {},
               .plans = {}};
  std::vector<bool> read(program.weights.size(), false);
  const auto see = [&](const Operand& operand) {
    if (operand.kind == Operand::Kind::kWeight) read[operand.index] = true;
  };
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    part.ops.push_back(program.ops[i]);
    std::ranges::for_each(program.ops[i].inputs, see);
    for (const PostOp& post : program.ops[i].post_ops) see(post.operand);
  }
  for (std::size_t w = 0; w < read.size(); ++w)
    if (!read[w]) part.weights[w].packed.clear();
  return part;
}

/// The plans of the whole program as plans of a part.
Result<std::vector<StoredPlan>> plans_of(const Program& program, const std::vector<bool>& kept) {
  std::vector<StoredPlan> plans;
  for (const StoredPlan& stored : program.plans) {
    const auto choices = CTXGEN_TRY(decode_choices(stored.payload, program.ops.size()));
    std::vector<PlanChoice> own;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) own.push_back(choices[i]);
    plans.push_back(stored);
    plans.back().payload = encode_choices(own);
  }
  return plans;
}

/// The outputs of the two ways. Errors  kCorruptContext.
using Outputs = std::vector<std::uint32_t>;
Result<std::pair<Outputs, Outputs>> ways_of(const Program& program, const ProgramOp& op) {
  const std::size_t count = program.outputs.size();
  if (op.inputs.size() != 2 * count || !std::ranges::equal(op.outputs, program.outputs))
    return fail(ErrorCode::kCorruptContext, "{}: does not make the {} outputs of the program",
                label(op), count);
  Outputs all;
  for (const Operand& operand : op.inputs) {
    if (operand.kind != Operand::Kind::kValue)
      return fail(ErrorCode::kCorruptContext, "{}: input {} is not a value", label(op), all.size());
    all.push_back(operand.index);
  }
  const auto half = all.begin() + static_cast<std::ptrdiff_t>(count);
  for (std::size_t i = 0; i < count; ++i)
    for (const std::uint32_t way : {all[i], all[i + count]})
      if (program.values[way].type != program.values[program.outputs[i]].type)
        return fail(ErrorCode::kCorruptContext, "{}: output {} has two types", label(op), i);
  return std::pair(Outputs(all.begin(), half), Outputs(half, all.end()));
}

}  // namespace

Program join_defaults(Program by_default, const Program& general,
                      std::span<const DefaultInput> defaults) {
  CTXGEN_ASSERT(by_default.outputs.size() == general.outputs.size());
  Program joined = std::move(by_default);
  const std::size_t own = joined.ops.size();
  Appender appender(joined, general);
  ProgramOp op;
  op.kind = kind::kDefaults;
  op.name = "defaults";
  encode(encoded(defaults), op);
  for (const std::uint32_t output : joined.outputs) op.inputs.push_back(Operand::value(output));
  for (const std::uint32_t output : general.outputs)
    op.inputs.push_back(Operand::value(appender.value(output)));
  joined.outputs.clear();
  for (const std::uint32_t output : general.outputs) {
    op.outputs.push_back(appender.copy_value(output));
    joined.outputs.push_back(op.outputs.back());
  }
  joined.ops.push_back(std::move(op));
  for (StoredPlan& plan : joined.plans) {
    auto choices = decode_choices(plan.payload, own);
    CTXGEN_ASSERT(choices.has_value());
    choices->resize(joined.ops.size());
    plan.payload = encode_choices(*choices);
  }
  return joined;
}

Result<std::optional<SplitProgram>> split_defaults(const Program& program) {
  const auto is_defaults = [](const ProgramOp& op) { return op.kind == kind::kDefaults; };
  const auto found = std::ranges::find_if(program.ops, is_defaults);
  if (found == program.ops.end()) return std::nullopt;
  const ProgramOp& op = *found;
  if (found + 1 != program.ops.end())
    return fail(ErrorCode::kCorruptContext, "program \"{}\": {} is not its last op", program.name,
                label(op));
  auto [first, second] = CTXGEN_TRY(ways_of(program, op));
  SplitProgram split;
  split.defaults = CTXGEN_TRY(defaults_of(program, op));
  const std::vector<bool> kept = ops_before(program, first);
  split.by_default = part_of(program, std::move(first), kept);
  split.by_default.plans = CTXGEN_TRY(plans_of(program, kept));
  const std::vector<bool> others = ops_before(program, second);
  split.general = part_of(program, std::move(second), others);
  return split;
}

}  // namespace ctxgen::onednn
