#include "editor.h"

#include <algorithm>
#include <string>

#include "ctxgen/onednn/op_kinds.h"

namespace ctxgen::onednn {

ProgramEditor::ProgramEditor(Lowered& lowered)
    : lowered_(&lowered),
      producers_(lowered.program.values.size(), kNoOp),
      users_(lowered.program.values.size()),
      is_output_(lowered.program.values.size(), false) {
  for (const std::uint32_t output : program().outputs) is_output_[output] = true;
  for (std::uint32_t i = 0; i < op_count(); ++i) link(i);
}

ProgramEditor::~ProgramEditor() {
  std::erase_if(lowered_->program.ops, [](const ProgramOp& op) { return op.kind.empty(); });
}

std::uint32_t ProgramEditor::op_count() const {
  return static_cast<std::uint32_t>(program().ops.size());
}

void ProgramEditor::link(std::uint32_t index) {
  const ProgramOp& op = program().ops[index];
  for (const std::uint32_t output : op.outputs) producers_[output] = index;
  for_each_operand(op, [&](const Operand& operand) {
    if (operand.kind == Operand::Kind::kValue) users_[operand.index].push_back(index);
  });
}

void ProgramEditor::unlink(std::uint32_t index) {
  const ProgramOp& op = program().ops[index];
  for (const std::uint32_t output : op.outputs) {
    if (producers_[output] == index) producers_[output] = kNoOp;
  }
  for_each_operand(op, [&](const Operand& operand) {
    if (operand.kind == Operand::Kind::kValue)
      erase_if(users_[operand.index], [index](std::uint32_t user) { return user == index; });
  });
}

std::uint32_t ProgramEditor::producer(Operand operand) const {
  return operand.kind == Operand::Kind::kValue ? producers_[operand.index] : kNoOp;
}

bool ProgramEditor::read_once(Operand operand) const {
  return operand.kind == Operand::Kind::kValue && users_[operand.index].size() == 1 &&
         !is_output_[operand.index];
}

std::uint32_t ProgramEditor::sole_producer(Operand operand) const {
  if (!read_once(operand)) return kNoOp;
  const std::uint32_t index = producer(operand);
  return index != kNoOp && op(index).outputs.size() == 1 ? index : kNoOp;
}

const Tensor* ProgramEditor::weight(Operand operand) const {
  return operand.kind == Operand::Kind::kWeight ? &lowered_->weights[operand.index] : nullptr;
}

void ProgramEditor::set_value(std::uint32_t value, DataType type, std::vector<ProgramDim> dims) {
  ProgramValue& changed = lowered_->program.values[value];
  changed.type = type;
  changed.dims = std::move(dims);
}

Result<Operand> ProgramEditor::add_weight(std::string_view name, Tensor tensor) {
  const auto index = static_cast<std::uint32_t>(lowered_->weights.size());
  Tensor kept = CTXGEN_TRY(keep_in(lowered_->spill, std::move(tensor)));
  lowered_->program.weights.push_back(
      {.name = std::string(name), .type = kept.type(), .dims = kept.dims(), .packed = {}});
  lowered_->weights.push_back(std::move(kept));
  return Operand::weight(index);
}

void ProgramEditor::replace(std::uint32_t index, ProgramOp op) {
  unlink(index);
  lowered_->program.ops[index] = std::move(op);
  link(index);
}

void ProgramEditor::erase(std::uint32_t index) { replace(index, {}); }

void ProgramEditor::redirect(std::uint32_t from, Operand to) {
  const SmallList<std::uint32_t> readers = users_[from];
  for (const std::uint32_t reader : readers) {
    ProgramOp changed = op(reader);
    for_each_operand(changed, [&](Operand& operand) {
      if (operand == Operand::value(from)) operand = to;
    });
    replace(reader, std::move(changed));
  }
}

PostOp post_op_of(const ProgramOp& eltwise) {
  return {.kind = std::string(text_param(eltwise, "alg")),
          .alpha = float_param(eltwise, "alpha"),
          .beta = float_param(eltwise, "beta"),
          .operand = {}};
}

bool is_eltwise(const ProgramOp& op, std::string_view alg) {
  return op.kind == kind::kEltwise && text_param(op, "alg") == alg;
}

}  // namespace ctxgen::onednn
