#include <algorithm>
#include <limits>

#include "editor.h"
#include "fuse.h"

namespace ctxgen::onednn {

namespace {

constexpr std::uint32_t kUnused = std::numeric_limits<std::uint32_t>::max();

/// Drops, from the last op to the first, those whose results nothing reads.
void drop_dead_ops(Lowered& lowered) {
  ProgramEditor editor(lowered);
  for (std::uint32_t i = editor.op_count(); i-- > 0;) {
    const bool needed = std::ranges::any_of(editor.op(i).outputs, [&](std::uint32_t value) {
      return editor.is_output(value) || !editor.users(value).empty();
    });
    if (!needed) editor.erase(i);
  }
}

/// New numbers for what is marked, in the old order.
std::vector<std::uint32_t> renumber(std::vector<bool> used) {
  std::vector<std::uint32_t> numbers(used.size(), kUnused);
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) numbers[i] = next++;
  }
  return numbers;
}

template <class T>
void keep(std::vector<T>& items, const std::vector<std::uint32_t>& numbers) {
  std::vector<T> kept;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (numbers[i] != kUnused) kept.push_back(std::move(items[i]));
  }
  items = std::move(kept);
}

void compact_values(Program& program) {
  std::vector<bool> used(program.values.size(), false);
  for (const std::uint32_t value : program.inputs) used[value] = true;
  for (const ProgramOp& op : program.ops) {
    for (const std::uint32_t value : op.outputs) used[value] = true;
  }
  const std::vector<std::uint32_t> numbers = renumber(std::move(used));
  keep(program.values, numbers);
  for (std::uint32_t& value : program.inputs) value = numbers[value];
  for (std::uint32_t& value : program.outputs) value = numbers[value];
  for (ProgramOp& op : program.ops) {
    for (std::uint32_t& value : op.outputs) value = numbers[value];
    for_each_operand(op, [&](Operand& operand) {
      if (operand.kind == Operand::Kind::kValue) operand.index = numbers[operand.index];
    });
  }
}

void compact_weights(Lowered& lowered) {
  std::vector<bool> used(lowered.weights.size(), false);
  for (const ProgramOp& op : lowered.program.ops) {
    for_each_operand(op, [&](const Operand& operand) {
      if (operand.kind == Operand::Kind::kWeight) used[operand.index] = true;
    });
  }
  const std::vector<std::uint32_t> numbers = renumber(std::move(used));
  keep(lowered.program.weights, numbers);
  keep(lowered.weights, numbers);
  for (ProgramOp& op : lowered.program.ops) {
    for_each_operand(op, [&](Operand& operand) {
      if (operand.kind == Operand::Kind::kWeight) operand.index = numbers[operand.index];
    });
  }
}

void compact_symbols(Program& program) {
  std::vector<bool> used(program.symbols.size(), false);
  for (const ProgramValue& value : program.values) {
    for (const ProgramDim& dim : value.dims) {
      if (dim.symbol >= 0) used[static_cast<std::size_t>(dim.symbol)] = true;
    }
  }
  const std::vector<std::uint32_t> numbers = renumber(std::move(used));
  keep(program.symbols, numbers);
  for (ProgramValue& value : program.values) {
    for (ProgramDim& dim : value.dims) {
      if (dim.symbol < 0) continue;
      dim.symbol = static_cast<std::int32_t>(numbers[static_cast<std::size_t>(dim.symbol)]);
    }
  }
}

}  // namespace

void compact(Lowered& lowered) {
  drop_dead_ops(lowered);
  compact_values(lowered.program);
  compact_weights(lowered);
  compact_symbols(lowered.program);
}

}  // namespace ctxgen::onednn
