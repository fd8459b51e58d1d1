#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {
namespace {

using MessageBytes = std::span<const std::byte>;

// Marks the functions that nodes call: by their text, as expanded graphs do not show calls.
class FunctionMarker {
 public:
  explicit FunctionMarker(const Model& model) : model_(model), used_(model.functions.size()) {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const Function& function = model.functions[i];
      indices_.emplace(Key{function.domain, function.name, function.overload}, i);
    }
  }

  // What is nested deeper was not read: of duplicate graph attributes the last one counts.
  void mark_node(MessageBytes message, std::size_t depth = 0) {
    if (depth > kMaxSubgraphDepth) return;
    std::string_view domain, op_type, overload;
    MessageReader reader(message, "node");
    while (const wire::Field* f = reader.next()) {
      if (f->tag == wire::bytes(field::node::kDomain)) domain = f->text();
      if (f->tag == wire::bytes(field::node::kOpType)) op_type = f->text();
      if (f->tag == wire::bytes(field::node::kOverload)) overload = f->text();
      if (f->tag == wire::bytes(field::node::kAttribute)) mark_attribute(f->body, depth);
    }
    if (domain == "ai.onnx") domain = {};
    const auto it = indices_.find(Key{domain, op_type, overload});
    if (it != indices_.end() && !used_[it->second]) mark_function(it->second);
  }

  void mark_attribute(MessageBytes message, std::size_t depth = 0) {
    MessageReader reader(message, "attribute");
    while (const wire::Field* f = reader.next())
      if (f->tag == wire::bytes(field::attribute::kGraph) ||
          f->tag == wire::bytes(field::attribute::kGraphs))
        mark_nodes(f->body, field::graph::kNode, depth + 1);
  }

  [[nodiscard]] std::vector<std::size_t> used() const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (used_[i]) indices.push_back(i);
    return indices;
  }

 private:
  void mark_nodes(MessageBytes message, std::uint32_t node_field, std::size_t depth = 0) {
    MessageReader reader(message, "message");
    while (const wire::Field* f = reader.next())
      if (f->tag == wire::bytes(node_field)) mark_node(f->body, depth);
  }

  void mark_function(std::size_t index) {
    used_[index] = true;
    mark_nodes(model_.bytes(model_.functions[index].source), field::function::kNode);
  }

  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

  const Model& model_;
  std::map<Key, std::size_t> indices_;  // domain, name, overload
  std::vector<bool> used_;
};

}  // namespace

std::vector<std::size_t> functions_in_use(const Model& model, std::span<const NodeToWrite> nodes) {
  FunctionMarker marker(model);
  for (const NodeToWrite& what : nodes) {
    if (what.kind == NodeToWrite::Kind::kCall)
      marker.mark_node(
          model.bytes(model.graph.calls()[static_cast<std::size_t>(what.call)].source));
    if (what.kind != NodeToWrite::Kind::kNode) continue;
    const Node& node = model.graph.node(what.node);
    if (!node.source.empty()) marker.mark_node(model.bytes(node.source));
    for (const Attribute& attribute : node.attributes)
      if (node.source.empty() && !attribute.source.empty())
        marker.mark_attribute(model.bytes(attribute.source));
  }
  return marker.used();
}

}  // namespace ctxgen
