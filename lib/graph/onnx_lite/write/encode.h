#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/graph/graph.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "wire/message_writer.h"
#include "write/relocate.h"

namespace ctxgen {

/// Encodes what has no text in the source, or other text.
///
/// Lifetime  the pieces refer to the model, its tensors and the rewrite.
class Encoder {
 public:
  /// Without `for_file` nodes of any opset are encoded; with it they must be those of the model.
  explicit Encoder(const Model& model, bool for_file = true)
      : model_(model), relocator_(model), for_file_(for_file) {}

  [[nodiscard]] static Pieces tensor(const Tensor& tensor, std::string_view name);
  [[nodiscard]] Pieces value_info(std::string_view name, const ValueType& type) const;
  /// The ValueInfoProto at `source` with another type.
  [[nodiscard]] Result<Pieces> retyped(SourceRange source, const Value& value) const;
  [[nodiscard]] Result<Pieces> node(const Graph& graph, const Node& node);
  [[nodiscard]] Pieces ep_context(const Graph& graph, const EpContextNode& node) const;

  [[nodiscard]] Relocator& relocator() { return relocator_; }
  /// Domains that encoded nodes need and that the model does not import.
  [[nodiscard]] std::span<const OpsetImport> needed_opsets() const { return needed_opsets_; }

 private:
  [[nodiscard]] Pieces type(const ValueType& type) const;
  [[nodiscard]] Pieces tensor_type(const ValueType& type) const;
  [[nodiscard]] Result<Pieces> attribute(const Attribute& attribute);
  [[nodiscard]] Result<Pieces> attribute_from_fields(const Attribute& attribute);
  [[nodiscard]] Result<Pieces> attribute_from_source(const Attribute& attribute);
  [[nodiscard]] Result<Pieces> subgraph(const Graph& graph);
  [[nodiscard]] Status check_opset(const Node& node);

  const Model& model_;
  Relocator relocator_;
  bool for_file_;
  std::vector<OpsetImport> needed_opsets_;
};

}  // namespace ctxgen
