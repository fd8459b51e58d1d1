#include "skeleton.h"

#include <algorithm>
#include <exception>
#include <map>

#include <onnx/defs/schema.h>

#include "ctxgen/graph/folding.h"

#include "contrib_schemas.h"
#include "inference_guard.h"

namespace ctxgen {
namespace {

// Nodes that inference must not look at go here: those that mean another version than the model
// imports (from functions), so that they are not taken for what they are not, and those that the
// library's shape functions do not stand: they trust that nodes keep their schema.
constexpr const char* kOpaqueDomain = "ctxgen.opaque";

bool keeps_schema(const onnx::NodeProto& node, std::int64_t opset) {
  // The schemas of our own are functions alone, which trust nothing.
  const int version = static_cast<int>(opset);
  const onnx::OpSchema* schema = inference_schema(node.op_type(), version, node.domain());
  if (schema != onnx::OpSchemaRegistry::Schema(node.op_type(), version, node.domain())) return true;
  if (schema == nullptr) return true;
  try {
    schema->Verify(node);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Types that inference cannot find are given as the file declares them.
bool is_declared_only(const Model& model, const Graph& graph, const Value& value) {
  return value.producer.valid() && !value.folded && !may_infer(model, graph.node(value.producer));
}

class Builder {
 public:
  Builder(const Model& model, const GraphPart& part, SkeletonUse use, const SymbolValues& values)
      : model_(model), part_(part), use_(use), values_(values) {}

  void build(onnx::ModelProto& model);

 private:
  void fill_main(onnx::GraphProto& out);
  void fill_graph(const Graph& graph, onnx::GraphProto& out);
  void add_input(const Value& value, onnx::GraphProto& out);
  void add_constant(const Value& value, onnx::GraphProto& out);
  void add_output(const Graph& graph, const Value& value, onnx::GraphProto& out);
  void add_inputs(const Graph& graph, onnx::GraphProto& out);
  void add_constants(const Graph& graph, onnx::GraphProto& out);
  void add_outputs(const Graph& graph, onnx::GraphProto& out);
  void add_declared(const Graph& graph, const Value& value, onnx::GraphProto& out);
  void fill_node(const Graph& graph, const Node& node, onnx::NodeProto& out);
  void fill_attribute(const Attribute& attribute, onnx::AttributeProto& out);
  void fill_messages(const Attribute& attribute, onnx::AttributeProto& out);
  onnx::TensorProto attribute_tensor(const Tensor& tensor) const;
  void add_value(const Value& value, onnx::ValueInfoProto& out) const;

  const Model& model_;
  const GraphPart& part_;
  SkeletonUse use_;
  const SymbolValues& values_;
  std::map<std::string, std::int64_t> opsets_;
};

void Builder::add_value(const Value& value, onnx::ValueInfoProto& out) const {
  out.set_name(value.name);
  *out.mutable_type() = to_proto(value.type, model_, values_);
}

void Builder::add_input(const Value& value, onnx::GraphProto& out) {
  auto& input = *out.add_input();
  add_value(value, input);
  if (use_ != SkeletonUse::kCheck) return;
  // The checker wants a type, and a shape field where ONNX and real models do not.
  auto& type = *input.mutable_type();
  if (!part_.whole && type.value_case() == onnx::TypeProto::VALUE_NOT_SET)
    type.mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  if (type.has_tensor_type()) type.mutable_tensor_type()->mutable_shape();
}

void Builder::add_inputs(const Graph& graph, onnx::GraphProto& out) {
  for (const ValueId id : graph.inputs)
    if (const Value& value = graph.value(id); value.constant() == nullptr) add_input(value, out);
}

// A folded value is a constant of the skeleton if its node is left out.
bool is_constant(const Graph& graph, const Value& value) {
  if (value.is_outer || value.constant() == nullptr) return false;
  if (!value.producer.valid()) return true;
  return all_outputs_folded(graph, graph.node(value.producer));
}

void Builder::add_constant(const Value& value, onnx::GraphProto& out) {
  const Tensor& tensor = *value.constant();
  if (use_ == SkeletonUse::kCheck && !is_small(tensor)) {
    auto& input = *out.add_input();
    input.set_name(value.name);
    *input.mutable_type() = to_proto(exact_type(tensor), model_, values_);
  } else {
    *out.add_initializer() = to_proto(tensor);
    out.mutable_initializer(out.initializer_size() - 1)->set_name(value.name);
  }
}

void Builder::add_constants(const Graph& graph, onnx::GraphProto& out) {
  for (const Value& value : graph.values())
    if (is_constant(graph, value)) add_constant(value, out);
}

void Builder::add_output(const Graph& graph, const Value& value, onnx::GraphProto& out) {
  auto& output = *out.add_output();
  output.set_name(value.name);
  if (use_ == SkeletonUse::kCheck) {
    *output.mutable_type() = to_proto(value.type, model_, values_);
    auto& type = *output.mutable_type();
    if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET)  // it wants one, any will do
      type.mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    if (type.has_tensor_type()) type.mutable_tensor_type()->mutable_shape();
  } else if (value.type.kind == ValueType::Kind::kTensor) {
    // The entry of an output replaces that of an input or initializer of the same name.
    if (!value.producer.valid() || is_declared_only(model_, graph, value))
      *output.mutable_type() = to_proto(value.type, model_, values_);
    output.mutable_type()->mutable_tensor_type()->set_elem_type(
        static_cast<int>(value.type.element));
  }
}

void Builder::add_outputs(const Graph& graph, onnx::GraphProto& out) {
  for (const ValueId id : graph.outputs) add_output(graph, graph.value(id), out);
}

void Builder::add_declared(const Graph& graph, const Value& value, onnx::GraphProto& out) {
  if (!value.is_output && value.type.kind != ValueType::Kind::kUnknown &&
      is_declared_only(model_, graph, value))
    add_value(value, *out.add_value_info());
}

// The checker wants data, or a tensor that needs none.
onnx::TensorProto Builder::attribute_tensor(const Tensor& tensor) const {
  onnx::TensorProto out = to_proto(tensor);
  if (use_ != SkeletonUse::kCheck || is_small(tensor)) return out;
  out.clear_dims();
  out.add_dims(0);
  return out;
}

void Builder::fill_messages(const Attribute& a, onnx::AttributeProto& out) {
  // Sparse attributes are there in their dense form; only Constant has any, which is folded.
  if (a.kind == AttributeKind::kTensor) *out.mutable_t() = attribute_tensor(a.tensors.at(0));
  if (a.kind == AttributeKind::kTensors)
    for (const Tensor& tensor : a.tensors) *out.add_tensors() = attribute_tensor(tensor);
  if (a.kind == AttributeKind::kGraph) fill_graph(*a.graphs.at(0), *out.mutable_g());
  if (a.kind == AttributeKind::kGraphs)
    for (const auto& graph : a.graphs) fill_graph(*graph, *out.add_graphs());
  if (a.kind == AttributeKind::kType) *out.mutable_tp() = to_proto(a.types.at(0), model_, values_);
  if (a.kind == AttributeKind::kTypes)
    for (const ValueType& type : a.types) *out.add_type_protos() = to_proto(type, model_, values_);
}

void Builder::fill_attribute(const Attribute& a, onnx::AttributeProto& out) {
  out.set_name(a.name);
  out.set_type(static_cast<onnx::AttributeProto_AttributeType>(a.kind));
  if (a.kind == AttributeKind::kFloat) out.set_f(a.f);
  if (a.kind == AttributeKind::kInt) out.set_i(a.i);
  if (a.kind == AttributeKind::kString && a.s.size() < kInlineBytes) out.set_s(a.s);
  for (const float each : a.floats) out.add_floats(each);
  for (const std::int64_t each : a.ints) out.add_ints(each);
  for (const std::string& each : a.strings) out.add_strings(each);
  fill_messages(a, out);
}

void Builder::fill_node(const Graph& graph, const Node& node, onnx::NodeProto& out) {
  out.set_name(node.name);
  out.set_op_type(node.op_type.str());
  out.set_domain(node.domain.str());
  for (const ValueId id : node.inputs) out.add_input(id.valid() ? graph.value(id).name : "");
  for (const ValueId id : node.outputs) out.add_output(id.valid() ? graph.value(id).name : "");
  for (const Attribute& attribute : node.attributes)
    fill_attribute(attribute, *out.add_attribute());
  const bool opaque = use_ == SkeletonUse::kCheck
                          ? !means_model_version(model_, node)
                          : !may_infer(model_, node) || !keeps_schema(out, node.opset);
  if (opaque) out.set_domain(kOpaqueDomain);
  opsets_.try_emplace(out.domain(), opaque ? 1 : node.opset);
}

void Builder::fill_graph(const Graph& graph, onnx::GraphProto& out) {
  out.set_name(graph.name.empty() ? "graph" : graph.name);  // the checker wants one
  add_inputs(graph, out);
  add_constants(graph, out);
  for (const NodeId id : skeleton_nodes(graph)) fill_node(graph, graph.node(id), *out.add_node());
  add_outputs(graph, out);
  if (use_ == SkeletonUse::kCheck) return;
  for (const Value& value : graph.values()) add_declared(graph, value, out);
}

void Builder::fill_main(onnx::GraphProto& out) {
  const Graph& graph = model_.graph;
  if (part_.whole) {
    fill_graph(graph, out);
    return;
  }
  out.set_name("part");
  for (const ValueId id : part_.inputs) add_input(graph.value(id), out);
  for (const ValueId id : part_.constants) add_constant(graph.value(id), out);
  for (const NodeId id : part_.nodes) fill_node(graph, graph.node(id), *out.add_node());
  for (const ValueId id : part_.outputs) add_output(graph, graph.value(id), out);
  if (use_ == SkeletonUse::kCheck) return;
  for (const NodeId id : part_.nodes)
    for (const ValueId output : graph.node(id).outputs)
      if (output.valid()) add_declared(graph, graph.value(output), out);
}

void Builder::build(onnx::ModelProto& model) {
  // From IR version 4 on initializers need not be inputs, as is the case here. The package refuses newer ones than its own;
  // which ctxgen reads was checked before.
  model.set_ir_version(std::clamp<std::int64_t>(
      model_.ir_version, 4, static_cast<std::int64_t>(onnx::Version::IR_VERSION)));
  for (const OpsetImport& import : model_.opset_imports)
    opsets_.try_emplace(import.domain, import.version);
  fill_main(*model.mutable_graph());
  for (const auto& [domain, version] : opsets_) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
}

google::protobuf::ArenaOptions large_blocks() {
  google::protobuf::ArenaOptions options;
  options.start_block_size = std::size_t{1} << 14;
  options.max_block_size = std::size_t{1} << 18;
  return options;
}

}  // namespace

std::vector<NodeId> skeleton_nodes(const Graph& graph) {
  std::vector<NodeId> ids;
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const bool folded = !node.outputs.empty() && all_outputs_folded(graph, node);
    if (!folded) ids.push_back(NodeId{i});
  }
  return ids;
}

Skeleton::Skeleton()
    : arena_(large_blocks()),
      model_(google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena_)) {}

void build_skeleton(const Model& model, const GraphPart& part, SkeletonUse use, Skeleton& out,
                    const SymbolValues& values) {
  Builder(model, part, use, values).build(out.model());
}

}  // namespace ctxgen
