#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lowered.h"
#include "node_view.h"

namespace ctxgen::onednn {

/// Collects the ops of one partition while its nodes are lowered in topological order.
class ProgramBuilder {
 public:
  /// `spill` keeps the weights that are made (not owned; null: in memory).
  explicit ProgramBuilder(const GraphView& view, SpillFile* spill = nullptr);

  void add_input(ValueId id);
  void add_output(ValueId id);

  /// What an op reads for a graph value: a weight if it is constant, nothing if `id` is absent.
  [[nodiscard]] Operand operand(ValueId id);
  /// The program value that stands for a graph value; made on the first call.
  [[nodiscard]] std::uint32_t value(ValueId id);
  /// A value that has no counterpart in the graph.
  [[nodiscard]] std::uint32_t temporary(std::string_view name, std::vector<ProgramDim> dims,
                                        DataType type = DataType::kFloat);
  /// float16 tensors become float32 ones, in which everything is computed.
  [[nodiscard]] Operand weight(std::string_view name, const Tensor& tensor);
  /// As it is, whatever its type.
  [[nodiscard]] Operand stored_weight(std::string_view name, Tensor tensor);
  void note_quantized(Operand weight, QuantizedWeight quantized);

  /// An op of a node, not yet added.
  [[nodiscard]] ProgramOp op(std::string_view kind, const NodeView& n) const;
  void add(ProgramOp op, SmallList<Operand> inputs, std::uint32_t output);
  void add(ProgramOp op, SmallList<Operand> inputs, SmallList<std::uint32_t> outputs);

  [[nodiscard]] std::vector<ProgramDim> dims(std::span<const Dim> dims);
  [[nodiscard]] const ProgramValue& at(std::uint32_t value) const {
    return lowered_.program.values[value];
  }
  /// Dims of a NumPy broadcast of two operands; unknown where they cannot be told.
  [[nodiscard]] std::vector<ProgramDim> broadcast(Operand a, Operand b) const;
  /// An eltwise op from `input` to `output`.
  void add_eltwise(const NodeView& n, std::string_view alg, float alpha, float beta, Operand input,
                   std::uint32_t output);
  /// A binary op (oneDNN's name without "binary_": "add") from `a` and `b` to `output`.
  void add_binary(const NodeView& n, std::string_view alg, Operand a, Operand b,
                  std::uint32_t output);

  /// Errors  RESOURCE_LIMIT of a weight that could not be converted, IO_ERROR of the spill file.
  [[nodiscard]] Result<Lowered> finish() &&;

 private:
  [[nodiscard]] std::uint32_t half_of(std::uint32_t inner, DataType type);
  void convert(std::uint32_t from, std::uint32_t to);
  [[nodiscard]] ProgramDim dim(const Dim& dim);

  const GraphView* view_;
  Lowered lowered_;
  Status status_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> narrowed_;  // f32 result, f16 output
  std::unordered_map<ValueId, std::uint32_t> values_;
  std::unordered_map<ValueId, std::uint32_t> weights_;
  std::unordered_map<SymbolId, std::int32_t> symbols_;
};

/// Sets alg, alpha and beta of an eltwise op.
void set_eltwise(ProgramOp& op, std::string_view alg, float alpha, float beta);

}  // namespace ctxgen::onednn
