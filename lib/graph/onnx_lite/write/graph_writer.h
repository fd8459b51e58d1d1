#pragma once

#include <cstdint>
#include <span>

#include "ctxgen/graph/graph.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "wire/message_writer.h"
#include "write/encode.h"

namespace ctxgen {

/// Writes the content of one GraphProto: the main graph's, or that of a body which changes.
///
/// Lifetime  the pieces refer to the model, its tensors and the rewrite.
class GraphWriter {
 public:
  GraphWriter(const Model& model, const Graph& graph, const GraphRewrite& rewrite, Encoder& encoder)
      : model_(model), graph_(graph), rewrite_(rewrite), encoder_(encoder) {}

  [[nodiscard]] Status add_nodes(Pieces& out);
  /// Initializers, inputs, outputs and value infos. `main`: the rewrite of a main graph, whose
  /// initializers may be in another file and are aligned: `graph_offset` is where in the file `out`
  /// begins.
  [[nodiscard]] Status add_values(const ModelRewrite* main, std::uint64_t graph_offset,
                                  Pieces& out);

 private:
  [[nodiscard]] Status add_node(const NodeToWrite& what, Pieces& out);
  [[nodiscard]] bool body_changes(const Attribute& attribute) const;
  [[nodiscard]] Result<Pieces> changed_node(const Node& node, bool rewired);
  [[nodiscard]] Result<Pieces> attribute_with_bodies(const Attribute& attribute);
  [[nodiscard]] Status add_body(std::uint32_t number, const Graph& body,
                                std::span<const std::byte> text, Pieces& out);
  [[nodiscard]] Status add_initializer(ValueId id, const ModelRewrite* main,
                                       std::uint64_t graph_offset, Pieces& out);
  [[nodiscard]] Status add_interface(Pieces& out);
  [[nodiscard]] Status add_value_infos(Pieces& out);
  [[nodiscard]] Status add_info(std::uint32_t number, SourceRange source, const Value& value,
                                Pieces& out);

  const Model& model_;
  const Graph& graph_;
  const GraphRewrite& rewrite_;
  Encoder& encoder_;
};

}  // namespace ctxgen
