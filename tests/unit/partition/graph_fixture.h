#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/partition/partitioner.h"

namespace ctxgen {

/// A model written in one line per node: `add("A", "op", {"x"}, {"y"})`. All values are f32 [2].
class GraphFixture {
 public:
  Model model;

  void input(const std::string& name) {
    const ValueId id = value(name);
    graph().value(id).is_input = true;
    graph().inputs.push_back(id);
  }
  void output(const std::string& name) {
    const ValueId id = value(name);
    graph().value(id).is_output = true;
    graph().outputs.push_back(id);
  }
  void initializer(const std::string& name) {
    Tensor tensor = *Tensor::allocate(DataType::kFloat, {2});
    for (float& f : tensor.mutable_elements<float>()) f = 1;
    graph().value(value(name)).initializer = tensor;
  }
  void fold(const std::string& name) {
    graph().value(value(name)).folded = *Tensor::allocate(DataType::kFloat, {2});
  }
  NodeId add(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs) {
    Node node;
    node.name = name;
    node.op_type = op;
    node.opset = 20;
    for (const std::string& i : inputs) node.inputs.push_back(i.empty() ? ValueId{} : value(i));
    for (const std::string& o : outputs) node.outputs.push_back(o.empty() ? ValueId{} : value(o));
    return graph().add_node(std::move(node));
  }
  ValueId value(const std::string& name) {
    const ValueId id = graph().find_or_add(name);
    ValueType& type = graph().value(id).type;
    if (type.kind == ValueType::Kind::kUnknown)
      type = {ValueType::Kind::kTensor, DataType::kFloat, std::vector<Dim>{Dim::fixed(2)}};
    return id;
  }
  Graph& graph() { return model.graph; }

  std::vector<std::string> names(const std::vector<NodeId>& nodes) const {
    std::vector<std::string> out;
    for (NodeId id : nodes) out.push_back(model.graph.node(id).name);
    return out;
  }
  std::vector<std::string> names(const std::vector<ValueId>& values) const {
    std::vector<std::string> out;
    for (ValueId id : values) out.push_back(model.graph.value(id).name);
    return out;
  }
};

/// Claims nodes by operator name; compiles nothing (for partition tests).
class ClaimingProvider : public Provider {
 public:
  std::string name_text;
  std::vector<std::string> ops, glue_ops;
  std::vector<Claim> extra_claims;
  bool compiling = true;
  bool ignore_taken = false;  // a badly behaved provider claims what others have

  explicit ClaimingProvider(std::string name, std::vector<std::string> claimed = {},
                            std::vector<std::string> glue = {})
      : name_text(std::move(name)), ops(std::move(claimed)), glue_ops(std::move(glue)) {}

  std::string_view name() const override { return name_text; }
  std::string_view source() const override { return name_text; }
  Result<Capabilities> capabilities(const GraphView& view) const override {
    Capabilities result;
    result.claims = extra_claims;
    for (std::uint32_t n = 0; n < view.graph().node_count(); ++n) {
      const NodeId id{n};
      if (view.taken(id) && !ignore_taken) continue;
      const std::string_view op = view.graph().node(id).op_type;
      if (std::ranges::find(ops, op) != ops.end())
        result.claims.push_back({{id}, false});
      else if (std::ranges::find(glue_ops, op) != glue_ops.end())
        result.claims.push_back({{id}, true});
      else
        result.rejections.push_back({id, "not mine"});
    }
    return result;
  }
  Result<std::vector<CompiledPartition>> compile(const GraphView&, std::span<const Partition>,
                                                 const ProviderCompileOptions&,
                                                 WeightStore&) const override {
    return fail(ErrorCode::kInternal, "this provider compiles nothing");
  }
  std::vector<EpContextAttributes> context_nodes(std::span<const Program>) const override {
    return {};
  }
  bool compiles() const override { return compiling; }
  const ProgramLoader* loader() const override { return nullptr; }
};

}  // namespace ctxgen
