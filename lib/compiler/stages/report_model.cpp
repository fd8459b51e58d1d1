#include "stages/report_model.h"

#include <algorithm>
#include <format>
#include <iterator>
#include <map>
#include <tuple>

#include "ctxgen/base/suggest.h"
#include "ctxgen/registry/providers.h"

namespace ctxgen {
namespace {

/// "node "a" (Op), node "b" (Op) and 3 more".
std::string list_nodes(std::span<const NodeReport* const> nodes) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(nodes.size(), kShown); ++i)
    text += std::format("{}node \"{}\" ({})", i == 0 ? "" : ", ", nodes[i]->name, nodes[i]->op_type);
  if (nodes.size() > kShown) text += std::format(" and {} more", nodes.size() - kShown);
  return text;
}

const Assignment& assignment_of(const PreparedModel& prepared, int body) {
  return body < 0 ? prepared.assignment : prepared.bodies[static_cast<std::size_t>(body)].assignment;
}

/// Where a partition stands among those that were built: by body, provider and partition.
using BuiltPlaces = std::map<std::tuple<int, int, int>, int>;

BuiltPlaces places_of(std::span<const BuiltPartition> built) {
  BuiltPlaces places;
  for (const BuiltPartition& b : built)
    places.try_emplace({b.body, static_cast<int>(b.provider), static_cast<int>(b.partition)},
                       static_cast<int>(&b - built.data()));
  return places;
}

/// What happened to the nodes of one graph.
void add_nodes(ModelReport& report, const Graph& graph, const Assignment& assignment,
               const ProviderList& providers, const BuiltPlaces& built, int body,
               const std::string& name) {
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const NodeAssignment& a = assignment.nodes[n];
    const Node& node = graph.node(NodeId{n});
    NodeReport row;
    row.name = node.name.empty() ? node.first_output_name : node.name;
    row.graph = name;
    row.op_type = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
    row.reasons = a.reasons;
    row.folded = a.folded;
    if (a.provider >= 0) row.provider = providers.all()[static_cast<std::size_t>(a.provider)]->name();
    ++report.nodes;
    if (a.partition >= 0) {
      ++report.compiled_nodes;
      const auto it = built.find({body, a.provider, a.partition});
      row.partition = it == built.end() ? a.partition : it->second;
    } else if (a.folded) {
      ++report.folded_nodes;
    }
    report.assignment.push_back(std::move(row));
  }
}

std::vector<std::string> costs_of(const PreparedModel& prepared, const ProviderList& providers,
                                  const CompileTarget& target) {
  std::vector<std::string> costs;
  const auto add = [&](const Graph& graph, const Assignment& assignment) {
    const GraphView view(prepared.model, graph, target);
    for (std::size_t p = 0; p < providers.all().size(); ++p)
      std::ranges::move(target_costs(providers.all()[p]->name(), view, assignment.partitions[p]),
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
  return std::ranges::contains(profile.symbols, dim, &std::pair<std::string, std::int64_t>::first) ||
         std::ranges::contains(profile.inputs, input, &std::pair<std::string, Dims>::first);
}

/// What a profile gives to one name it gives to all dims of that name, whatever input they are of.
bool is_open(const Model& model, const CompileOptions& options, const Value& input, const Dim& dim) {
  if (dim.is_fixed()) return false;
  const std::string_view name = dim.is_symbol() ? std::string_view(model.symbol_name(dim.symbol())) : "";
  return options.profiles.empty() || !std::ranges::all_of(options.profiles, [&](const ShapeProfile& p) {
    return has_size(p, input.name, name);
  });
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
  for (const std::string& dim : dims) flags += std::format("{}--dim {}=1,8", flags.empty() ? "" : " ", dim);
  const bool many = dims.size() > 4 || inputs.size() > 4;
  return std::format("{} of {} partition{} not planned ahead, so the first run of each size is slower: no size is given for {} "
                     "(for example {}{}{})",
                     missing, built.size(), built.size() == 1 ? " is" : "s are",
                     dims.empty() ? "input " + list_text(names) : list_text(dims),
                     dims.empty() || many ? "" : flags, dims.empty() || many ? "" : ", or ",
                     many ? "--shape " + inputs.front().example + " and so on" : shapes);
}

ModelReport report_model(const PreparedModel& prepared, const ProviderList& providers,
                         const CompileTarget& target, std::span<const BuiltPartition> built) {
  ModelReport report;
  report.input_name = prepared.name;
  report.warnings = prepared.warnings;
  report.removed_nodes = prepared.removed_nodes;
  for (const BuiltPartition& b : built) {
    const Partition& partition = assignment_of(prepared, b.body).partitions[b.provider][b.partition];
    report.partitions.push_back({b.attributes.partition_name,
                                 std::string(providers.all()[b.provider]->name()),
                                 partition.nodes.size(), partition.inputs.size(),
                                 partition.outputs.size(), b.weight_bytes, b.plans});
  }
  report.costs = costs_of(prepared, providers, target);
  const BuiltPlaces places = places_of(built);
  add_nodes(report, prepared.model.graph, prepared.assignment, providers, places, -1, "");
  for (std::size_t b = 0; b < prepared.bodies.size(); ++b)
    add_nodes(report, *prepared.bodies[b].graph, prepared.bodies[b].assignment, providers, places,
              static_cast<int>(b), prepared.bodies[b].name);
  return report;
}

Status check_requirements(const ModelReport& report, const CompileOptions& options) {
  std::vector<const NodeReport*> fallback, nobody;
  for (const NodeReport& row : report.assignment) {
    if (row.folded || row.partition >= 0) continue;
    fallback.push_back(&row);
    if (row.provider.empty()) nobody.push_back(&row);
  }
  if (options.require_runnable && !nobody.empty())
    return fail(ErrorCode::kNotSatisfied, "{}: no provider runs {}", report.input_name,
                list_nodes(nobody));
  if (options.strict && !fallback.empty())
    return fail(ErrorCode::kNotSatisfied, "{}: {} of {} nodes fall back to cpu: {}",
                report.input_name, fallback.size(), report.nodes, list_nodes(fallback));
  return {};
}

}  // namespace ctxgen
