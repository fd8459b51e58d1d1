#include "report/source_nodes.h"

#include <algorithm>
#include <ranges>
#include <string_view>
#include <unordered_map>

namespace ctxgen::cli {
namespace {

using IndexByName = std::unordered_map<std::string_view, std::uint32_t>;

std::string shown_name(const Node& node) {
  return node.name.empty() ? node.first_output_name : node.name;
}

std::string shown_type(const Node& node) {
  return node.domain.empty() ? node.op_type.str()
                             : std::string(node.domain) + "::" + node.op_type.str();
}

void sort_once(std::vector<std::uint32_t>& list) {
  std::ranges::sort(list);
  const auto rest = std::ranges::unique(list);
  list.erase(rest.begin(), rest.end());
}

/// Which op of a program makes a value, and which has a node's name.
struct OpsByName {
  IndexByName results, names;
};

OpsByName ops_by_name(const Program& program) {
  OpsByName ops;
  for (std::uint32_t o = 0; o < program.ops.size(); ++o) {
    for (const std::uint32_t value : program.ops[o].outputs)
      ops.results.emplace(program.values[value].name, o);
    ops.names.insert_or_assign(program.ops[o].name, o);  // the last one ends what the node computes
  }
  return ops;
}

/// The ops of all programs for source nodes, found from the last node to the first: what a fused op
/// swallowed follows those that read it.
void find_ops(const Graph& source, std::span<const std::uint32_t> rows,
              std::span<const ReportProgram> programs, std::vector<ShownNode>& nodes) {
  std::vector<OpsByName> ops;
  for (const ReportProgram& one : programs)
    ops.push_back(one.shown.program ? ops_by_name(*one.shown.program) : ops_by_name(*one.program));
  for (std::uint32_t n = static_cast<std::uint32_t>(source.node_count()); n-- > 0;) {
    if (rows[n] == kNoIndex) continue;
    ShownNode& shown = nodes[rows[n]];
    if (shown.program == kNoIndex) continue;
    const OpsByName& own = ops[shown.program];
    const Node& node = source.node(NodeId{n});
    for (const ValueId id : node.outputs) {
      if (!id.valid() || shown.op != kNoIndex) continue;
      if (const auto found = own.results.find(source.value(id).name); found != own.results.end())
        shown.op = found->second;
    }
    if (const auto found = own.names.find(shown.name);
        shown.op == kNoIndex && found != own.names.end())
      shown.op = found->second;
    for (const ValueId id : node.outputs) {
      if (!id.valid()) continue;
      for (const NodeId reader : source.value(id).consumers)
        if (const std::uint32_t row = rows[reader.index];
            shown.op == kNoIndex && row != kNoIndex && nodes[row].program == shown.program)
          shown.op = nodes[row].op;
    }
  }
}

/// Rows of `nodes` for the nodes of the main graph. Reports are in the same order; where functions were
/// expanded or nodes removed, names lead on.
std::vector<std::uint32_t> rows_of(const Graph& source, const std::vector<ShownNode>& nodes) {
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  for (std::uint32_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].graph.empty()) by_name.emplace(nodes[i].name, i);
  std::vector<std::uint32_t> rows(source.node_count(), kNoIndex);
  for (std::uint32_t n = 0; n < rows.size(); ++n) {
    const Node& node = source.node(NodeId{n});
    const std::string name = shown_name(node);
    if (n < nodes.size() && nodes[n].graph.empty() && nodes[n].name == name)
      rows[n] = n;
    else if (const auto found = by_name.find(name); found != by_name.end())
      rows[n] = found->second;
  }
  return rows;
}

void add_reads(const Graph& source, std::span<const std::uint32_t> rows,
               std::vector<ShownNode>& nodes) {
  for (std::uint32_t n = 0; n < rows.size(); ++n) {
    if (rows[n] == kNoIndex) continue;
    const Node& node = source.node(NodeId{n});
    std::vector<std::uint32_t>& reads = nodes[rows[n]].reads;
    const auto add = [&](ValueId id) {
      if (!id.valid()) return;
      const NodeId producer = source.value(id).producer;
      if (producer.valid() && rows[producer.index] != kNoIndex)
        reads.push_back(rows[producer.index]);
    };
    for (const ValueId id : node.inputs) add(id);
    for (const ValueId id : node.captures) add(id);
    sort_once(reads);
  }
}

/// A program's ops as nodes from `first` on; `makers` says which node makes a value of the model.
void add_ops(const ReportProgram& one, std::uint32_t index, const Graph& graph, const Node& node,
             std::unordered_map<std::string_view, std::uint32_t>& makers,
             std::vector<ShownNode>& nodes) {
  const Program& program = one.shown.program ? *one.shown.program : *one.program;
  std::vector<std::uint32_t> value_makers(program.values.size(), kNoIndex);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    std::string_view name = program.values[program.inputs[i]].name;
    if (!makers.contains(name) && i < node.inputs.size() && node.inputs[i].valid())
      name = graph.value(node.inputs[i]).name;
    if (const auto found = makers.find(name); found != makers.end())
      value_makers[program.inputs[i]] = found->second;
  }
  for (std::uint32_t o = 0; o < program.ops.size(); ++o) {
    const ProgramOp& op = program.ops[o];
    const auto row = static_cast<std::uint32_t>(nodes.size());
    ShownNode& shown = nodes.emplace_back();
    shown.name = op.name;
    shown.op_type = op.kind.str();
    shown.provider = one.provider;
    shown.program = index;
    shown.op = o;
    const auto add = [&](const Operand& operand) {
      if (operand.kind == Operand::Kind::kValue && value_makers[operand.index] != kNoIndex)
        shown.reads.push_back(value_makers[operand.index]);
    };
    for (const Operand& operand : op.inputs) add(operand);
    for (const PostOp& post : op.post_ops) add(post.operand);
    sort_once(shown.reads);
    for (const std::uint32_t value : op.outputs) value_makers[value] = row;
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const std::uint32_t maker = value_makers[program.outputs[i]];
    if (maker == kNoIndex) continue;
    makers.insert_or_assign(program.values[program.outputs[i]].name, maker);
    if (i < node.outputs.size() && node.outputs[i].valid())
      makers.insert_or_assign(graph.value(node.outputs[i]).name, maker);
  }
}

}  // namespace

std::vector<ShownNode> source_nodes(const Graph& source, const ModelReport& report,
                                    std::span<const ReportProgram> programs) {
  std::vector<std::uint32_t> program_of(report.partitions.size(), kNoIndex);
  for (std::size_t p = 0; p < report.partitions.size(); ++p)
    for (std::uint32_t i = 0; i < programs.size(); ++i)
      if (programs[i].program->name == report.partitions[p].name ||
          programs[i].program->variant_of == report.partitions[p].name)
        program_of[p] = i;
  std::vector<ShownNode> nodes;
  for (const NodeReport& one : report.assignment) {
    ShownNode& shown = nodes.emplace_back();
    shown.name = one.name;
    shown.op_type = one.op_type.str();
    shown.graph = one.graph.str();
    shown.provider = one.provider.str();
    shown.folded = one.folded;
    shown.reasons = one.reasons;
    if (one.partition >= 0 && static_cast<std::size_t>(one.partition) < program_of.size())
      shown.program = program_of[static_cast<std::size_t>(one.partition)];
  }
  const std::vector<std::uint32_t> rows = rows_of(source, nodes);
  add_reads(source, rows, nodes);
  find_ops(source, rows, programs, nodes);
  return nodes;
}

std::vector<ShownNode> compiled_nodes(const Graph& context,
                                      std::span<const ReportProgram> programs) {
  std::unordered_map<std::string_view, std::uint32_t> by_partition, makers;
  for (std::uint32_t i = 0; i < programs.size(); ++i) {
    const Program& program = *programs[i].program;
    by_partition.emplace(program.variant_of.empty() ? program.name : program.variant_of, i);
  }
  std::vector<ShownNode> nodes;
  for (const Node& node : context.nodes()) {
    const bool is_context = node.op_type == kEpContextOpType && node.domain == kMicrosoftDomain;
    const auto program = by_partition.find(node.string_or("partition_name", ""));
    if (is_context && program != by_partition.end()) {
      add_ops(programs[program->second], program->second, context, node, makers, nodes);
      continue;
    }
    const auto row = static_cast<std::uint32_t>(nodes.size());
    ShownNode& shown = nodes.emplace_back();
    shown.name = shown_name(node);
    shown.op_type = shown_type(node);
    shown.provider = is_context ? "" : "cpu";
    for (const SmallList<ValueId>* list : {&node.inputs, &node.captures})
      for (const ValueId id : *list)
        if (const auto found = id.valid() ? makers.find(context.value(id).name) : makers.end();
            found != makers.end())
          shown.reads.push_back(found->second);
    sort_once(shown.reads);
    for (const ValueId id : node.outputs)
      if (id.valid()) makers.insert_or_assign(context.value(id).name, row);
  }
  return nodes;
}

}  // namespace ctxgen::cli
