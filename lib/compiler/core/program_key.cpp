#include "core/program_key.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "ctxgen/cache/build_identity.h"

namespace ctxgen {
namespace {

/// Constants up to this size are part of a graph's structure: shapes, axes, scales.
constexpr std::uint64_t kSmallBytes = 1024;

/// Feeds parts of a graph to a hasher, each with what tells where it ends.
class StructureHasher {
 public:
  explicit StructureHasher(const Model& model) : model_(model) {}

  void add(const Graph& graph) {
    add_ids(graph.inputs);
    add_ids(graph.outputs);
    number(graph.value_count());
    for (const Value& value : graph.values()) add(value);
    number(graph.node_count());
    for (const Node& node : graph.nodes()) add(node);
  }
  [[nodiscard]] Hash128 finish() const { return hasher_.finish(); }

 private:
  void number(std::uint64_t n) { hasher_.add(n); }
  void text(std::string_view t) { hasher_.add(t); }
  template <class Ids>
  void add_ids(const Ids& ids) {
    number(ids.size());
    for (const auto id : ids) number(id.valid() ? id.index : ~std::uint64_t{0});
  }
  template <class T>
  void add_raw(const std::vector<T>& items) {
    number(items.size());
    hasher_.add(std::as_bytes(std::span(items)));
  }
  void add(const Dims& dims) {
    number(dims.size());
    for (const std::int64_t dim : dims) number(static_cast<std::uint64_t>(dim));
  }
  void add(const ValueType& type) {
    number(static_cast<std::uint64_t>(type.kind));
    number(static_cast<std::uint64_t>(type.element));
    number(type.has_rank() ? type.rank() + 1 : 0);
    if (!type.has_rank()) return;
    for (const Dim& dim : *type.shape) {
      number(dim.is_fixed() ? 1 : dim.is_symbol() ? 2 : 3);
      if (dim.is_fixed()) number(static_cast<std::uint64_t>(dim.value()));
      if (dim.is_symbol()) text(model_.symbol_name(dim.symbol()));
    }
  }
  /// With its content, or only its size where that is `small_only`.
  void add(const Tensor& tensor, bool small_only) {
    number(static_cast<std::uint64_t>(tensor.type()));
    add(tensor.dims());
    if (tensor.is_string()) {
      for (const std::string& string : tensor.strings()) text(string);
      return;
    }
    if (small_only && tensor.bytes().size() > kSmallBytes) return;
    hasher_.add(tensor.bytes());
  }
  void add(const Value& value) {
    text(value.name);
    add(value.type);
    number((value.is_input ? 1U : 0U) | (value.is_output ? 2U : 0U) | (value.is_outer ? 4U : 0U) |
           (value.is_overridable ? 8U : 0U) | (value.is_sparse ? 16U : 0U) |
           (value.folded ? 32U : 0U));
    number(value.producer.valid() ? value.producer.index : ~std::uint64_t{0});
    add_ids(value.consumers);
    const Tensor* constant = value.constant_by_default();
    number(constant != nullptr ? 1 : 0);
    if (constant != nullptr) add(*constant, /*small_only=*/true);
  }
  void add(const Node& node) {
    for (const std::string_view part :
         {std::string_view(node.name), node.op_type.view(), node.domain.view(),
          node.overload.view(), std::string_view(node.first_output_name)})
      text(part);
    number(static_cast<std::uint64_t>(node.opset));
    add_ids(node.inputs);
    add_ids(node.outputs);
    add_ids(node.captures);
    number(node.attributes.size());
    for (const Attribute& attribute : node.attributes) add(attribute);
  }
  void add(const Attribute& a) {
    text(a.name);
    text(a.ref_name);
    number(static_cast<std::uint64_t>(a.kind));
    add_raw(std::vector{a.f});
    number(static_cast<std::uint64_t>(a.i));
    text(a.s);
    add_raw(a.floats);
    add_raw(a.ints);
    number(a.strings.size());
    for (const std::string& string : a.strings) text(string);
    number(a.tensors.size());
    for (const Tensor& tensor : a.tensors) add(tensor, /*small_only=*/false);
    number(a.graphs.size());
    for (const auto& graph : a.graphs) add(*graph);
    number(a.types.size());
    for (const ValueType& type : a.types) add(type);
  }

  const Model& model_;
  Hasher hasher_;
};

/// The constants that a partition's program can be made of.
class ConstantCollector {
 public:
  ConstantCollector(const GraphView& view, std::unordered_map<ValueId, Hash128>& hashes)
      : view_(view), hashes_(hashes) {}

  void visit(const Node& node) {
    for (const ValueId id : node.inputs) visit(id);
  }
  void add_to(Hasher& hasher, std::map<Hash128, Blob>& constants) const {
    for (const auto& [id, hash] : found_) {  // by id: the order of the graph
      hasher.add(std::uint64_t{id});
      hasher.add(hash.high);
      hasher.add(hash.low);
      const Tensor& tensor = *view_.constant(ValueId{id});
      constants.try_emplace(hash, Blob{tensor.owner(), tensor.bytes()});
    }
  }

  /// Which constants stay in the source, small ones too.
  void add_staying(Hasher& hasher, const ProviderCompileOptions& options) const {
    for (const std::uint32_t id : seen_) {
      const Tensor& constant = *view_.constant(ValueId{id});
      const bool stays = !constant.is_string() && options.stays_plain(constant.bytes());
      hasher.add(std::uint64_t{stays});
    }
  }

 private:
  void visit(ValueId id) {
    std::vector<ValueId> open{id};
    while (!open.empty()) {
      const ValueId next = open.back();
      open.pop_back();
      const Tensor* constant = view_.constant(next);
      if (constant == nullptr || !seen_.insert(next.index).second) continue;
      // Small ones and strings are in the structure.
      if (!constant->is_string() && constant->bytes().size() > kSmallBytes)
        found_.emplace(next.index, hash_of(next, *constant));
      // A folded value may be lowered from what it was made of: integers with their scale.
      if (const NodeId producer = view_.graph().value(next).producer; producer.valid())
        std::ranges::copy(view_.graph().node(producer).inputs, std::back_inserter(open));
    }
  }

  /// Many partitions may read one constant: its bytes are read once.
  Hash128 hash_of(ValueId id, const Tensor& constant) {
    const auto [known, added] = hashes_.try_emplace(id);
    if (added) known->second = hash_bytes(constant.bytes());
    return known->second;
  }

  const GraphView& view_;
  std::unordered_map<ValueId, Hash128>& hashes_;
  std::set<std::uint32_t> seen_;
  std::map<std::uint32_t, Hash128> found_;
};

void add_shapes(Hasher& hasher, const Partition& partition, const ProviderCompileOptions& options) {
  hasher.add(std::uint64_t{options.profiles.size()});
  if (!options.profile_dims) return;
  for (std::size_t i = 0; i < options.profiles.size(); ++i)
    for (const ValueId id : partition.inputs) {
      const auto dims = options.profile_dims(i, id);
      hasher.add(std::uint64_t{dims ? dims->size() + 1 : 0});
      if (dims)
        for (const std::int64_t dim : *dims) hasher.add(static_cast<std::uint64_t>(dim));
    }
}

}  // namespace

GraphHashes hash_structure(const Model& model, const Graph& graph) {
  StructureHasher hasher(model);
  hasher.add(graph);
  return {.structure = hasher.finish(), .constants = {}};
}

ProgramKey key_of_partition(const GraphView& view, const Partition& partition,
                            const Provider& provider, const ProviderCompileOptions& options,
                            std::string_view fingerprint, GraphHashes& hashes) {
  Hasher hasher;
  for (const std::string_view part : {std::string_view("ctxgen program"), build_identity(),
                                      provider.name(), provider.source(), fingerprint})
    hasher.add(part);
  hasher.add(hashes.structure.high);
  hasher.add(hashes.structure.low);
  hasher.add(std::uint64_t{options.provider_options.size()});
  for (const auto& [key, value] : options.provider_options) {
    hasher.add(key);
    hasher.add(value);
  }
  hasher.add(std::uint64_t{options.choices.size()});
  for (const auto& [op, choice] : options.choices) {
    hasher.add(op);
    hasher.add(choice);
  }
  if (options.tuning != nullptr)
    for (const std::string& line : effect_of(*options.tuning)) hasher.add(line);
  add_shapes(hasher, partition, options);
  const auto add_ids = [&](const auto& ids) {
    hasher.add(std::uint64_t{ids.size()});
    for (const auto id : ids) hasher.add(std::uint64_t{id.index});
  };
  add_ids(partition.nodes);
  add_ids(partition.inputs);
  add_ids(partition.outputs);
  const GraphView by_default = view.by_default();  // a program has them as well
  ConstantCollector collector(by_default, hashes.constants);
  for (const NodeId id : partition.nodes) collector.visit(view.graph().node(id));
  ProgramKey result;
  collector.add_to(hasher, result.constants);
  if (options.stays_plain) collector.add_staying(hasher, options);
  result.key = hasher.finish();
  return result;
}

}  // namespace ctxgen
