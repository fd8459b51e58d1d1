#include "stages/cut_model.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/suggest.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/onnx/infer.h"
#include "ctxgen/onnx_lite/write_model.h"

namespace ctxgen {
namespace {

/// Candidates in an error: the names of large models would fill screens.
constexpr std::size_t kMostNames = 12;

std::vector<std::string> names_of(const Graph& graph, std::span<const ValueId> ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(graph.value(id).name);
  return names;
}

/// What is written as one: a node, or the call of a function with the nodes that it became.
struct Unit {
  NodeToWrite what;
  std::vector<ValueId> reads, gives;
  std::string text;  // for messages
};

class Cut {
 public:
  Cut(Model& model, const CompileOptions& options)
      : model_(model),
        graph_(model.graph),
        options_(options),
        needed_(graph_.value_count()),
        is_input_(graph_.value_count()) {}

  Result<ModelRewrite> rewrite();

 private:
  Result<std::vector<ValueId>> find(const std::vector<std::string>& names, OptionSlot slot);
  Status check_inputs(std::span<const ValueId> inputs);
  void list_units();
  Status collect(std::vector<bool>& kept);
  Status check_interface(std::span<const ValueId> inputs, const std::vector<bool>& kept);
  void become_interface(std::vector<ValueId> inputs, std::vector<ValueId> outputs);
  Status check_type(ValueId id) const;
  [[nodiscard]] bool is_from_caller(const Value& value) const {
    return value.is_input && !value.initializer;
  }

  Model& model_;
  Graph& graph_;
  const CompileOptions& options_;
  std::vector<Unit> units_;
  std::vector<std::optional<std::size_t>> giver_;  // by value: index of its unit
  std::vector<bool> needed_, is_input_;            // by value
};

Result<std::vector<ValueId>> Cut::find(const std::vector<std::string>& names, OptionSlot slot) {
  std::vector<ValueId> found;
  for (const std::string& name : names) {
    const ValueId id = graph_.find(name);
    if (!id.valid() || !(giver_[id.index] || graph_.value(id).is_input ||
                         graph_.value(id).initializer)) {  // inside of a function: not the model's
      std::vector<std::string> known;
      for (const Value& value : graph_.values())
        if (!value.name.empty()) known.push_back(value.name);
      const std::string hint = did_you_mean(name, known);
      const std::vector<std::string> ends =
          names_of(graph_, slot == OptionSlot(&CompileOptions::input_names) ? graph_.inputs
                                                                            : graph_.outputs);
      return fail(ErrorCode::kInvalidArgument, "{}: the model has no value \"{}\"{}{}",
                  option_name(options_, slot), name, hint,
                  hint.empty() && ends.size() <= kMostNames ? "; it has: " + list_text(ends) : "");
    }
    if (std::ranges::contains(found, id))
      return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is named twice",
                  option_name(options_, slot), name);
    found.push_back(id);
  }
  return found;
}

Status Cut::check_inputs(std::span<const ValueId> inputs) {
  for (const ValueId id : inputs) {
    const Value& value = graph_.value(id);
    if (value.initializer && !value.is_input)
      return fail(ErrorCode::kInvalidArgument,
                  "{}: \"{}\" is a constant of the model, not something a caller can give",
                  option_name(options_, &CompileOptions::input_names), value.name);
    is_input_[id.index] = true;
  }
  return {};
}

void Cut::list_units() {
  giver_.resize(graph_.value_count());
  for (const NodeToWrite& what : identity_rewrite(graph_).nodes) {
    Unit unit{.what = what, .reads = {}, .gives = {}, .text = {}};
    const auto take = [](const auto& from, std::vector<ValueId>& to) {
      for (const ValueId id : from)
        if (id.valid()) to.push_back(id);
    };
    if (what.kind == NodeToWrite::Kind::kCall) {
      const FunctionCall& call = graph_.calls()[static_cast<std::size_t>(what.call)];
      take(call.inputs, unit.reads);
      take(call.outputs, unit.gives);
      unit.text = "the call of a function";
    } else {
      const Node& node = graph_.node(what.node);
      take(node.inputs, unit.reads);
      take(node.captures, unit.reads);
      take(node.outputs, unit.gives);
      unit.text = node.describe();
    }
    for (const ValueId id : unit.gives) giver_[id.index] = units_.size();
    units_.push_back(std::move(unit));
  }
}

/// Backwards from what is needed to the inputs; units are in topological order.
Status Cut::collect(std::vector<bool>& kept) {
  const bool any_input = options_.input_names.empty();
  for (std::size_t u = units_.size(); u-- > 0;) {
    const Unit& unit = units_[u];
    kept[u] = std::ranges::any_of(
        unit.gives, [&](ValueId id) { return needed_[id.index] && !is_input_[id.index]; });
    if (!kept[u]) continue;
    for (const ValueId id : unit.gives)
      if (is_input_[id.index])
        return fail(ErrorCode::kInvalidArgument,
                    "{}: \"{}\" is given by {}, which is needed for other values too",
                    option_name(options_, &CompileOptions::input_names), graph_.value(id).name,
                    unit.text);
    for (const ValueId id : unit.reads) needed_[id.index] = true;
  }
  if (any_input) return {};
  for (std::uint32_t v = 0; v < graph_.value_count(); ++v) {
    const Value& value = graph_.value(ValueId{v});
    if (needed_[v] && !is_input_[v] && is_from_caller(value))
      return fail(ErrorCode::kInvalidArgument,
                  "{}: what is asked for also needs the input \"{}\", which is not named",
                  option_name(options_, &CompileOptions::input_names), value.name);
  }
  return {};
}

Status Cut::check_type(ValueId id) const {
  const Value& value = graph_.value(id);
  if (value.type.kind != ValueType::Kind::kUnknown) return {};
  return fail(ErrorCode::kInvalidArgument,
              "\"{}\" cannot be where the model is cut: its type is not known", value.name);
}

Status Cut::check_interface(std::span<const ValueId> inputs, const std::vector<bool>& kept) {
  for (const ValueId id : inputs) {
    if (!needed_[id.index])
      return fail(ErrorCode::kInvalidArgument, "{}: nothing that is asked for needs \"{}\"",
                  option_name(options_, &CompileOptions::input_names), graph_.value(id).name);
    CTXGEN_CHECK(check_type(id));
  }
  if (std::ranges::none_of(kept, std::identity()))
    return fail(ErrorCode::kInvalidArgument, "{} and {} leave no node between them",
                option_name(options_, &CompileOptions::input_names),
                option_name(options_, &CompileOptions::output_names));
  return {};
}

/// The graph's own interface: what is written is the graph's.
void Cut::become_interface(std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  for (const ValueId id : graph_.outputs) graph_.value(id).is_output = false;
  for (const ValueId id : inputs) graph_.value(id).is_input = true;
  for (const ValueId id : outputs) graph_.value(id).is_output = true;
  graph_.inputs = std::move(inputs);
  graph_.outputs = std::move(outputs);
}

Result<ModelRewrite> Cut::rewrite() {
  list_units();
  std::vector<ValueId> inputs =
      CTXGEN_TRY(find(options_.input_names, &CompileOptions::input_names));
  std::vector<ValueId> outputs =
      CTXGEN_TRY(find(options_.output_names, &CompileOptions::output_names));
  if (outputs.empty()) outputs = graph_.outputs;
  CTXGEN_CHECK(check_inputs(inputs));
  for (const ValueId id : outputs) {
    if (is_input_[id.index])
      return fail(ErrorCode::kInvalidArgument, "\"{}\" cannot be both in {} and an output",
                  graph_.value(id).name, option_name(options_, &CompileOptions::input_names));
    CTXGEN_CHECK(check_type(id));
    needed_[id.index] = true;
  }
  std::vector<bool> kept(units_.size());
  CTXGEN_CHECK(collect(kept));
  CTXGEN_CHECK(check_interface(inputs, kept));
  for (const ValueId id : graph_.inputs) {  // those that callers may override stay so
    const Value& value = graph_.value(id);
    if (is_input_[id.index] || !needed_[id.index]) continue;
    if (options_.input_names.empty() || value.initializer) inputs.push_back(id);
  }

  ModelRewrite rewrite = identity_rewrite(model_);
  rewrite.nodes.clear();
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (!kept[u]) continue;
    rewrite.nodes.push_back(units_[u].what);
    for (const ValueId id : units_[u].gives) needed_[id.index] = true;  // its value_info
  }
  rewrite.inputs = inputs;
  std::erase_if(rewrite.initializers, [&](ValueId id) { return !needed_[id.index]; });
  std::erase_if(rewrite.value_infos, [&](ValueId id) {
    return !needed_[id.index] || std::ranges::contains(inputs, id) ||
           std::ranges::contains(outputs, id);
  });
  rewrite.functions = functions_in_use(model_, rewrite.nodes);
  become_interface(std::move(inputs), std::move(outputs));
  return rewrite;
}

}  // namespace

bool asks_for_part(const CompileOptions& options) {
  return !options.input_names.empty() || !options.output_names.empty();
}

Result<Blob> cut_model(Model& model, const ModelInput& input, const CompileOptions& options) {
  CTXGEN_CHECK(infer_shapes(model));
  ModelRewrite rewrite = CTXGEN_TRY(Cut(model, options).rewrite());
  rewrite.external_buffers = input.external_data;
  const std::uint64_t size = CTXGEN_TRY(model_size(model, rewrite));
  CTXGEN_CHECK(check_model_size(size, 0));  // before memory is asked for it
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  CTXGEN_CHECK(write_model(model, rewrite, [&bytes](std::span<const std::byte> run) -> Status {
    bytes.insert(bytes.end(), run.begin(), run.end());
    return {};
  }));
  return Blob::own(std::move(bytes));
}

}  // namespace ctxgen
