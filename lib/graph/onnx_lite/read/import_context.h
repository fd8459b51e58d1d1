#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctxgen/graph/graph.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "read/graph_scope.h"
#include "tensors/tensor_reader.h"

namespace ctxgen {

using Message = std::span<const std::byte>;

/// An AttributeProto and the name in it, not decoded further.
struct AttributeText {
  std::string_view name;
  Message message;
};

/// A NodeProto, split into its fields but not resolved.
struct NodeText {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeText> attributes;
  Message message;
  [[nodiscard]] std::string describe() const;
};

/// A FunctionProto, split into its fields.
struct FunctionText {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<AttributeText> defaults;
  std::vector<Message> nodes;
  std::vector<OpsetImport> opsets;
  Message message;
  bool expanding = false;  // a call of it is being expanded: one more would not end
};

/// The call that a function body is expanded for.
struct FunctionFrame {
  const FunctionText* function = nullptr;
  const NodeText* call = nullptr;
  Scope* caller = nullptr;  // where the call's attributes belong
};

/// What a node of an expanded body counts against ModelLimits::expanded_bytes, besides its text.
inline constexpr std::uint64_t kExpandedNodeBytes = 512;
/// And what an input or output of a function counts per call.
inline constexpr std::uint64_t kExpandedValueBytes = 64;

/// What all readers of one model share.
struct ImportContext {
  Model& model;
  TensorReader tensors;
  bool expand_functions = true;
  ModelLimits limits = {};
  bool sort_nodes = false;      // before they are read; else the file's order is taken as it is
  bool met_later_name = false;  // something was read before its source: sorting may help
  std::vector<FunctionText> functions;
  std::unordered_map<std::string, std::size_t> function_by_key;
  std::uint64_t nodes = 0, items = 0, names_bytes = 0, expanded_bytes = 0, calls = 0,
                call_depth = 0;

  /// Empty for text that is not in the model's file (bodies of ONNX's own functions).
  [[nodiscard]] SourceRange range_of(Message message) const;
  /// The function that a node calls, if the model has it.
  [[nodiscard]] FunctionText* find_function(const NodeText& node);
  [[nodiscard]] Status count_node();
  [[nodiscard]] Status count_items(std::uint64_t count);
  /// Text or memory that the expansion of calls repeats.
  [[nodiscard]] Status count_expanded(std::uint64_t bytes);
  [[nodiscard]] Status count_name(std::string_view name);
  /// Sorts the nodes of a graph or function, if that is wanted; what that changes is remembered for
  /// writing (Model::sorted_nodes).
  [[nodiscard]] Status sort(Message owner, std::vector<Message>& node_messages);
};

/// "" for the default domain under both of its names.
[[nodiscard]] std::string_view normalised_domain(std::string_view domain);

/// The readers of the parts; each in the file of its name.
[[nodiscard]] Result<AttributeText> read_attribute_name(Message message);
/// What an attribute holds that has this field and does not say its type, as models before IR version
/// 4 may; kUndefined for fields that are not values.
[[nodiscard]] AttributeKind kind_by_field(std::uint32_t number);
/// Nothing: the attribute refers to one that the call does not have and that has no default.
[[nodiscard]] Result<std::optional<Attribute>> read_attribute(ImportContext& context, Scope& scope,
                                                              const AttributeText& text);
[[nodiscard]] Result<NodeText> read_node_text(Message message);
[[nodiscard]] Status read_node(ImportContext& context, Scope& scope, Message message);
/// Reads the text of a graph into `scope`'s; `main`: the parts to be kept for writing too.
[[nodiscard]] Status read_graph(ImportContext& context, Scope& scope, Message message, bool main);
[[nodiscard]] Result<std::shared_ptr<Graph>> read_subgraph(ImportContext& context, Scope& outer,
                                                           Message message);
[[nodiscard]] Result<FunctionText> read_function_text(Message message);
/// Enters the function unchanged into Model::functions.
[[nodiscard]] Status read_function(ImportContext& context, const FunctionText& text);
[[nodiscard]] Status expand_call(ImportContext& context, Scope& scope, const NodeText& call,
                                 FunctionText& function);
[[nodiscard]] Result<OpsetImport> read_opset_import(Message message);
/// The tensor of a Constant node's attributes.
[[nodiscard]] Result<Tensor> constant_of(const Node& node);

}  // namespace ctxgen
