#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/short_text.h"
#include "ctxgen/base/small_list.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/graph/boxed.h"
#include "ctxgen/graph/ids.h"

namespace ctxgen {

/// Lets tables of names be searched by std::string_view without making a string.
struct NameHash {
  using is_transparent = void;
  [[nodiscard]] std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>{}(name);
  }
};

/// A dimension: a number, a named symbol (dim_param), or unknown.
class Dim {
 public:
  Dim() = default;
  [[nodiscard]] static Dim fixed(std::int64_t value) { return Dim(value, SymbolId{}); }
  [[nodiscard]] static Dim symbol(SymbolId id) { return Dim(-1, id); }
  [[nodiscard]] bool is_fixed() const { return value_ >= 0; }
  [[nodiscard]] bool is_symbol() const { return symbol_.valid(); }
  [[nodiscard]] bool is_unknown() const { return value_ < 0 && !symbol_.valid(); }
  [[nodiscard]] std::int64_t value() const { return value_; }  // requires is_fixed()
  [[nodiscard]] SymbolId symbol() const { return symbol_; }    // requires is_symbol()
  [[nodiscard]] bool operator==(const Dim&) const = default;

 private:
  Dim(std::int64_t value, SymbolId id) : value_(value), symbol_(id) {}
  std::int64_t value_ = -1;
  SymbolId symbol_;
};

/// The type of a value as far as it is known.
struct ValueType {
  enum class Kind { kUnknown, kTensor, kSparseTensor, kSequence, kOptional, kMap, kOpaque };
  Kind kind = Kind::kUnknown;
  DataType element = DataType::kUndefined;  // tensors; element tensor of sequence and optional
  std::optional<std::vector<Dim>> shape;    // tensors: nothing if even the rank is unknown

  [[nodiscard]] bool is_tensor() const { return kind == Kind::kTensor; }
  [[nodiscard]] bool has_rank() const { return shape.has_value(); }
  [[nodiscard]] std::size_t rank() const { return shape->size(); }  // requires has_rank()
  /// The dims, if all of them are numbers.
  [[nodiscard]] std::optional<Dims> fixed_dims() const;
};

/// Whether one value can be of both types: sizes that only one of them knows may differ.
[[nodiscard]] bool may_be_same(const ValueType& a, const ValueType& b);

/// A range of bytes of Model::source.
struct SourceRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  [[nodiscard]] bool empty() const { return size == 0; }
};

class Graph;

enum class AttributeKind {
  kUndefined,
  kFloat,
  kInt,
  kString,
  kTensor,
  kGraph,
  kFloats,
  kInts,
  kStrings,
  kTensors,
  kGraphs,
  kSparseTensor,
  kSparseTensors,
  kType,
  kTypes,
};

struct Attribute {
  std::string name;
  AttributeKind kind = AttributeKind::kUndefined;
  std::string ref_name;  // inside a function body: the attribute of the call to take
  float f = 0;
  std::int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;                 // kTensor: one
  std::vector<std::shared_ptr<Graph>> graphs;  // kGraph: one
  std::vector<ValueType> types;                // kType: one
  SourceRange source;    // of the AttributeProto (its name may differ); empty if made by ctxgen
  SourceRange s_source;  // of the bytes of `s`, for big strings that are wanted in place
};

/// A node. Its operator's meaning is that of `opset`, the version that the model imports for
/// `domain` ("ai.onnx" is stored as "").
struct Node {
  std::string name;
  ShortText op_type;
  ShortText domain;
  ShortText overload;
  std::int64_t opset = 0;
  SmallList<ValueId> inputs;    // invalid id: an absent optional input
  SmallList<ValueId> outputs;   // likewise
  SmallList<ValueId> captures;  // values of this graph that the node's subgraphs read
  std::vector<Attribute> attributes;
  SourceRange source;      // of the NodeProto; empty for nodes made by expanding a function
  std::int32_t call = -1;  // index into Graph::calls() of the function call that it came from

  [[nodiscard]] const Attribute* attribute(std::string_view attribute_name) const;
  [[nodiscard]] std::int64_t int_or(std::string_view attribute_name, std::int64_t otherwise) const;
  [[nodiscard]] float float_or(std::string_view attribute_name, float otherwise) const;
  [[nodiscard]] std::string_view string_or(std::string_view attribute_name,
                                           std::string_view otherwise) const;
  /// Nothing if the attribute is absent.
  [[nodiscard]] std::optional<std::span<const std::int64_t>> ints(
      std::string_view attribute_name) const;
  [[nodiscard]] ValueId input(std::size_t index) const;   // invalid if absent
  [[nodiscard]] ValueId output(std::size_t index) const;  // invalid if absent
  /// `node "conv_12" (Conv)`, or by its first output where it has no name.
  [[nodiscard]] std::string describe() const;
  std::string first_output_name;  // for describe()
};

/// Where the file tells of a value; empty ranges: it does not.
struct ValueSources {
  SourceRange input;        // ValueInfoProto in graph.input
  SourceRange output;       // ValueInfoProto in graph.output (the first, if it is twice)
  SourceRange info;         // ValueInfoProto in graph.value_info
  SourceRange initializer;  // TensorProto or SparseTensorProto
};

struct Value {
  std::string name;  // as it was added: the graph finds the value by it
  ValueType type;
  NodeId producer;                // invalid: graph input, initializer, or captured
  SmallList<NodeId> consumers;    // ascending; a node that reads it twice, or captures it, once
  bool is_input = false;          // graph input
  bool is_output = false;         // graph output
  bool is_outer = false;          // stands for a value of an enclosing graph
  bool type_changed = false;      // `type` differs from the file's on purpose: write `type`
  bool type_contradicts = false;  // the file declares an output otherwise than inference finds it
  bool is_sparse = false;         // sparse_initializer: `initializer` holds the dense form
  bool is_overridable = false;    // an initializer that callers may override at run time: IR >= 4
  bool initializer_is_external = false;  // its bytes came from another file
  Boxed<Tensor> initializer;
  Boxed<Tensor> folded;  // value computed at compile time; the producer stays a node
  /// What it is while callers override no initializer, where that was computed and is not a constant.
  Boxed<Tensor> by_default;
  Boxed<ValueSources> sources;  // none: what the file has of it is its name

  /// The constant that compilers may rely on: folded, or an initializer that cannot be overridden.
  [[nodiscard]] const Tensor* constant() const;
  /// The same while callers override no initializer: the defaults, and what follows from them.
  [[nodiscard]] const Tensor* constant_by_default() const;
  [[nodiscard]] SourceRange input_source() const {
    return sources ? sources->input : SourceRange();
  }
  [[nodiscard]] SourceRange output_source() const {
    return sources ? sources->output : SourceRange();
  }
  [[nodiscard]] SourceRange info_source() const { return sources ? sources->info : SourceRange(); }
  [[nodiscard]] SourceRange initializer_source() const {
    return sources ? sources->initializer : SourceRange();
  }
  /// To write one of them.
  [[nodiscard]] ValueSources& edit_sources() {
    if (!sources) sources = ValueSources();
    return *sources;
  }
};

/// A model-local function's call that was expanded in place.
struct FunctionCall {
  SourceRange source;  // of the calling NodeProto
  std::vector<ValueId> inputs, outputs;
};

/// One graph: tables of values and nodes, addressed by ids. Nodes are in topological order after
/// import (read_model sorts them where the file does not).
class Graph {
 public:
  std::string name;
  std::vector<ValueId> inputs;   // in the order of the file (initializers that are inputs too)
  std::vector<ValueId> outputs;  // in the order of the file; a value may be there twice

  [[nodiscard]] std::size_t value_count() const { return values_.size(); }
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  [[nodiscard]] const Value& value(ValueId id) const { return values_[id.index]; }
  [[nodiscard]] Value& value(ValueId id) { return values_[id.index]; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[id.index]; }
  [[nodiscard]] Node& node(NodeId id) { return nodes_[id.index]; }
  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] std::span<const Value> values() const { return values_; }
  [[nodiscard]] std::span<const FunctionCall> calls() const { return calls_; }

  /// The value of that name, or an invalid id.
  [[nodiscard]] ValueId find(std::string_view value_name) const;
  /// The value of that name, made if it is not there.
  ValueId find_or_add(std::string_view value_name);
  void reserve(std::size_t values, std::size_t nodes);
  /// Appends a node and enters it as producer and consumer. Outputs must not have a producer yet.
  NodeId add_node(Node node);
  std::int32_t add_call(FunctionCall call);
  /// Recomputes producers and consumers after nodes were changed in place.
  void relink();
  /// Replaces all nodes (a new order, an expansion); ids of nodes change, ids of values stay.
  void set_nodes(std::vector<Node> nodes);

 private:
  /// An entry of the table of names, whose text is Value::name.
  struct NameSlot {
    std::uint32_t hash = 0;
    ValueId id;  // invalid: free
  };
  [[nodiscard]] std::size_t slot_of(std::string_view value_name, std::uint32_t hash) const;
  void grow_names(std::size_t values);
  void link(NodeId id);
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<FunctionCall> calls_;
  std::vector<NameSlot> names_;  // open addressing; a power of two, at most three quarters full
};

struct OpsetImport {
  std::string domain;  // "" for ai.onnx
  std::int64_t version = 0;
};

/// A model-local function, kept as read.
struct Function {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::vector<Attribute> attribute_defaults;
  std::vector<OpsetImport> opset_imports;
  std::shared_ptr<Graph> body;
  SourceRange source;
};

/// A model as imported. `source` keeps the file mapped: constants and unchanged parts refer to it.
class Model {
 public:
  Blob source;
  std::filesystem::path folder;  // of external data; empty: none allowed
  std::string file_name;         // base name, "" from memory
  std::int64_t ir_version = 0;
  std::string producer_name, producer_version;
  std::vector<OpsetImport> opset_imports;  // one per domain
  std::vector<OpsetImport>
      implied_opsets;  // of domains that nodes use and the file does not import
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<Function> functions;
  Graph graph;
  /// Top-level fields that are written back verbatim (tag included), in order of the file: all but
  /// graph, opset_import, functions and metadata_props.
  std::vector<SourceRange> header_sources;
  std::vector<SourceRange> metadata_sources, opset_sources;  // bodies
  /// Fields of the main GraphProto that are kept verbatim (tag included): name, doc_string,
  /// quantization_annotation, metadata_props, unknown fields.
  std::vector<SourceRange> graph_other_sources;
  /// Graphs of bodies, and functions, whose nodes the file does not have in topological order, by the
  /// offset of the GraphProto or FunctionProto: their NodeProtos in order. They are written so.
  std::map<std::uint64_t, std::vector<SourceRange>> sorted_nodes;
  std::vector<std::filesystem::path> files_read;  // external data, for dependency files

  [[nodiscard]] SymbolId symbol(std::string_view dim_param);  // found or added
  [[nodiscard]] const std::string& symbol_name(SymbolId id) const { return symbols_[id.index]; }
  [[nodiscard]] std::size_t symbol_count() const { return symbols_.size(); }
  [[nodiscard]] std::optional<std::int64_t> opset(std::string_view domain) const;
  [[nodiscard]] std::span<const std::byte> bytes(SourceRange range) const {
    return source.bytes.subspan(range.offset, range.size);
  }

 private:
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, SymbolId, NameHash, std::equal_to<>> symbol_ids_;
};

/// The text of a type: "float32[batch, 3, ?]".
[[nodiscard]] std::string to_string(const ValueType& type, const Model& model);

}  // namespace ctxgen
