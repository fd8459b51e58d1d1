#include <cstdint>
#include <unordered_map>

#include "ctxgen/onnx/infer.h"

#include "guard.h"
#include "inferred_types.h"
#include "skeleton.h"

namespace ctxgen {
namespace {

using Symbols = std::vector<std::pair<std::string, std::int64_t>>;
using Inputs = std::vector<std::pair<std::string, Dims>>;

// The numbers that a profile gives to symbols, directly or through the dims of an input.
class Bindings {
 public:
  explicit Bindings(const Model& model) : model_(model) {
    for (std::uint32_t i = 0; i < model.symbol_count(); ++i)
      ids_.emplace(model.symbol_name(SymbolId{i}), SymbolId{i});
  }

  Status bind(std::string_view name, std::int64_t value) {
    const auto id = ids_.find(name);
    if (id == ids_.end())
      return fail(ErrorCode::kInvalidArgument, "the model has no dimension \"{}\"", name);
    if (value < 0) return fail(ErrorCode::kInvalidArgument, "dimension \"{}\" is {}", name, value);
    const auto [entry, is_new] = values_.emplace(id->second, value);
    if (!is_new && entry->second != value)
      return fail(ErrorCode::kInvalidArgument, "dimension \"{}\" is both {} and {}", name,
                  entry->second, value);
    return {};
  }

  Status bind_input(const std::string& name, const Dims& dims) {
    const ValueId id = model_.graph.find(name);
    if (!id.valid() || !model_.graph.value(id).is_input)
      return fail(ErrorCode::kInvalidArgument, "the model has no input \"{}\"", name);
    const ValueType& type = model_.graph.value(id).type;
    if (!type.shape) return {};
    if (type.rank() != dims.size())
      return fail(
          ErrorCode::kInvalidArgument, "input \"{}\" is {}: expected {} sizes, got {} ({}){}", name,
          to_string(type, model_), type.rank(), dims.size(), to_string(dims),
          dims.size() == 1 ? "; --shape joins sizes with x (1x3x224x224), a comma separates "
                             "shapes"
                           : "");
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const Dim& dim = (*type.shape)[i];
      if (dim.is_fixed() && dim.value() != dims[i])
        return fail(ErrorCode::kInvalidArgument,
                    "input \"{}\" is {}: expected {} as size {}, got {}", name,
                    to_string(type, model_), dim.value(), i + 1, dims[i]);
      if (dim.is_symbol()) CTXGEN_CHECK(bind(model_.symbol_name(dim.symbol()), dims[i]));
    }
    return {};
  }

  [[nodiscard]] std::optional<std::int64_t> operator()(SymbolId id) const {
    const auto found = values_.find(id);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  const Model& model_;
  std::unordered_map<std::string_view, SymbolId> ids_;
  std::unordered_map<SymbolId, std::int64_t> values_;
};

void set_input_dims(onnx::GraphProto& graph, const Inputs& inputs) {
  for (auto& input : *graph.mutable_input())
    for (const auto& [name, dims] : inputs) {
      if (input.name() != name || !input.type().has_tensor_type()) continue;
      auto* shape = input.mutable_type()->mutable_tensor_type()->mutable_shape();
      shape->clear_dim();
      for (const std::int64_t dim : dims) shape->add_dim()->set_dim_value(dim);
    }
}

std::optional<Dims> fixed_dims(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return std::nullopt;
  const auto& shape = type.tensor_type().shape();
  if (shape.dim_size() > static_cast<int>(kMaxRank)) return std::nullopt;
  Dims dims;
  for (const auto& dim : shape.dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0) return std::nullopt;
    dims.push_back(dim.dim_value());
  }
  return dims;
}

// What is known of a value without inference: a constant, or a type whose symbols have numbers.
std::optional<Dims> known_dims(const Value& value, const Bindings& bindings) {
  if (const Tensor* constant = value.constant()) return constant->dims();
  if (!value.type.is_tensor() || !value.type.shape) return std::nullopt;
  Dims dims;
  for (const Dim& dim : *value.type.shape) {
    const auto number = dim.is_fixed()    ? std::optional(dim.value())
                        : dim.is_symbol() ? bindings(dim.symbol())
                                          : std::nullopt;
    if (!number) return std::nullopt;
    dims.push_back(*number);
  }
  return dims;
}

}  // namespace

Result<std::vector<std::optional<Dims>>> infer_dims_with(const Model& model, const Symbols& symbols,
                                                         const Inputs& inputs) {
  Bindings bindings(model);
  for (const auto& [name, value] : symbols) CTXGEN_CHECK(bindings.bind(name, value));
  for (const auto& [name, dims] : inputs) CTXGEN_CHECK(bindings.bind_input(name, dims));

  Skeleton skeleton;
  CTXGEN_CHECK(guarded("shape inference", [&]() -> Status {
    const GraphPart whole = std::move(parts_of(model.graph, SIZE_MAX).front());
    build_skeleton(model, whole, SkeletonUse::kInference, skeleton, std::cref(bindings));
    set_input_dims(skeleton.graph(), inputs);
    return {};
  }));
  CTXGEN_CHECK(run_inference(skeleton.model()));
  std::unordered_map<std::string_view, std::optional<Dims>> found;
  const onnx::GraphProto& graph = skeleton.graph();
  for (const auto* list : {&graph.input(), &graph.value_info(), &graph.output()})
    for (const auto& info : *list) found.insert_or_assign(info.name(), fixed_dims(info.type()));
  std::vector<std::optional<Dims>> dims;
  for (const Value& value : model.graph.values()) {
    const auto inferred = found.find(value.name);
    const bool use = value.constant() == nullptr && inferred != found.end() && inferred->second;
    dims.push_back(use ? inferred->second : known_dims(value, bindings));
  }
  return dims;
}

}  // namespace ctxgen
