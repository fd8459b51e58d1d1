#include "graph/session_graph.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "graph/external_files.h"
#include "graph/graph_nodes.h"
#include "graph/known_scalars.h"
#include "graph/ort_attributes.h"

namespace ctxgen::plugin {
namespace {

/// No provider has operators of it.
constexpr std::string_view kUnreadableDomain = "ctxgen.unreadable";

template <class Count, class Get, class Item, class Of>
Result<std::vector<const Item*>> list(const OrtApis& ort, Count count_of, Get get, const Of& of,
                                      const Item* /*kind*/) {
  std::size_t count = 0;
  CTXGEN_CHECK(from_ort(*ort.api, count_of(&of, &count)));
  std::vector<const Item*> items(count);
  CTXGEN_CHECK(from_ort(*ort.api, get(&of, items.data(), count)));
  return items;
}

using Values = std::vector<const OrtValueInfo*>;
constexpr const OrtValueInfo* kValues = nullptr;

Result<ValueType> read_tensor_type(const OrtApis& ort, const OrtTensorTypeAndShapeInfo& info,
                                   Model& model) {
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetTensorElementType(&info, &element)));
  if (element == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) return ValueType();
  ValueType type{.kind = ValueType::Kind::kTensor,
                 .element = CTXGEN_TRY(read_type(element)),
                 .shape = std::nullopt};
  std::size_t rank = 0;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetDimensionsCount(&info, &rank)));
  // Rank 0 is what ONNX Runtime 1.23 says of a scalar and of a shape that is not known.
  const auto has_shape = ort.newer.has_shape;
  const bool known = has_shape != nullptr ? has_shape(&info) : rank != 0;
  if (!known || rank > kMaxRank) return type;
  std::vector<std::int64_t> dims(rank);
  std::vector<const char*> symbols(rank);
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetDimensions(&info, dims.data(), rank)));
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetSymbolicDimensions(&info, symbols.data(), rank)));
  type.shape.emplace();
  for (std::size_t i = 0; i < rank; ++i) {
    const bool named = symbols[i] != nullptr && *symbols[i] != '\0';
    type.shape->push_back(dims[i] >= 0 ? Dim::fixed(dims[i])
                          : named      ? Dim::symbol(model.symbol(symbols[i]))
                                       : Dim());
  }
  return type;
}

Result<ValueType> read_value_type(const OrtApis& ort, const OrtValueInfo& value, Model& model) {
  const OrtTypeInfo* type = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetValueInfoTypeInfo(&value, &type)));
  if (type == nullptr) return ValueType();
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetOnnxTypeFromTypeInfo(type, &kind)));
  switch (kind) {
    case ONNX_TYPE_SEQUENCE: return ValueType{.kind = ValueType::Kind::kSequence, .shape = {}};
    case ONNX_TYPE_OPTIONAL: return ValueType{.kind = ValueType::Kind::kOptional, .shape = {}};
    case ONNX_TYPE_MAP: return ValueType{.kind = ValueType::Kind::kMap, .shape = {}};
    case ONNX_TYPE_SPARSETENSOR:
      return ValueType{.kind = ValueType::Kind::kSparseTensor, .shape = {}};
    case ONNX_TYPE_OPAQUE: return ValueType{.kind = ValueType::Kind::kOpaque, .shape = {}};
    case ONNX_TYPE_TENSOR: break;
    default: return ValueType();
  }
  const OrtTensorTypeAndShapeInfo* info = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->CastTypeInfoToTensorInfo(type, &info)));
  if (info == nullptr) return ValueType();
  return read_tensor_type(ort, *info, model);
}

/// By node: the places of those that have to come before it.
using Waiting = std::vector<std::vector<std::size_t>>;

/// A topological order: as given, but that each follows what it waits for. Requires  there is no cycle.
std::vector<std::size_t> in_order(const Waiting& waiting) {
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  std::vector<State> states(waiting.size(), State::kNew);
  std::vector<std::size_t> sorted, open;
  for (std::size_t first = 0; first < waiting.size(); ++first) {
    open.push_back(first);
    while (!open.empty()) {
      const std::size_t node = open.back();
      if (states[node] == State::kNew) {
        states[node] = State::kOpen;
        for (const std::size_t before : waiting[node])
          if (states[before] == State::kNew) open.push_back(before);
        continue;
      }
      open.pop_back();
      if (std::exchange(states[node], State::kDone) != State::kDone) sorted.push_back(node);
    }
  }
  return sorted;
}

/// Fills a model from a graph.
class Reader {
 public:
  Reader(const OrtApis& ort, const OrtGraph& graph, const std::filesystem::path& model)
      : ort_(ort), graph_(graph), files_(model) {}

  Result<SessionGraph> read() {
    CTXGEN_CHECK(read_versions());
    CTXGEN_CHECK(read_inputs());
    CTXGEN_CHECK(read_initializers());
    CTXGEN_CHECK(read_nodes());
    CTXGEN_CHECK(read_outputs());
    result_.files = std::move(files_).take();
    return std::move(result_);
  }

 private:
  [[nodiscard]] Graph& to() { return result_.model.graph; }

  Status read_versions() {
    Model& model = result_.model;
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->Graph_GetOnnxIRVersion(&graph_, &model.ir_version)));
    std::size_t count = 0;
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->Graph_GetNumOperatorSets(&graph_, &count)));
    std::vector<const char*> domains(count);
    std::vector<std::int64_t> versions(count);
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->Graph_GetOperatorSets(&graph_, domains.data(),
                                                                     versions.data(), count)));
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view domain = domains[i] == nullptr ? "" : domains[i];
      model.opset_imports.push_back({std::string(domain == "ai.onnx" ? "" : domain), versions[i]});
    }
    std::ranges::sort(model.opset_imports, {}, &OpsetImport::domain);
    return {};
  }

  /// The value, with its type where it is met first; invalid for an absent one.
  Result<ValueId> value_of(const OrtValueInfo* info) {
    if (info == nullptr) return ValueId{};
    const char* name = "";
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->GetValueInfoName(info, &name)));
    if (name == nullptr || *name == '\0') return ValueId{};
    const std::size_t before = to().value_count();
    const ValueId id = to().find_or_add(name);
    if (to().value_count() == before) return id;
    // A type that cannot be read is unknown; the graph is good without it.
    if (auto type = read_value_type(ort_, *info, result_.model))
      to().value(id).type = *std::move(type);
    return id;
  }

  Result<std::vector<ValueId>> values_of(const Values& infos) {
    std::vector<ValueId> ids;
    for (const OrtValueInfo* info : infos) ids.push_back(CTXGEN_TRY(value_of(info)));
    return ids;
  }

  Status read_inputs() {
    const Values inputs = CTXGEN_TRY(
        list(ort_, ort_.api->Graph_GetNumInputs, ort_.api->Graph_GetInputs, graph_, kValues));
    for (const ValueId id : CTXGEN_TRY(values_of(inputs))) {
      if (!id.valid()) continue;
      to().value(id).is_input = true;
      to().inputs.push_back(id);
    }
    return {};
  }

  Status read_outputs() {
    const Values outputs = CTXGEN_TRY(
        list(ort_, ort_.api->Graph_GetNumOutputs, ort_.api->Graph_GetOutputs, graph_, kValues));
    for (const ValueId id : CTXGEN_TRY(values_of(outputs))) {
      if (!id.valid()) continue;
      to().value(id).is_output = true;
      to().outputs.push_back(id);
    }
    return {};
  }

  /// `type`: as ONNX Runtime has it.
  Result<Tensor> read_initializer(const OrtValueInfo& info, const ValueType& type) {
    if (auto mapped = CTXGEN_TRY(read_from_file(info, type))) return *std::move(mapped);
    const OrtValue* source = nullptr;
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->ValueInfo_GetInitializerValue(&info, &source)));
    if (source == nullptr) return fail(ErrorCode::kUnsupported, "it has no value here");
    return read_tensor(ort_, *source, /*borrow=*/true);
  }

  /// Nothing for an initializer that is in no file, or whose type does not say what its bytes are.
  Result<std::optional<Tensor>> read_from_file(const OrtValueInfo& info, const ValueType& type) {
    if (!type.is_tensor() || !type.has_rank() || type.element == DataType::kString ||
        type.element == DataType::kUndefined)
      return std::nullopt;
    Dims dims;
    for (const Dim& dim : *type.shape) {
      if (!dim.is_fixed()) return std::nullopt;
      dims.push_back(dim.value());
    }
    const auto blob = CTXGEN_TRY(files_.find(ort_, info));
    if (!blob || checked_size_bytes(type.element, dims) != blob->bytes.size()) return std::nullopt;
    return Tensor::borrow(type.element, dims, blob->owner, blob->bytes);
  }

  Status read_initializers() {
    const Values infos = CTXGEN_TRY(list(ort_, ort_.api->Graph_GetNumInitializers,
                                         ort_.api->Graph_GetInitializers, graph_, kValues));
    for (const OrtValueInfo* info : infos) {
      const ValueId id = CTXGEN_TRY(value_of(info));
      if (!id.valid()) continue;
      Value& value = to().value(id);
      Tensor tensor =
          CTXGEN_TRY_AT(read_initializer(*info, value.type), "initializer \"{}\"", value.name);
      // Until IR version 3 every initializer had to be an input; since 4 that makes it a default.
      value.is_overridable = value.is_input && result_.model.ir_version >= 4;
      if (!value.is_overridable) {
        std::vector<Dim> shape;
        for (const std::int64_t dim : tensor.dims()) shape.push_back(Dim::fixed(dim));
        value.type = {
            .kind = ValueType::Kind::kTensor, .element = tensor.type(), .shape = std::move(shape)};
      }
      value.initializer = std::move(tensor);
    }
    return {};
  }

  Status read_nodes() {
    auto sources = CTXGEN_TRY(nodes_of(ort_, graph_));
    for (const OrtNode* source : CTXGEN_TRY(in_order_of_file(std::move(sources)))) {
      const NodeId id = to().add_node(CTXGEN_TRY(read_node(*source)));
      if (ort_.newer.has_shape == nullptr) complete_scalars(to().node(id));
      result_.nodes.push_back(source);
    }
    return {};
  }

  /// Gives outputs that are scalars that rank; what comes before the node is read.
  void complete_scalars(const Node& node) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (!output.valid()) continue;
      ValueType& type = to().value(output).type;
      if (type.is_tensor() && !type.has_rank() && is_scalar(to(), node, i)) type.shape.emplace();
    }
  }

  Result<Node> read_node(const OrtNode& source) {
    const char *name = "", *type = "", *domain = "";
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->Node_GetName(&source, &name)));
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->Node_GetOperatorType(&source, &type)));
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->Node_GetDomain(&source, &domain)));
    Node node;
    node.name = name == nullptr ? "" : name;
    node.op_type = type == nullptr ? "" : type;
    const std::string_view in = domain == nullptr ? "" : domain;
    node.domain = in == "ai.onnx" ? "" : in;
    node.opset = result_.model.opset(node.domain.view()).value_or(1);
    auto attributes = plugin::read_attributes(ort_, source);
    if (attributes)
      node.attributes = *std::move(attributes);
    else
      node.domain = kUnreadableDomain;
    const OrtApi& api = *ort_.api;
    const auto operands = [&](auto count, auto get) -> Result<std::vector<ValueId>> {
      return values_of(CTXGEN_TRY(list(ort_, count, get, source, kValues)));
    };
    node.inputs = CTXGEN_TRY(operands(api.Node_GetNumInputs, api.Node_GetInputs));
    node.outputs = CTXGEN_TRY(operands(api.Node_GetNumOutputs, api.Node_GetOutputs));
    node.captures = CTXGEN_TRY(operands(api.Node_GetNumImplicitInputs, api.Node_GetImplicitInputs));
    for (const ValueId output : node.outputs)
      if (output.valid() && node.first_output_name.empty())
        node.first_output_name = to().value(output).name;
    return node;
  }

  /// By number, which is the order of the file, as long as ONNX Runtime's optimizers took away and added nothing. Then as
  /// it gives them, which is the order in which it would write the model.
  Result<std::vector<const OrtNode*>> in_order_of_file(std::vector<const OrtNode*> nodes) {
    std::vector<std::pair<std::size_t, const OrtNode*>> by_id;
    for (const OrtNode* node : nodes) {
      std::size_t id = 0;
      CTXGEN_CHECK(from_ort(*ort_.api, ort_.api->Node_GetId(node, &id)));
      by_id.emplace_back(id, node);
    }
    std::ranges::sort(by_id);
    for (std::size_t i = 0; i < by_id.size(); ++i)
      if (by_id[i].first != i) return nodes;
    std::ranges::transform(by_id, nodes.begin(), [](const auto& one) { return one.second; });
    std::vector<const OrtNode*> sorted;
    for (const std::size_t place : in_order(CTXGEN_TRY(waiting(nodes))))
      sorted.push_back(nodes[place]);
    return sorted;
  }

  /// For each node those that it, or a body of it, reads from.
  Result<Waiting> waiting(const std::vector<const OrtNode*>& nodes) {
    std::unordered_map<std::string, std::size_t> producers;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (std::string& name : CTXGEN_TRY(output_names(ort_, *nodes[i])))
        if (!name.empty()) producers.emplace(std::move(name), i);
    Waiting waiting(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Values captures =
          CTXGEN_TRY(list(ort_, ort_.api->Node_GetNumImplicitInputs,
                          ort_.api->Node_GetImplicitInputs, *nodes[i], kValues));
      auto names = CTXGEN_TRY(input_names(ort_, *nodes[i]));
      std::ranges::move(CTXGEN_TRY(names_of(ort_, captures)), std::back_inserter(names));
      for (const std::string& name : names)
        if (const auto producer = producers.find(name); producer != producers.end())
          waiting[i].push_back(producer->second);
    }
    return waiting;
  }

  const OrtApis& ort_;
  const OrtGraph& graph_;
  ExternalFiles files_;
  SessionGraph result_;
};

}  // namespace

Result<SessionGraph> read_session_graph(const OrtApis& ort, const OrtGraph& graph) {
  return Reader(ort, graph, CTXGEN_TRY(model_path(ort, graph))).read();
}

Result<bool> is_body(const OrtApis& ort, const OrtGraph& graph) {
  const OrtNode* parent = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Graph_GetParentNode(&graph, &parent)));
  if (parent != nullptr) return true;
  // In GetCapability a body has no parent here, but what it reads of enclosing graphs shows.
  for (const OrtNode* node : CTXGEN_TRY(nodes_of(ort, graph))) {
    for (const auto& [count, get] :
         {std::pair(ort.api->Node_GetNumInputs, ort.api->Node_GetInputs),
          std::pair(ort.api->Node_GetNumImplicitInputs, ort.api->Node_GetImplicitInputs)})
      for (const OrtValueInfo* value : CTXGEN_TRY(list(ort, count, get, *node, kValues))) {
        bool outer = false;
        if (value == nullptr) continue;
        CTXGEN_CHECK(from_ort(*ort.api, ort.api->ValueInfo_IsFromOuterScope(value, &outer)));
        if (outer) return true;
      }
  }
  return false;
}

}  // namespace ctxgen::plugin
