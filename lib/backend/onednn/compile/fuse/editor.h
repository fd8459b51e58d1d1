#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ctxgen/base/small_list.h"

#include "../lowered.h"

namespace ctxgen::onednn {

/// Changes the ops of a program while it keeps track of who writes and reads each value.
class ProgramEditor {
 public:
  static constexpr std::uint32_t kNoOp = std::numeric_limits<std::uint32_t>::max();

  explicit ProgramEditor(Lowered& lowered);
  /// Takes the erased ops out; the others keep their order.
  ~ProgramEditor();
  ProgramEditor(const ProgramEditor&) = delete;
  ProgramEditor& operator=(const ProgramEditor&) = delete;

  [[nodiscard]] const Program& program() const { return lowered_->program; }
  [[nodiscard]] std::uint32_t op_count() const;
  [[nodiscard]] const ProgramOp& op(std::uint32_t index) const { return program().ops[index]; }
  [[nodiscard]] bool erased(std::uint32_t index) const { return op(index).kind.empty(); }

  /// The op that writes a value; kNoOp for inputs, weights and absent operands.
  [[nodiscard]] std::uint32_t producer(Operand operand) const;
  /// The ops that read a value; one that reads it twice is there twice.
  [[nodiscard]] std::span<const std::uint32_t> users(std::uint32_t value) const {
    return users_[value];
  }
  [[nodiscard]] bool is_output(std::uint32_t value) const { return is_output_[value]; }
  /// Whether `operand` is a value that one op reads once and that does not leave the program.
  [[nodiscard]] bool read_once(Operand operand) const;
  /// The op that writes `operand`, if nothing else reads it and the op has one output; else kNoOp.
  [[nodiscard]] std::uint32_t sole_producer(Operand operand) const;

  [[nodiscard]] const Tensor* weight(Operand operand) const;
  /// Errors  IO_ERROR of the spill file.
  [[nodiscard]] Result<Operand> add_weight(std::string_view name, Tensor tensor);
  [[nodiscard]] std::vector<ProgramDim> dims(Operand operand) const {
    return dims_of(program(), operand);
  }

  /// Another type and other dims of a value that is not an input or output.
  void set_value(std::uint32_t value, DataType type, std::vector<ProgramDim> dims);
  void replace(std::uint32_t index, ProgramOp op);
  void erase(std::uint32_t index);
  /// Every reader of `from` reads `to` instead. Requires that `from` is not an output.
  void redirect(std::uint32_t from, Operand to);

 private:
  void link(std::uint32_t index);
  void unlink(std::uint32_t index);

  Lowered* lowered_;
  std::vector<std::uint32_t> producers_;
  std::vector<SmallList<std::uint32_t>> users_;
  std::vector<bool> is_output_;
};

/// Calls `visit` for every operand of an op, those of its post-ops too.
template <class Op, class Visit>
void for_each_operand(Op& op, const Visit& visit) {
  for (auto& operand : op.inputs) visit(operand);
  for (auto& post : op.post_ops) visit(post.operand);
}

/// An element-wise op as kind point, which reads and writes other types than f32, too; nothing if it is none,
/// or no operand has the result's dims.
[[nodiscard]] std::optional<ProgramOp> as_point(const Program& program, const ProgramOp& op);

/// The parameters of an eltwise op as a step after another op.
[[nodiscard]] PostOp post_op_of(const ProgramOp& eltwise);
[[nodiscard]] bool is_eltwise(const ProgramOp& op, std::string_view alg);

}  // namespace ctxgen::onednn
