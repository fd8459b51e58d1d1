#include "report.h"

#include <algorithm>
#include <format>
#include <map>
#include <tuple>

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

}  // namespace

ModelReport report_model(const PreparedModel& prepared, const ProviderList& providers,
                         std::span<const BuiltPartition> built) {
  ModelReport report;
  report.input_name = prepared.name;
  report.warnings = prepared.warnings;
  report.removed_nodes = prepared.removed_nodes;
  for (const BuiltPartition& b : built) {
    const Partition& partition = assignment_of(prepared, b.body).partitions[b.provider][b.partition];
    report.partitions.push_back({b.attributes.partition_name,
                                 std::string(providers.all()[b.provider]->name()),
                                 partition.nodes.size(), partition.inputs.size(),
                                 partition.outputs.size(), b.weight_bytes});
  }
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
