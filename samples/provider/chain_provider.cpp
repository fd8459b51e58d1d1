#include "chain_provider.h"

#include <map>
#include <optional>
#include <utility>

#include "chain_loader.h"

namespace chain {
namespace {

using namespace ctxgen;

struct Row {
  std::string_view op_type, kind;
  std::int64_t since_min, since_max;
  std::string_view limits;
};

/// The operator table, sorted by operator.
constexpr Row kRows[] = {
    {"Abs", kAbs, 6, 13, "float32; fixed shape"},
    {"Add", kAdd, 7, 14, "float32; fixed shape; B constant, of A's shape"},
    {"Neg", kNeg, 6, 13, "float32; fixed shape"},
};

const Row* find_row(const Node& node) {
  for (const Row& row : kRows)
    if (node.domain.empty() && node.op_type == row.op_type && node.opset >= row.since_min)
      return &row;
  return nullptr;
}

/// The dims of a float32 value of fixed shape.
std::optional<Dims> float_dims(const GraphView& view, ValueId id) {
  if (!id.valid()) return std::nullopt;
  const ValueType& type = view.graph().value(id).type;
  if (!type.is_tensor() || type.element != DataType::kFloat) return std::nullopt;
  return type.fixed_dims();
}

/// Why a node is not taken: a line of `ctxgen explain`. Empty: it is.
std::string refusal(const GraphView& view, const Node& node) {
  const Row* row = find_row(node);
  if (row == nullptr) return "operator is not in the table";
  const auto dims = float_dims(view, node.input(0));
  if (!dims) return "input is not float32 of fixed shape";
  if (view.constant(node.input(0)) != nullptr) return "input is constant";
  if (row->kind != kAdd) return "";
  const Tensor* summand = view.constant(node.input(1));
  if (summand == nullptr) return "B is not constant";
  if (summand->dims() != *dims) return "B has another shape than A";
  return "";
}

/// One partition as a program. Its values and weights are numbered as they are met.
class Lowering {
 public:
  Lowering(const GraphView& view, WeightStore& store) : view_(view), store_(store) {}

  [[nodiscard]] Result<Program> run(const Partition& partition) {
    for (const ValueId id : partition.inputs) program_.inputs.push_back(value(id));
    for (const NodeId id : partition.nodes) CTXGEN_CHECK(add(view_.graph().node(id)));
    for (const ValueId id : partition.outputs) program_.outputs.push_back(value(id));
    return std::move(program_);
  }

 private:
  [[nodiscard]] Status add(const Node& node) {
    ProgramOp op;
    op.kind = find_row(node)->kind;
    op.name = node.name;
    op.inputs.push_back(Operand::value(value(node.inputs[0])));
    if (op.kind == kAdd) op.inputs.push_back(CTXGEN_TRY(weight(node.inputs[1])));
    op.outputs.push_back(value(node.outputs[0]));
    program_.ops.push_back(std::move(op));
    return {};
  }

  std::uint32_t value(ValueId id) {
    const auto [at, added] =
        values_.try_emplace(id.index, static_cast<std::uint32_t>(program_.values.size()));
    if (added) {
      ProgramValue entry{
          .name = view_.graph().value(id).name, .type = DataType::kFloat, .dims = {}};
      for (const std::int64_t dim : *float_dims(view_, id)) entry.dims.push_back({.value = dim});
      program_.values.push_back(std::move(entry));
    }
    return at->second;
  }

  /// The store keeps equal weights once, of other partitions and models too.
  [[nodiscard]] Result<Operand> weight(ValueId id) {
    const Tensor& tensor = *view_.constant(id);
    const StoreId blob = CTXGEN_TRY(store_.add({tensor.owner(), tensor.bytes()}));
    program_.weights.push_back({.name = view_.graph().value(id).name,
                                .type = DataType::kFloat,
                                .dims = tensor.dims(),
                                .packed = {{.layout = {}, .blob = blob}}});
    return Operand::weight(static_cast<std::uint32_t>(program_.weights.size() - 1));
  }

  const GraphView& view_;
  WeightStore& store_;
  Program program_;
  std::map<std::uint32_t, std::uint32_t> values_;  // ValueId -> index into Program::values
};

class ChainProvider final : public Provider {
 public:
  [[nodiscard]] std::string_view name() const override { return "chain"; }
  [[nodiscard]] std::string_view source() const override { return kSource; }
  [[nodiscard]] const ProgramLoader* loader() const override { return &chain::loader(); }

  [[nodiscard]] Result<Capabilities> capabilities(const GraphView& view) const override {
    Capabilities capabilities;
    for (std::uint32_t i = 0; i < view.graph().node_count(); ++i) {
      const NodeId id{i};
      if (view.taken(id)) continue;
      std::string reason = refusal(view, view.graph().node(id));
      if (reason.empty())
        capabilities.claims.push_back({.nodes = {id}, .glue = false});
      else
        capabilities.rejections.push_back({.node = id, .reason = std::move(reason)});
    }
    return capabilities;
  }

  [[nodiscard]] Result<std::vector<CompiledPartition>> compile(
      const GraphView& view, std::span<const Partition> partitions, const ProviderCompileOptions&,
      WeightStore& store) const override {
    std::vector<CompiledPartition> compiled;
    for (const Partition& partition : partitions)
      compiled.push_back({.program = CTXGEN_TRY(Lowering(view, store).run(partition))});
    return compiled;
  }

  [[nodiscard]] std::vector<EpContextAttributes> context_nodes(
      std::span<const Program> programs) const override {
    return std::vector<EpContextAttributes>(programs.size());
  }

  [[nodiscard]] ProviderInfo info() const override { return {.library = "chain 1"}; }

  [[nodiscard]] std::vector<OperatorInfo> operators() const override {
    std::vector<OperatorInfo> operators;
    for (const Row& row : kRows)
      operators.push_back({.domain = "",
                           .op_type = row.op_type,
                           .since_min = row.since_min,
                           .since_max = row.since_max,
                           .joins = false,
                           .limits = row.limits});
    return operators;
  }
};

}  // namespace

std::unique_ptr<Provider> make_provider() { return std::make_unique<ChainProvider>(); }

}  // namespace chain
