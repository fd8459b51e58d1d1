#include "ctxgen/cpu/fold.h"

#include <algorithm>
#include <string_view>

#include "ctxgen/base/log.h"
#include "ctxgen/cpu/kernel.h"

#include "kernel/string_memory.h"
#include "kernel/vector_context.h"

namespace ctxgen::cpu {

bool is_random(const Node& node) {
  constexpr std::string_view kRandom[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                          "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  if (node.op_type == "Dropout") return node.input(2).valid();  // training mode
  return std::ranges::find(kRandom, std::string_view(node.op_type)) != std::end(kRandom);
}

namespace {

bool has_subgraph(const Node& node) {
  return std::ranges::any_of(node.attributes, [](const Attribute& a) { return !a.graphs.empty(); });
}

/// What counts as a constant, and where results go.
enum class Known : std::uint8_t { kAlways, kByDefault };

const Tensor* known_tensor(const Graph& graph, ValueId id, Known known) {
  const Value& value = graph.value(id);
  return known == Known::kAlways ? value.constant() : value.constant_by_default();
}

// Nothing left to find out: every output is known.
bool is_done(const Graph& graph, const Node& node, Known known) {
  return std::ranges::all_of(node.outputs, [&](ValueId id) {
    return !id.valid() || known_tensor(graph, id, known) != nullptr;
  });
}

/// A tensor of no elements in place of an input of which only the type is read.
std::optional<Tensor> stand_in(const Graph& graph, const Node& node, std::size_t input) {
  if (!node.domain.empty() || node.op_type != "CastLike" || input != 1) return std::nullopt;
  const ValueType& type = graph.value(node.inputs[input]).type;
  if (!type.is_tensor()) return std::nullopt;
  auto tensor = Tensor::allocate(type.element, {0});
  return tensor ? std::optional(std::move(*tensor)) : std::nullopt;
}

/// Tensors of a node's inputs; nothing if one that is read is not a constant. `made` holds those that are none.
std::optional<std::vector<const Tensor*>> constant_inputs(const Graph& graph, const Node& node,
                                                          Known known,
                                                          std::optional<Tensor>& made) {
  std::vector<const Tensor*> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    inputs.push_back(id.valid() ? known_tensor(graph, id, known) : nullptr);
    if (!id.valid() || inputs.back() != nullptr) continue;
    made = stand_in(graph, node, i);
    if (!made) return std::nullopt;
    inputs.back() = &*made;
  }
  return inputs;
}

/// Strings that nothing else holds; kernels may make them without make_output.
std::uint64_t new_text_bytes(std::span<const Tensor> outputs) {
  std::uint64_t bytes = 0;
  for (const Tensor& output : outputs)
    if (output.defined() && output.is_string() && output.owner().use_count() == 1)
      bytes += bytes_of_copies(output.strings());
  return bytes;
}

Result<std::vector<Tensor>> run_within(const Node& node, std::span<const Tensor* const> inputs,
                                       std::uint64_t budget_bytes, std::uint64_t& used_bytes) {
  const auto kernel = CTXGEN_TRY(make_kernel(node));
  const std::uint64_t most_bytes = std::min(budget_bytes, kMaxFoldedBytes);
  VectorContext context(node, CTXGEN_TRY(aligned_inputs(inputs)),
                        {.output_bytes = most_bytes, .scratch_bytes = kMaxFoldScratchBytes});
  CTXGEN_CHECK(kernel->run(context));
  auto outputs = CTXGEN_TRY(context.take_outputs());  // of sequences and the like: an error
  used_bytes = std::max(context.allocated_bytes(), new_text_bytes(outputs));
  if (used_bytes > most_bytes)
    return fail(ErrorCode::kResourceLimit, "{}: strings of {} bytes do not fit into {}",
                node.describe(), used_bytes, most_bytes);
  return outputs;
}

/// Dims that Shape gives, from the type alone; nothing if one of them is not fixed.
std::optional<std::vector<std::int64_t>> known_dims(const Node& node, const ValueType& type) {
  if (!type.is_tensor() || !type.has_rank()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(type.rank());
  const auto position = [&](std::string_view name, std::int64_t otherwise) {
    const std::int64_t value = node.int_or(name, otherwise);
    return std::clamp<std::int64_t>(value < 0 ? value + rank : value, 0, rank);
  };
  const bool whole = node.op_type == "Size";
  const std::int64_t start = whole ? 0 : position("start", 0);
  const std::int64_t end = whole ? rank : position("end", rank);
  std::vector<std::int64_t> dims;
  for (std::int64_t i = start; i < end; ++i) {
    const Dim dim = (*type.shape)[static_cast<std::size_t>(i)];
    if (!dim.is_fixed()) return std::nullopt;
    dims.push_back(dim.value());
  }
  return dims;
}

/// Shape or Size of a value whose data is not needed.
std::optional<Tensor> shape_value(const Graph& graph, const Node& node) {
  const bool is_size = node.op_type == "Size";
  if (!node.domain.empty() || (node.op_type != "Shape" && !is_size) || !node.input(0).valid())
    return std::nullopt;
  const auto dims = known_dims(node, graph.value(node.input(0)).type);
  if (!dims || dims->size() > kMaxRank) return std::nullopt;
  const auto count = checked_element_count(Dims(*dims));
  if (is_size && !count) return std::nullopt;
  auto tensor = Tensor::allocate(DataType::kInt64,
                                 is_size ? Dims{} : Dims{static_cast<std::int64_t>(dims->size())});
  if (!tensor) return std::nullopt;
  if (is_size)
    tensor->mutable_elements<std::int64_t>()[0] = static_cast<std::int64_t>(*count);
  else
    std::ranges::copy(*dims, tensor->mutable_elements<std::int64_t>().begin());
  return std::move(*tensor);
}

class Folder {
 public:
  Folder(Graph& graph, std::uint64_t max_bytes, SpillFile* spill, Known known = Known::kAlways,
         const StaysUnfolded& stays = {})
      : graph_(graph), left_bytes_(max_bytes), spill_(spill), known_(known), stays_(stays) {}

  Result<std::size_t> run() {
    std::size_t folded = 0;
    for (std::uint32_t i = 0; i < graph_.node_count(); ++i)
      folded += CTXGEN_TRY(fold(NodeId{i})) ? 1 : 0;
    return folded;
  }
  [[nodiscard]] std::uint64_t left_bytes() const { return left_bytes_; }

 private:
  Result<bool> fold(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.outputs.empty() || is_random(node) || has_subgraph(node) ||
        is_done(graph_, node, known_))
      return false;
    if (auto shape = shape_value(graph_, node); shape && node.output(0).valid()) {
      if (stays_ && stays_(id)) return false;
      place_of(node.output(0)) = std::move(*shape);
      return true;
    }
    std::optional<Tensor> made;
    const auto inputs = constant_inputs(graph_, node, known_, made);
    if (!inputs || find_op(node.domain, node.op_type, node.opset) == nullptr) return false;
    if (stays_ && stays_(id)) return false;
    std::uint64_t used_bytes = 0;
    auto outputs = run_within(node, *inputs, left_bytes_, used_bytes);
    if (!outputs) {
      log(LogLevel::kInfo, "not folded: {}", outputs.error().message);
      return false;
    }
    left_bytes_ -= used_bytes;
    return keep(node, std::move(*outputs));
  }

  Result<bool> keep(const Node& node, std::vector<Tensor> outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (node.outputs[i].valid() && outputs[i].defined())
        place_of(node.outputs[i]) = CTXGEN_TRY(keep_in(spill_, std::move(outputs[i])));
    return true;
  }
  Boxed<Tensor>& place_of(ValueId id) {
    Value& value = graph_.value(id);
    return known_ == Known::kAlways ? value.folded : value.by_default;
  }

  Graph& graph_;
  std::uint64_t left_bytes_;
  SpillFile* spill_;
  Known known_;
  StaysUnfolded stays_;
};

Result<std::size_t> fold_main_graph(Model& model, std::uint64_t max_bytes,
                                    std::uint64_t* used_bytes, SpillFile* spill, Known known,
                                    const StaysUnfolded& stays) {
  Folder folder(model.graph, max_bytes, spill, known, stays);
  const std::size_t folded = CTXGEN_TRY(folder.run());
  if (used_bytes != nullptr) *used_bytes += max_bytes - folder.left_bytes();
  return folded;
}

void bring_captured_constants(const Graph& outer, Graph& body) {
  for (std::uint32_t v = 0; v < body.value_count(); ++v) {
    Value& value = body.value(ValueId{v});
    if (!value.is_outer || value.folded) continue;
    const ValueId source = outer.find(value.name);
    if (source.valid() && outer.value(source).constant() != nullptr)
      value.folded = *outer.value(source).constant();
  }
}

Result<std::size_t> fold_bodies_of(Graph& graph, std::uint64_t& left_bytes, SpillFile* spill) {
  std::size_t folded = 0;
  for (std::uint32_t n = 0; n < graph.node_count(); ++n)
    for (const Attribute& attribute : graph.node(NodeId{n}).attributes)
      for (const auto& body : attribute.graphs) {
        bring_captured_constants(graph, *body);
        Folder folder(*body, left_bytes, spill);
        folded += CTXGEN_TRY(folder.run());
        left_bytes = folder.left_bytes();
        folded += CTXGEN_TRY(fold_bodies_of(*body, left_bytes, spill));
      }
  return folded;
}

}  // namespace

Result<std::size_t> fold_bodies(Model& model, std::uint64_t max_bytes, std::uint64_t* used_bytes,
                                SpillFile* spill) {
  std::uint64_t left_bytes = max_bytes;
  const std::size_t folded = CTXGEN_TRY(fold_bodies_of(model.graph, left_bytes, spill));
  if (used_bytes != nullptr) *used_bytes += max_bytes - left_bytes;
  return folded;
}

Result<std::size_t> fold_constants(Model& model, std::uint64_t max_bytes, std::uint64_t* used_bytes,
                                   SpillFile* spill, const StaysUnfolded& stays) {
  return fold_main_graph(model, max_bytes, used_bytes, spill, Known::kAlways, stays);
}

Result<std::size_t> fold_defaults(Model& model, std::uint64_t max_bytes, std::uint64_t* used_bytes,
                                  SpillFile* spill, const StaysUnfolded& stays) {
  return fold_main_graph(model, max_bytes, used_bytes, spill, Known::kByDefault, stays);
}

}  // namespace ctxgen::cpu
