#include "run/run_lengths.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

#include "ctxgen/onednn/dim_code.h"

#include "plan/dim_params.h"
#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

constexpr std::uint32_t kNoInput = UINT32_MAX;
constexpr std::uint32_t kAllDims = UINT32_MAX;
constexpr auto kDimWord = static_cast<std::int64_t>(DimWord::kDim);

using Op = RunLengths::Op;
using Cache = RunLengths::Cache;

std::size_t dim_of(int axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(rank) : axis);
}

/// A parameter, or nothing.
IntList list_of(const ProgramOp& op, std::string_view name) {
  IntList list;
  ParamReader reader(op);
  reader(name, list);
  return std::move(reader).status() ? list : IntList();
}

/// Looks for ops whose numbers all come from the program's inputs, then for dims of inputs that only
/// those read.
class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program), readers_(program.values.size()), fixed_(program.inputs.size()) {
    for (std::uint32_t i = 0; i < program.inputs.size(); ++i) input_of_[program.inputs[i]] = i;
    for (const ProgramOp& op : program.ops) {
      for (const Operand& operand : op.inputs) count(operand);
      for (const PostOp& post : op.post_ops) count(post.operand);
    }
  }

  std::vector<Op> ops() {
    std::vector<Op> found;
    for (std::uint32_t i = 0; i < program_.ops.size(); ++i) {
      auto op = describe(i);
      see_operands(program_.ops[i], op.has_value());
      if (op) found.push_back(*std::move(op));
    }
    for (const std::uint32_t value : program_.outputs) fix(value, kAllDims);
    return found;
  }
  [[nodiscard]] std::vector<Cache> caches(std::span<const Op> ops) const {
    std::vector<Cache> found;
    for (std::size_t place = 0; place < ops.size(); ++place) {
      const ProgramOp& op = program_.ops[ops[place].op];
      const LengthRule& rule = *find_kind(op.kind)->lengths;
      const std::size_t count = std::min(rule.caches, ops[place].outputs.size());
      std::vector<Cache> own;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t input = ops[place].sources[i].input;
        const Op::Output& output = ops[place].outputs[i];
        if (input != kNoInput && readers_[program_.inputs[input]] == 1 &&
            !std::ranges::contains(program_.outputs, program_.inputs[input]))
          own.push_back({input, output.index, output.axis, place});
      }
      if (own.size() == rule.caches) found.insert(found.end(), own.begin(), own.end());
    }
    return found;
  }
  /// After ops(): dims of each input that are not numbers of a run.
  [[nodiscard]] const std::vector<std::uint32_t>& fixed() const { return fixed_; }

 private:
  void count(const Operand& operand) {
    if (operand.kind == Operand::Kind::kValue) readers_[operand.index] += 1;
  }
  [[nodiscard]] std::uint32_t input_of(const Operand& operand) const {
    if (operand.kind != Operand::Kind::kValue) return kNoInput;
    const auto found = input_of_.find(operand.index);
    return found == input_of_.end() ? kNoInput : found->second;
  }
  void fix(std::uint32_t value, std::uint32_t dims) {
    if (const auto found = input_of_.find(value); found != input_of_.end())
      fixed_[found->second] |= dims;
  }
  void fix(const Operand& operand, std::uint32_t dims) {
    if (operand.kind == Operand::Kind::kValue) fix(operand.index, dims);
  }
  [[nodiscard]] const ProgramValue& input_value(std::uint32_t input) const {
    return program_.values[program_.inputs[input]];
  }

  /// The output of the program that a result is, if it is that and nothing else.
  [[nodiscard]] std::optional<std::uint32_t> only_output(std::uint32_t value) const {
    const auto at = std::ranges::find(program_.outputs, value);
    if (at == program_.outputs.end() || readers_[value] != 0 ||
        std::ranges::count(program_.outputs, value) != 1)
      return std::nullopt;
    return static_cast<std::uint32_t>(at - program_.outputs.begin());
  }

  [[nodiscard]] std::optional<Op::Source> source_of(const Operand& operand, int axis) const {
    if (operand.kind == Operand::Kind::kNone) return Op::Source{};
    if (operand.kind == Operand::Kind::kWeight) {
      const Dims& dims = program_.weights[operand.index].dims;
      const std::size_t dim = dim_of(axis, dims.size());
      return Op::Source{.constant = dim < dims.size() ? dims[dim] : 1};
    }
    const std::uint32_t input = input_of(operand);
    if (input == kNoInput || !input_value(input).has_rank) return std::nullopt;
    const std::size_t rank = input_value(input).dims.size();
    if (dim_of(axis, rank) >= rank) return std::nullopt;
    return Op::Source{.input = input, .axis = axis};
  }

  std::optional<Op> describe(std::uint32_t index) const {
    const ProgramOp& op = program_.ops[index];
    const KindRow* row = find_kind(op.kind);
    if (row == nullptr || row->lengths == nullptr || !op.post_ops.empty()) return std::nullopt;
    const LengthRule& rule = *row->lengths;
    Op found;
    found.op = index;
    const std::size_t own = op.inputs.size() - sized_inputs(op);
    for (const LengthRule::Axis& axis : rule.inputs) {
      const Operand operand = axis.of < own ? op.inputs[axis.of] : Operand{};
      auto source = source_of(operand, axis.axis);
      if (axis.may_be_inside && (!source || operand.kind == Operand::Kind::kNone))
        source = Op::Source{.constant = -1};
      if (!source) return std::nullopt;
      found.sources.push_back(*source);
    }
    found.code = list_of(op, std::string(rule.code) + std::string(kDimCodeSuffix));
    const IntList constant = list_of(op, rule.code);
    if (!constant.empty())
      found.code = {static_cast<std::int64_t>(DimWord::kNumber), constant[0], 0};
    for (const Operand& operand : op.inputs) found.operand_inputs.push_back(input_of(operand));
    for (std::size_t i = 0; i + 2 < found.code.size(); i += 3) {
      const std::int64_t operand = found.code[i + 1];
      if (found.code[i] != kDimWord) continue;
      if (operand < 0 || static_cast<std::size_t>(operand) >= op.inputs.size() ||
          found.operand_inputs[static_cast<std::size_t>(operand)] == kNoInput)
        return std::nullopt;
    }
    for (const LengthRule::Axis& axis : rule.outputs) {
      if (axis.of >= op.outputs.size()) continue;  // no cache
      const auto output = only_output(op.outputs[axis.of]);
      if (!output) return std::nullopt;
      found.outputs.push_back({*output, static_cast<std::size_t>(axis.axis)});
    }
    return found;
  }

  /// The dims of operand `i` that are numbers of a run: none, where the value's rank is smaller or not known.
  static std::uint32_t numbers_of(const LengthRule& rule, std::size_t i,
                                  const ProgramValue& value) {
    std::uint32_t dims = 0;
    for (const LengthRule::Axis& axis : rule.inputs)
      if (const std::size_t dim = dim_of(axis.axis, value.dims.size());
          axis.of == i && dim < value.dims.size())
        dims |= 1U << dim;
    return dims;
  }

  /// Dims of inputs that the op reads otherwise than as numbers of a run.
  void see_operands(const ProgramOp& op, bool has_numbers) {
    for (const PostOp& post : op.post_ops) fix(post.operand, kAllDims);
    const std::size_t own = op.inputs.size() - sized_inputs(op);
    const LengthRule* rule = has_numbers ? find_kind(op.kind)->lengths : nullptr;
    for (std::size_t i = 0; i < own; ++i) {
      std::uint32_t dims = kAllDims;
      const std::uint32_t input = input_of(op.inputs[i]);
      if (rule != nullptr && input != kNoInput) dims &= ~numbers_of(*rule, i, input_value(input));
      fix(op.inputs[i], dims);
    }
    for (const ProgramParam& param : op.params)
      if (param.name.view().ends_with(kDimCodeSuffix)) see_code(op, param.name.view(), rule);
  }

  void see_code(const ProgramOp& op, std::string_view name, const LengthRule* rule) {
    const std::string_view what = name.substr(0, name.size() - kDimCodeSuffix.size());
    if (rule != nullptr && what == rule->code) return;
    const IntList code = list_of(op, name);
    for (std::size_t i = 0; i + 2 < code.size(); i += 3) {
      const bool reads = code[i] == kDimWord && code[i + 1] >= 0 &&
                         static_cast<std::size_t>(code[i + 1]) < op.inputs.size() &&
                         code[i + 2] >= 0 && code[i + 2] < 32;
      if (reads) fix(op.inputs[static_cast<std::size_t>(code[i + 1])], 1U << code[i + 2]);
    }
  }

  const Program& program_;
  std::unordered_map<std::uint32_t, std::uint32_t> input_of_;  // by value
  std::vector<std::uint32_t> readers_;                         // per value
  std::vector<std::uint32_t> fixed_;                           // per input, one bit per dim
};

}  // namespace

RunLengths RunLengths::find(const Program& program) {
  RunLengths lengths;
  Finder finder(program);
  lengths.ops_ = finder.ops();
  if (lengths.ops_.empty()) return lengths;
  lengths.caches_ = finder.caches(lengths.ops_);
  lengths.varying_.resize(program.inputs.size());
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramValue& value = program.values[program.inputs[i]];
    for (std::size_t axis = 0; value.has_rank && axis < value.dims.size(); ++axis)
      if (value.dims[axis].value < 0 && (finder.fixed()[i] >> axis & 1U) == 0)
        lengths.varying_[i] |= 1U << axis;
  }
  const bool none_varies =
      std::ranges::all_of(lengths.varying_, [](std::uint32_t dims) { return dims == 0; });
  if (none_varies && lengths.caches_.empty()) return {};
  return lengths;
}

std::optional<std::size_t> RunLengths::place_of(std::uint32_t op) const {
  const auto at = std::ranges::find(ops_, op, &Op::op);
  if (at == ops_.end()) return std::nullopt;
  return static_cast<std::size_t>(at - ops_.begin());
}

bool RunLengths::hold_for(const Plan& plan) const {
  const auto varies_in = [&](const Arg& arg) {
    if (arg.location.kind != Location::Kind::kBuffer) return false;
    const Buffer& buffer = plan.buffers[arg.location.index];
    if (buffer.kind == Buffer::Kind::kInput) return varying_[buffer.index] != 0;
    return buffer.kind == Buffer::Kind::kOutput && std::ranges::any_of(ops_, [&](const Op& op) {
             return std::ranges::contains(op.outputs, buffer.index, &Op::Output::index);
           });
  };
  const auto has_numbers = [](const Arg& arg) {
    return arg.location.kind == Location::Kind::kNumbers;
  };
  return ops_.empty() || std::ranges::all_of(plan.steps, [&](const Step& step) {
           return std::ranges::any_of(step.args, has_numbers) ||
                  std::ranges::none_of(step.args, varies_in);
         });
}

bool RunLengths::fit(std::span<const Dims> dims, std::span<const TensorView> inputs) const {
  if (dims.size() != inputs.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dims& given = inputs[i].dims;
    if (dims[i].size() != given.size()) return false;
    for (std::size_t axis = 0; axis < given.size(); ++axis)
      if (dims[i][axis] != given[axis] && !varies(i, axis)) return false;
  }
  return true;
}

Status RunLengths::read(const Program& program, std::span<const TensorView> inputs,
                        std::span<Numbers> numbers) const {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const Op& op = ops_[i];
    std::size_t at = 0;
    for (const Op::Source& source : op.sources) {
      std::int64_t number = source.constant;
      if (source.input != kNoInput) {
        const Dims& dims = inputs[source.input].dims;
        number = dims[dim_of(source.axis, dims.size())];
      }
      numbers[i][at++] = number;
    }
    const auto dims_of = [&](std::int64_t operand) -> const Dims* {
      const auto place = static_cast<std::size_t>(operand);
      if (place >= op.operand_inputs.size() || op.operand_inputs[place] == kNoInput) return nullptr;
      return &inputs[op.operand_inputs[place]].dims;
    };
    numbers[i][at++] =
        op.code.empty()
            ? -1
            : CTXGEN_TRY(run_dim_code_for_one(op.code, dims_of, program.ops[op.op].name));
    for (; at < kRunNumbers; ++at) numbers[i][at] = 0;
  }
  return {};
}

}  // namespace ctxgen::onednn
