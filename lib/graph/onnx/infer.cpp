#include "ctxgen/onnx/infer.h"

#include <algorithm>
#include <format>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <onnx/shape_inference/implementation.h>

#include "guard.h"
#include "inference_guard.h"
#include "inference_registry.h"
#include "inferred_types.h"
#include "skeleton.h"

namespace ctxgen {
namespace {

using TypesByName = std::unordered_map<std::string_view, const onnx::TypeProto*>;

TypesByName types_of(const onnx::GraphProto& graph) {
  TypesByName types;
  for (const auto& info : graph.value_info()) types.insert_or_assign(info.name(), &info.type());
  for (const auto& info : graph.input()) types.insert_or_assign(info.name(), &info.type());
  for (const auto& info : graph.output()) types.insert_or_assign(info.name(), &info.type());
  return types;
}

// Symbols in what inference gives back. Those that it made up ("unk__0") start again in each run and
// would be taken for those of an earlier one, or for those of values that the skeleton leaves out:
// they get names that the model has not seen.
class SymbolNames {
 public:
  explicit SymbolNames(Model& model) : model_(model) {}

  /// Before the types of this part are asked for.
  void begin(const onnx::GraphProto& skeleton) {
    given_.clear();
    fresh_.clear();
    collect(skeleton);
    for (; seen_ < model_.symbol_count(); ++seen_) old_.insert(model_.symbol_name(SymbolId{seen_}));
  }

  SymbolId operator()(const std::string& name) {
    if (given_.contains(name)) return model_.symbol(name);
    auto [entry, is_new] = fresh_.try_emplace(name, name);
    for (int i = 1; is_new && old_.contains(entry->second); ++i)
      entry->second = std::format("{}_{}", name, i);
    return model_.symbol(entry->second);
  }

 private:
  void collect(const onnx::TypeProto& type) {
    for (const auto& dim : type.tensor_type().shape().dim()) given_.insert(dim.dim_param());
    if (type.has_sequence_type()) collect(type.sequence_type().elem_type());
    if (type.has_optional_type()) collect(type.optional_type().elem_type());
  }
  void collect(const onnx::GraphProto& graph) {
    for (const auto* list : {&graph.input(), &graph.output(), &graph.value_info()})
      for (const auto& info : *list) collect(info.type());
    for (const auto& node : graph.node())
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) collect(attribute.g());
        for (const auto& each : attribute.graphs()) collect(each);
      }
  }

  Model& model_;
  std::set<std::string> given_;
  std::unordered_set<std::string> old_;  // the model's before this part
  std::uint32_t seen_ = 0;               // how many of them are in old_
  std::unordered_map<std::string, std::string> fresh_;
};

bool is_made_up(const Dim& dim, const Model& model) {
  return dim.is_unknown() ||
         (dim.is_symbol() && model.symbol_name(dim.symbol()).starts_with("unk__"));
}

// A graph output keeps what the file says of dims that inference leaves open: its caller does.
ValueType merged(ValueType inferred, const ValueType& declared, const Model& model) {
  if (inferred.kind != declared.kind || inferred.element != declared.element || !declared.shape)
    return inferred;
  if (!inferred.shape) return declared;
  if (inferred.shape->size() != declared.shape->size()) return inferred;
  for (std::size_t i = 0; i < inferred.shape->size(); ++i)
    if (is_made_up((*inferred.shape)[i], model) && !is_made_up((*declared.shape)[i], model))
      (*inferred.shape)[i] = (*declared.shape)[i];
  return inferred;
}

// Both say a number, or a rank, and not the same one.
bool contradicts(const ValueType& inferred, const ValueType& declared) {
  if (!inferred.is_tensor() || !declared.is_tensor() || !inferred.shape || !declared.shape)
    return false;
  return !std::ranges::equal(*inferred.shape, *declared.shape, [](const Dim& a, const Dim& b) {
    return !a.is_fixed() || !b.is_fixed() || a == b;
  });
}

class TypeWriter {
 public:
  TypeWriter(Model& model, SymbolNames& symbols) : model_(model), symbols_(symbols) {}

  /// Of the main graph.
  void write(const GraphPart& part, const onnx::GraphProto& inferred) {
    Graph& graph = model_.graph;
    if (part.whole) {
      write(graph, nullptr, part.nodes, inferred);
      return;
    }
    const TypesByName types = types_of(inferred);
    for (const NodeId node : part.nodes)
      for (const ValueId id : graph.node(node).outputs)
        if (id.valid()) write_value(graph, nullptr, graph.value(id), types);
    for (const ValueId id : part.constants) write_value(graph, nullptr, graph.value(id), types);
    write_subgraphs(graph, part.nodes, inferred);
  }

 private:
  // `outer`: the enclosing graph, done before; nullptr for the main graph. `nodes`: its skeleton's.
  void write(Graph& graph, const Graph* outer, std::span<const NodeId> nodes,
             const onnx::GraphProto& inferred) {
    const TypesByName types = types_of(inferred);
    for (std::uint32_t i = 0; i < graph.value_count(); ++i)
      write_value(graph, outer, graph.value(ValueId{i}), types);
    write_subgraphs(graph, nodes, inferred);
  }

  void write_value(const Graph& graph, const Graph* outer, Value& value, const TypesByName& types) {
    if (value.constant() != nullptr && !value.is_outer) {
      value.type = exact_type(*value.constant());
    } else if (value.is_outer && outer != nullptr) {
      const ValueId id = outer->find(value.name);
      if (id.valid()) value.type = outer->value(id).type;
    } else if (const auto found = types.find(value.name); found != types.end()) {
      set_type(graph, value, *found->second);
    } else if (value.producer.valid() && may_infer(model_, graph.node(value.producer))) {
      value.type.shape.reset();  // what the file declares may be wrong; the element type is kept
    }
  }

  static bool has_body(const Graph& graph, const Value& value) {
    return value.producer.valid() &&
           std::ranges::any_of(graph.node(value.producer).attributes,
                               [](const Attribute& a) { return !a.graphs.empty(); });
  }

  void set_type(const Graph& graph, Value& value, const onnx::TypeProto& proto) {
    ValueType type = from_proto(proto, std::ref(symbols_));
    if (type.kind == ValueType::Kind::kUnknown ||
        (type.is_tensor() && type.element == DataType::kUndefined))
      return;  // nothing was found
    const bool differs = value.is_output && contradicts(type, value.type);
    // onnx takes a value in a body for the output of its node where both have one name: a Scan's
    // output loses its first axis. No program gives such outputs, so the file's word counts.
    if (differs && has_body(graph, value)) return;
    if (differs) value.type_contradicts = true;
    if (value.is_output || (value.is_input && !value.type.has_rank()))
      type = merged(std::move(type), value.type, model_);
    value.type = std::move(type);
  }

  void write_body(Graph& body, const Graph& outer, const onnx::GraphProto& inferred) {
    write(body, &outer, skeleton_nodes(body), inferred);
  }

  void write_subgraphs(Graph& graph, std::span<const NodeId> ids,
                       const onnx::GraphProto& inferred) {
    for (std::size_t n = 0; n < ids.size(); ++n) {
      auto& attributes = graph.node(ids[n]).attributes;
      const auto& proto = inferred.node(static_cast<int>(n));
      for (std::size_t a = 0; a < attributes.size(); ++a) {
        const auto& text = proto.attribute(static_cast<int>(a));
        if (attributes[a].kind == AttributeKind::kGraph)
          write_body(*attributes[a].graphs.at(0), graph, text.g());
        if (attributes[a].kind == AttributeKind::kGraphs)
          for (std::size_t g = 0; g < attributes[a].graphs.size(); ++g)
            write_body(*attributes[a].graphs[g], graph, text.graphs(static_cast<int>(g)));
      }
    }
  }

  Model& model_;
  SymbolNames& symbols_;
};

}  // namespace

Status run_inference(onnx::ModelProto& model) {
  return guarded("shape inference", [&model]() -> Status {
    // Not strict: where a node's inference fails its outputs stay unknown, which is not an error.
    const onnx::ShapeInferenceOptions options(/*check_type=*/false, /*strict_mode=*/0,
                                              /*data_prop=*/true);
    const InferenceRegistry registry;
    onnx::shape_inference::InferShapes(model, &registry, options);
    return {};
  });
}

namespace {

// What onnx copies: each body begins with all that is known outside it.
std::uint64_t copies_for_bodies(const Graph& graph, std::uint64_t outside) {
  std::uint64_t copies = 0;
  outside += graph.value_count();
  for (const Node& node : graph.nodes())
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs)
        copies += outside + copies_for_bodies(*body, outside);
  return copies;
}

}  // namespace

Status infer_shapes(Model& model, std::size_t nodes_at_once) {
  return guarded("shape inference", [&]() -> Status {
    constexpr std::uint64_t kMostCopies = std::uint64_t{1} << 26;
    if (const std::uint64_t copies = copies_for_bodies(model.graph, 0); copies > kMostCopies)
      return fail(ErrorCode::kResourceLimit,
                  "shape inference: its bodies see {} values of the graphs around them, at most {}",
                  copies, kMostCopies);
    SymbolNames symbols(model);
    for (const GraphPart& part : parts_of(model.graph, nodes_at_once)) {
      Skeleton skeleton;
      build_skeleton(model, part, SkeletonUse::kInference, skeleton);
      symbols.begin(skeleton.graph());
      CTXGEN_CHECK(run_inference(skeleton.model()));
      TypeWriter(model, symbols).write(part, skeleton.graph());
    }
    return {};
  });
}

}  // namespace ctxgen
