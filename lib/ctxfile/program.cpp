#include "ctxgen/ctxfile/program.h"

#include <set>

namespace ctxgen {
namespace {

std::unexpected<Error> broken(std::string message) {
  return std::unexpected(Error{ErrorCode::kCorruptContext, std::move(message)});
}

/// One rule of program.h per member; a message names the part, check() adds the program.
class Validator {
 public:
  Validator(const Program& program, std::uint64_t blob_count)
      : program_(program), blob_count_(blob_count), written_(program.values.size(), false) {}

  Status check() {
    if (program_.name.empty()) return broken("it has no name");
    if (program_.outputs.empty()) return broken("it has no output");
    for (std::size_t i = 0; i < program_.values.size(); ++i) CTXGEN_CHECK(check_value(i));
    for (std::size_t i = 0; i < program_.weights.size(); ++i) CTXGEN_CHECK(check_weight(i));
    CTXGEN_CHECK(check_inputs());
    for (std::size_t i = 0; i < program_.ops.size(); ++i) CTXGEN_CHECK(check_op(i));
    for (std::size_t i = 0; i < written_.size(); ++i)
      if (!written_[i])
        return broken(std::format("{} is neither an input nor the output of an op", value_name(i)));
    CTXGEN_CHECK(check_outputs());
    for (std::size_t i = 0; i < program_.plans.size(); ++i) CTXGEN_CHECK(check_plan(i));
    return {};
  }

 private:
  [[nodiscard]] std::string value_name(std::size_t i) const {
    return std::format("value {} (\"{}\")", i, program_.values[i].name);
  }

  Status check_value(std::size_t i) const {
    const ProgramValue& value = program_.values[i];
    if (!is_known_data_type(static_cast<std::int64_t>(value.type)))
      return broken(std::format("{}: data type {} is not known", value_name(i),
                                static_cast<std::int32_t>(value.type)));
    if (value.dims.size() > kMaxRank)
      return broken(std::format("{}: rank is {}, at most {} is allowed", value_name(i),
                                value.dims.size(), kMaxRank));
    if (!value.has_rank && !value.dims.empty())
      return broken(std::format("{}: {} dims without a rank", value_name(i), value.dims.size()));
    for (const ProgramDim& dim : value.dims) {
      if (dim.value >= 0 && dim.symbol >= 0)
        return broken(std::format("{}: a dim is {} and symbol {} at once", value_name(i), dim.value,
                                  dim.symbol));
      if (dim.symbol >= 0 && static_cast<std::size_t>(dim.symbol) >= program_.symbols.size())
        return broken(
            std::format("{}: symbol {} of {}", value_name(i), dim.symbol, program_.symbols.size()));
    }
    return {};
  }

  Status check_weight(std::size_t i) const {
    const ProgramWeight& weight = program_.weights[i];
    const std::string name = std::format("weight {} (\"{}\")", i, weight.name);
    if (!is_known_data_type(static_cast<std::int64_t>(weight.type)) ||
        weight.type == DataType::kString)
      return broken(std::format("{}: data type {} cannot be a weight's", name,
                                static_cast<std::int32_t>(weight.type)));
    const auto bytes = checked_size_bytes(weight.type, weight.dims);
    if (!bytes || *bytes > kMaxTensorBytes)
      return broken(std::format("{}: dims {} are out of range", name, to_string(weight.dims)));
    if (weight.packed.empty()) return broken(std::format("{}: it is stored in no form", name));
    for (const PackedWeight& packed : weight.packed) {
      if (packed.blob.is_in_store()) return broken(std::format("{}: it has no blob index", name));
      if (const BlobIndex blob = packed.blob.bin_index(); blob.value >= blob_count_)
        return broken(std::format("{}: blob {} of {}", name, blob.value, blob_count_));
    }
    return {};
  }

  /// Marks a value as written, once.
  Status write(std::uint32_t index, std::string_view by) {
    if (index >= written_.size())
      return broken(std::format("{}: value {} of {}", by, index, written_.size()));
    if (written_[index])
      return broken(std::format("{}: {} is written already", by, value_name(index)));
    written_[index] = true;
    return {};
  }

  Status check_inputs() {
    for (std::uint32_t input : program_.inputs) {
      CTXGEN_CHECK(write(input, "inputs"));
      CTXGEN_CHECK(check_interface_name(input));
    }
    inputs_ = written_;
    return {};
  }

  /// The interface is matched by name; values without one (tests, generated ones) by position.
  Status check_interface_name(std::uint32_t index) {
    const std::string& name = program_.values[index].name;
    if (name.empty() || names_.insert(name).second) return {};
    return broken(std::format("two inputs or outputs are named \"{}\"", name));
  }

  Status check_outputs() {
    std::vector<bool> seen(program_.values.size(), false);
    for (std::uint32_t output : program_.outputs) {
      if (output >= seen.size())
        return broken(std::format("outputs: value {} of {}", output, seen.size()));
      // An executor gives an output memory of its own, which nothing would fill.
      if (inputs_[output]) return broken(std::format("output {} is an input", value_name(output)));
      if (seen[output]) return broken(std::format("output {} is listed twice", value_name(output)));
      seen[output] = true;
      CTXGEN_CHECK(check_interface_name(output));
    }
    return {};
  }

  Status check_operand(const Operand& operand, std::string_view op) const {
    switch (operand.kind) {
      case Operand::Kind::kNone: return {};
      case Operand::Kind::kWeight:
        if (operand.index < program_.weights.size()) return {};
        return broken(
            std::format("{}: weight {} of {}", op, operand.index, program_.weights.size()));
      case Operand::Kind::kValue:
        if (operand.index >= written_.size())
          return broken(std::format("{}: value {} of {}", op, operand.index, written_.size()));
        if (written_[operand.index]) return {};
        return broken(
            std::format("{}: {} is read before it is written", op, value_name(operand.index)));
    }
    return broken(std::format("{}: an operand of kind {}", op, static_cast<int>(operand.kind)));
  }

  Status check_op(std::size_t i) {
    const ProgramOp& op = program_.ops[i];
    const std::string name = std::format("op {} (\"{}\", {})", i, op.name, op.kind);
    if (op.kind.empty()) return broken(std::format("{}: it has no kind", name));
    if (op.outputs.empty()) return broken(std::format("{}: it has no output", name));
    for (const Operand& input : op.inputs) CTXGEN_CHECK(check_operand(input, name));
    for (const PostOp& post_op : op.post_ops) CTXGEN_CHECK(check_operand(post_op.operand, name));
    for (std::uint32_t output : op.outputs) CTXGEN_CHECK(write(output, name));
    return {};
  }

  Status check_plan(std::size_t i) const {
    const StoredPlan& plan = program_.plans[i];
    if (plan.input_dims.size() != program_.inputs.size())
      return broken(std::format("plan {}: dims of {} inputs, expected {}", i,
                                plan.input_dims.size(), program_.inputs.size()));
    if (plan.arena_bytes > kMaxTensorBytes || plan.scratch_bytes > kMaxTensorBytes)
      return broken(std::format("plan {}: {} bytes of arena and {} of scratch, at most {} allowed",
                                i, plan.arena_bytes, plan.scratch_bytes, kMaxTensorBytes));
    for (std::size_t input = 0; input < plan.input_dims.size(); ++input)
      if (!fits(plan.input_dims[input], program_.values[program_.inputs[input]]))
        return broken(std::format("plan {}: dims {} do not fit input {}", i,
                                  to_string(plan.input_dims[input]), input));
    return {};
  }

  static bool fits(const Dims& dims, const ProgramValue& value) {
    const auto bytes = checked_size_bytes(value.type, dims);
    if (!bytes || *bytes > kMaxTensorBytes) return false;
    if (!value.has_rank) return true;
    if (dims.size() != value.dims.size()) return false;
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (value.dims[i].value >= 0 && value.dims[i].value != dims[i]) return false;
    return true;
  }

  const Program& program_;
  std::uint64_t blob_count_;
  std::vector<bool> written_;  // by the inputs and the ops so far
  std::vector<bool> inputs_;
  std::set<std::string_view> names_;
};

}  // namespace

Status validate(const Program& program, std::uint64_t blob_count) {
  CTXGEN_CHECK_AT(Validator(program, blob_count).check(), "program \"{}\"", program.name);
  return {};
}

}  // namespace ctxgen
