#include <algorithm>

#include <onnx/defs/schema.h>

#include "ctxgen/onnx/infer.h"
#include "ctxgen/onnx_lite/expand.h"

#include "guard.h"
#include "proto_convert.h"

namespace ctxgen {
namespace {

// Bodies use other function operators; none does so in more levels.
constexpr int kMaxRounds = 8;

using Keep = std::function<bool(const Graph&, const Node&)>;

// The node as builders of bodies look at it: attributes, and which inputs are there.
onnx::NodeProto node_for_builder(const Graph& graph, const Node& node) {
  onnx::NodeProto out;
  out.set_op_type(node.op_type.str());
  out.set_domain(node.domain.str());
  std::size_t inputs = node.inputs.size();
  while (inputs > 0 && !node.inputs[inputs - 1].valid()) --inputs;  // absent ones at the end
  for (std::size_t i = 0; i < inputs; ++i)
    out.add_input(node.inputs[i].valid() ? graph.value(node.inputs[i]).name : "");
  for (const ValueId id : node.outputs) out.add_output(id.valid() ? graph.value(id).name : "");
  for (const Attribute& a : node.attributes) {
    auto& attribute = *out.add_attribute();
    attribute.set_name(a.name);
    attribute.set_type(static_cast<onnx::AttributeProto_AttributeType>(a.kind));
    if (a.kind == AttributeKind::kFloat) attribute.set_f(a.f);
    if (a.kind == AttributeKind::kInt) attribute.set_i(a.i);
    if (a.kind == AttributeKind::kString) attribute.set_s(a.s);
    for (const float each : a.floats) attribute.add_floats(each);
    for (const std::int64_t each : a.ints) attribute.add_ints(each);
    for (const std::string& each : a.strings) attribute.add_strings(each);
  }
  return out;
}

// Defaults of the schema that the node does not override: the library's bodies refer to attributes
// but do not have their defaults.
std::vector<const onnx::AttributeProto*> missing_defaults(const onnx::OpSchema& schema,
                                                          const Node& node) {
  std::vector<const onnx::AttributeProto*> defaults;
  for (const auto& [name, attribute] : schema.attributes())
    if (node.attribute(name) == nullptr &&
        attribute.default_value.type() != onnx::AttributeProto::UNDEFINED)
      defaults.push_back(&attribute.default_value);
  return defaults;
}

std::optional<onnx::FunctionProto> build_body(const Model& model, const onnx::OpSchema& schema,
                                              const Graph& graph, const Node& node) {
  const int opset = static_cast<int>(node.opset);
  if (schema.HasFunction()) {
    const onnx::FunctionProto* body = schema.GetFunction(opset);
    return body != nullptr ? std::optional(*body) : std::nullopt;
  }
  if (!schema.HasContextDependentFunction()) return std::nullopt;
  onnx::NodeProto proto = node_for_builder(graph, node);
  for (const auto* attribute : missing_defaults(schema, node)) *proto.add_attribute() = *attribute;
  std::vector<onnx::TypeProto> types;
  for (int i = 0; i < proto.input_size(); ++i) {
    const ValueId id = node.inputs[static_cast<std::size_t>(i)];
    types.push_back(id.valid() ? to_proto(graph.value(id).type, model, {}) : onnx::TypeProto());
  }
  const onnx::FunctionBodyBuildContextImpl context(proto, types);
  onnx::FunctionProto body;
  if (!schema.BuildContextDependentFunction(context, body, opset)) return std::nullopt;
  return body;
}

// The body's nodes mean the versions of the node's model; ONNX promises that they may.
void set_versions(onnx::FunctionProto& body, const Node& node) {
  for (auto& import : *body.mutable_opset_import())
    if (import.domain() == node.domain) import.set_version(node.opset);
  if (body.opset_import_size() != 0) return;
  auto* import = body.add_opset_import();
  import->set_domain(node.domain.str());
  import->set_version(node.opset);
}

Result<std::optional<std::vector<std::byte>>> serialised_body(const Model& model,
                                                              const Graph& graph,
                                                              const Node& node) {
  using Body = std::optional<std::vector<std::byte>>;
  // A builder that puts the node's own graph into its body (SequenceMap) would lose its captures.
  if (std::ranges::any_of(node.attributes, [](const Attribute& a) { return !a.graphs.empty(); }))
    return Body();
  return guarded(node.describe(), [&]() -> Result<Body> {
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(
        node.op_type.str(), static_cast<int>(node.opset), node.domain.str());
    if (schema == nullptr) return Body();
    auto body = build_body(model, *schema, graph, node);
    // An operator that is its own body (of a later version) stays what it is.
    if (!body || std::ranges::any_of(body->node(), [&node](const onnx::NodeProto& inner) {
          return inner.op_type() == node.op_type && inner.domain() == node.domain;
        }))
      return Body();
    body->clear_attribute_proto();
    for (const auto* attribute : missing_defaults(*schema, node))
      *body->add_attribute_proto() = *attribute;
    set_versions(*body, node);
    const std::string text = body->SerializeAsString();
    const auto bytes = std::as_bytes(std::span(text));
    return Body(std::in_place, bytes.begin(), bytes.end());
  });
}

class Expander {
 public:
  Expander(Model& model, const Keep& keep) : model_(model), keep_(keep) {}

  Result<std::size_t> expand(Graph& graph) {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < graph.node_count(); ++i)
      for (const Attribute& attribute : graph.node(NodeId{i}).attributes)
        for (const auto& subgraph : attribute.graphs) count += CTXGEN_TRY(expand(*subgraph));
    const auto body_of = [this](const Graph& in,
                                const Node& node) -> Result<std::optional<std::vector<std::byte>>> {
      if (keep_(in, node)) return std::nullopt;
      return serialised_body(model_, in, node);
    };
    return count + CTXGEN_TRY(expand_nodes(model_, graph, body_of));
  }

 private:
  Model& model_;
  const Keep& keep_;
};

}  // namespace

Result<std::size_t> expand_schema_functions(Model& model, const Keep& keep) {
  std::size_t total = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    const std::size_t count = CTXGEN_TRY(Expander(model, keep).expand(model.graph));
    if (count == 0) break;
    total += count;
    CTXGEN_CHECK(infer_shapes(model));  // builders of the next round ask for types
  }
  return total;
}

}  // namespace ctxgen
