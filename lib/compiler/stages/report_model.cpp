#include "stages/report_model.h"

#include <algorithm>
#include <format>
#include <iterator>
#include <map>
#include <tuple>

#include "ctxgen/base/suggest.h"
#include "ctxgen/compiler/option_table.h"

namespace ctxgen {
namespace {

const std::string& name_of(const Node& node) {
  return node.name.empty() ? node.first_output_name : node.name;
}

std::string op_type_of(const Node& node) {
  return node.domain.empty() ? node.op_type.str() : std::format("{}.{}", node.domain, node.op_type);
}

/// Nodes that stay, counted, the first of them by name.
class NodeList {
 public:
  void add(const Node& node) {
    if (++count_ > kShown) return;
    text_ +=
        std::format("{}node \"{}\" ({})", count_ == 1 ? "" : ", ", name_of(node), op_type_of(node));
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// "node "a" (Op), node "b" (Op) and 3 more".
  [[nodiscard]] std::string text() const {
    return count_ <= kShown ? text_ : std::format("{} and {} more", text_, count_ - kShown);
  }

 private:
  static constexpr std::size_t kShown = 5;
  std::size_t count_ = 0;
  std::string text_;
};

const Assignment& assignment_of(const PreparedModel& prepared, int body) {
  return body < 0 ? prepared.assignment
                  : prepared.bodies[static_cast<std::size_t>(body)].assignment;
}

/// The place of a partition among those that were built: by body, provider and partition.
using BuiltPlaces = std::map<std::tuple<int, int, int>, int>;

BuiltPlaces places_of(std::span<const BuiltPartition> built) {
  BuiltPlaces places;
  for (const BuiltPartition& b : built)
    places.try_emplace({b.body, static_cast<int>(b.provider), static_cast<int>(b.partition)},
                       static_cast<int>(&b - built.data()));
  return places;
}

void count_nodes(ModelReport& report, const Assignment& assignment) {
  report.nodes += assignment.nodes.size();
  for (const NodeAssignment& a : assignment.nodes) {
    if (a.partition >= 0)
      ++report.compiled_nodes;
    else if (a.folded)
      ++report.folded_nodes;
  }
}

/// What happened to the nodes of one graph.
void add_rows(std::vector<NodeReport>& rows, const Graph& graph, const Assignment& assignment,
              const ProviderList& providers, const BuiltPlaces& built, int body,
              const std::string& name) {
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const NodeAssignment& a = assignment.nodes[n];
    const Node& node = graph.node(NodeId{n});
    NodeReport& row = rows.emplace_back();
    row.name = name_of(node);
    row.graph = name;
    row.op_type = op_type_of(node);
    row.reasons = a.reasons;
    row.folded = a.folded;
    if (a.provider >= 0)
      row.provider = providers.all()[static_cast<std::size_t>(a.provider)]->name();
    if (a.partition < 0) continue;
    const auto it = built.find({body, a.provider, a.partition});
    row.partition = it == built.end() ? a.partition : it->second;
  }
}

std::vector<std::string> costs_of(const PreparedModel& prepared, const ProviderList& providers,
                                  const CompileTarget& target) {
  std::vector<std::string> costs;
  const auto add = [&](const Graph& graph, const Assignment& assignment) {
    const GraphView view(prepared.model, graph, target);
    for (std::size_t p = 0; p < providers.all().size(); ++p)
      std::ranges::move(providers.all()[p]->target_costs(view, assignment.partitions[p]),
                        std::back_inserter(costs));
  };
  add(prepared.model.graph, prepared.assignment);
  for (const PreparedBody& body : prepared.bodies) add(*body.graph, body.assignment);
  return costs;
}

/// An input whose sizes are not all known, as options would name it.
struct OpenInput {
  std::string name;
  std::vector<std::string> dims;  // the open ones that have names
  std::string example;            // "x=1x3x224x224"
};

bool has_size(const ShapeProfile& profile, const std::string& input, std::string_view dim) {
  return std::ranges::contains(profile.symbols, dim,
                               &std::pair<std::string, std::int64_t>::first) ||
         std::ranges::contains(profile.inputs, input, &std::pair<std::string, Dims>::first);
}

/// What a profile gives to one name it gives to all dims of that name, whatever input they are of.
bool is_open(const Model& model, const CompileOptions& options, const Value& input,
             const Dim& dim) {
  if (dim.is_fixed()) return false;
  const std::string_view name =
      dim.is_symbol() ? std::string_view(model.symbol_name(dim.symbol())) : "";
  return options.profiles.empty() ||
         !std::ranges::all_of(options.profiles,
                              [&](const ShapeProfile& p) { return has_size(p, input.name, name); });
}

std::vector<OpenInput> open_inputs(const Model& model, const CompileOptions& options) {
  std::vector<OpenInput> inputs;
  for (const ValueId id : model.graph.inputs) {
    const Value& value = model.graph.value(id);
    if (value.constant() != nullptr || !value.type.is_tensor()) continue;
    OpenInput input{value.name, {}, value.name + "="};
    bool open = !value.type.shape;
    if (open) input.example += "1x3x224x224";
    for (std::size_t i = 0; value.type.shape && i < value.type.rank(); ++i) {
      const Dim& dim = (*value.type.shape)[i];
      input.example += std::format("{}{}", i == 0 ? "" : "x", dim.is_fixed() ? dim.value() : 1);
      if (!is_open(model, options, value, dim)) continue;
      open = true;
      if (dim.is_symbol()) input.dims.push_back(model.symbol_name(dim.symbol()));
    }
    if (open) inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace

std::string unplanned_text(const PreparedModel& prepared, const CompileOptions& options,
                           std::span<const BuiltPartition> built) {
  const auto missing = std::ranges::count(built, 0U, &BuiltPartition::plans);
  const auto inputs = open_inputs(prepared.model, options);
  if (missing == 0 || inputs.empty()) return "";
  std::vector<std::string> dims, names;
  std::string shapes, flags;
  for (const OpenInput& input : inputs) {
    names.push_back(std::format("\"{}\"", input.name));
    shapes += (shapes.empty() ? "--shape " : " --shape ") + input.example;
    for (const std::string& dim : input.dims)
      if (!std::ranges::contains(dims, dim)) dims.push_back(dim);
  }
  for (const std::string& dim : dims)
    flags += std::format("{}--dim {}=1,8", flags.empty() ? "" : " ", dim);
  const bool many = dims.size() > 4 || inputs.size() > 4;
  const std::string text = std::format(
      "{} of {} partition{} not planned ahead, so the first run of each size is slower: no size is given for {}",
      missing, built.size(), built.size() == 1 ? " is" : "s are",
      dims.empty() ? "input " + list_text(names) : list_text(dims));
  if (options.names != OptionNames::kFlags)
    return std::format("{} ({})", text, option_name(options, &CompileOptions::profiles));
  return std::format("{} (for example {}{}{})", text, dims.empty() || many ? "" : flags,
                     dims.empty() || many ? "" : ", or ",
                     many ? "--shape " + inputs.front().example + " and so on" : shapes);
}

ModelReport report_model(const PreparedModel& prepared, const ProviderList& providers,
                         const CompileTarget& target, std::span<const BuiltPartition> built) {
  ModelReport report;
  report.input_name = prepared.name;
  report.warnings = prepared.warnings;
  report.removed_nodes = prepared.removed_nodes;
  for (const BuiltPartition& b : built) {
    const Partition& partition =
        assignment_of(prepared, b.body).partitions[b.provider][b.partition];
    report.partitions.push_back({b.attributes.partition_name,
                                 std::string(providers.all()[b.provider]->name()),
                                 partition.nodes.size(), partition.inputs.size(),
                                 partition.outputs.size(), b.weight_bytes, b.plans, b.notes});
  }
  report.costs = costs_of(prepared, providers, target);
  count_nodes(report, prepared.assignment);
  for (const PreparedBody& body : prepared.bodies) count_nodes(report, body.assignment);
  return report;
}

void report_assignment(ModelReport& report, const PreparedModel& prepared,
                       const ProviderList& providers, std::span<const BuiltPartition> built) {
  const BuiltPlaces places = places_of(built);
  report.assignment.reserve(report.nodes);
  add_rows(report.assignment, prepared.model.graph, prepared.assignment, providers, places, -1, "");
  for (std::size_t b = 0; b < prepared.bodies.size(); ++b)
    add_rows(report.assignment, *prepared.bodies[b].graph, prepared.bodies[b].assignment, providers,
             places, static_cast<int>(b), prepared.bodies[b].name);
}

Status check_requirements(const PreparedModel& prepared, const CompileOptions& options) {
  if (!options.require_runnable && !options.strict) return {};
  NodeList fallback, unassigned;
  std::size_t nodes = 0;
  const auto look = [&](const Graph& graph, const Assignment& assignment) {
    nodes += graph.node_count();
    for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
      const NodeAssignment& a = assignment.nodes[n];
      if (a.folded || a.partition >= 0) continue;
      fallback.add(graph.node(NodeId{n}));
      if (a.provider < 0) unassigned.add(graph.node(NodeId{n}));
    }
  };
  look(prepared.model.graph, prepared.assignment);
  for (const PreparedBody& body : prepared.bodies) look(*body.graph, body.assignment);
  if (options.require_runnable && unassigned.count() != 0)
    return fail(ErrorCode::kNotSatisfied, "{}: no provider runs {}", prepared.name,
                unassigned.text());
  if (options.strict && fallback.count() != 0)
    return fail(ErrorCode::kNotSatisfied, "{}: {} of {} nodes fall back to cpu: {}", prepared.name,
                fallback.count(), nodes, fallback.text());
  return {};
}

}  // namespace ctxgen
