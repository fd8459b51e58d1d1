#include "report/find_lints.h"

#include <algorithm>
#include <format>
#include <functional>
#include <map>
#include <string_view>

#include "term/console.h"

namespace ctxgen::cli {
namespace {

/// Calls `visit` with each step of the first plan of each program.
void each_step(const ReportData& data,
               const std::function<void(Lint::StepRef, const PlanStep&, const ProgramOp&)>& visit) {
  for (std::uint32_t p = 0; p < data.programs.size(); ++p) {
    const ShownProgram& shown = data.programs[p].shown;
    if (!shown.program || shown.plans.empty()) continue;
    const std::vector<PlanStep>& steps = shown.plans.front().steps;
    for (std::uint32_t s = 0; s < steps.size(); ++s)
      visit({p, s}, steps[s], shown.program->ops[steps[s].op]);
  }
}

void add_time(Lint& lint, double microseconds) {
  if (microseconds < 0) return;
  lint.microseconds = std::max(lint.microseconds, 0.0) + microseconds;
}

void add_step(const ReportData& data, Lint& lint, Lint::StepRef step) {
  lint.steps.push_back(step);
  const std::vector<double>& times = data.programs[step.program].microseconds;
  if (step.step < times.size()) add_time(lint, times[step.step]);
}

void keep(std::vector<Lint>& lints, Lint lint) {
  if (!lint.nodes.empty() || !lint.steps.empty()) lints.push_back(std::move(lint));
}

/// What may bring a node into a partition, as far as the reason tells.
std::string help_for(std::string_view reason, bool in_body) {
  if (in_body || reason.contains("body") || reason.contains("subgraph"))
    return "--subgraphs compiles bodies of If, Loop and Scan too";
  if (reason.contains("constant") || reason.contains("overrid"))
    return "--freeze-initializers makes constants of initializers that are inputs; a value that is "
           "computed has to be made a constant in the model";
  if (reason.contains("dim") || reason.contains("shape") || reason.contains("rank"))
    return "--fix-dim NAME=N fixes a size in the model";
  if (reason.contains("opset") || reason.contains("version"))
    return "convert the model to a newer opset";
  return "no option: docs/operators.md lists what the provider takes";
}

/// Nodes that stay, by operator and reason.
void add_fallbacks(const ReportData& data, std::vector<Lint>& lints) {
  std::map<std::pair<std::string, std::string>, Lint> groups;
  for (std::uint32_t n = 0; n < data.nodes.size(); ++n) {
    const ShownNode& node = data.nodes[n];
    if (node.program != kNoIndex || node.folded) continue;
    const std::string reason = node.reasons.empty() ? "" : node.reasons.front();
    Lint& lint = groups[{node.op_type, reason}];
    if (lint.kind.empty()) {
      lint.kind = node.provider.empty() ? "not_runnable" : "fallback";
      lint.text = node.provider.empty() ? "no provider of ctxgen runs it; ONNX Runtime may"
                  : reason.empty()      ? "it stays in the model and runs on CPU kernels"
                                        : reason;
      lint.help = data.from_source ? help_for(reason, !node.graph.empty())
                                   : "ctxgen explain MODEL says why it stays";
    }
    lint.nodes.push_back(n);
    add_time(lint, node.microseconds);
  }
  for (auto& [key, lint] : groups) {
    lint.title =
        std::format("{} not compiled: {}", count_text(lint.nodes.size(), "node"), key.first);
    keep(lints, std::move(lint));
  }
}

void add_references(const ReportData& data, std::vector<Lint>& lints) {
  Lint lint{.kind = "reference",
            .title = {},
            .text = "oneDNN has nothing but its reference kernel for these shapes and types",
            .help =
                "another shape (--dim, --shape) or type; --provider cpu runs the node on ctxgen's "
                "kernels instead",
            .nodes = {},
            .steps = {}};
  each_step(data, [&](Lint::StepRef ref, const PlanStep& step, const ProgramOp&) {
    if (step.implementation.starts_with("ref")) add_step(data, lint, ref);
  });
  lint.title = count_text(lint.steps.size(), "reference kernel");
  keep(lints, std::move(lint));
}

void add_reorders(const ReportData& data, std::vector<Lint>& lints) {
  Lint lint{.kind = "reorder",
            .title = {},
            .text = "they copy values between two layouts and compute nothing",
            .help =
                "a fixed size (--dim, --fix-dim) lets layouts be chosen for it; at the boundary of "
                "a partition values are plain, so fewer partitions have fewer copies",
            .nodes = {},
            .steps = {}};
  each_step(data, [&](Lint::StepRef ref, const PlanStep& step, const ProgramOp&) {
    if (!step.moves) return;
    add_step(data, lint, ref);
    lint.bytes += step.bytes;
  });
  lint.title =
      std::format("{} or reorder{}",
                  lint.steps.size() == 1 ? "1 copy" : std::format("{} copies", lint.steps.size()),
                  lint.steps.size() == 1 ? "" : "s");
  keep(lints, std::move(lint));
}

bool is_small(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

/// Ops in floating point whose operands and readers are all 8-bit integers.
void add_islands(const ReportData& data, std::vector<Lint>& lints) {
  Lint lint{.kind = "f32_island",
            .title = {},
            .text = "they compute in floating point between ops on 8-bit integers",
            .help =
                "no option: quantise these nodes in the model too (QuantizeLinear and "
                "DequantizeLinear around them)",
            .nodes = {},
            .steps = {}};
  for (std::uint32_t p = 0; p < data.programs.size(); ++p) {
    const ShownProgram& shown = data.programs[p].shown;
    if (!shown.program || shown.plans.empty()) continue;
    const Program& program = *shown.program;
    std::vector<bool> reads_small(program.ops.size()), is_real(program.ops.size());
    std::vector<std::uint32_t> makers(program.values.size(), kNoIndex);
    std::vector<bool> from_small(program.ops.size()), to_small(program.ops.size());
    for (std::uint32_t o = 0; o < program.ops.size(); ++o) {
      const ProgramOp& op = program.ops[o];
      for (const std::uint32_t value : op.outputs) makers[value] = o;
      is_real[o] = !op.outputs.empty() && program.values[op.outputs[0]].type == DataType::kFloat;
      for (const Operand& operand : op.inputs)
        if (operand.kind == Operand::Kind::kValue && is_small(program.values[operand.index].type))
          reads_small[o] = true;
    }
    for (std::uint32_t o = 0; o < program.ops.size(); ++o)
      for (const Operand& operand : program.ops[o].inputs) {
        if (operand.kind != Operand::Kind::kValue) continue;
        const std::uint32_t maker = makers[operand.index];
        if (maker == kNoIndex || !is_real[maker]) continue;
        if (reads_small[maker]) from_small[o] = true;  // a conversion to f32 feeds it
        const bool quantises = !program.ops[o].outputs.empty() &&
                               is_small(program.values[program.ops[o].outputs[0]].type);
        if (quantises) to_small[maker] = true;
      }
    const std::vector<PlanStep>& steps = shown.plans.front().steps;
    for (std::uint32_t s = 0; s < steps.size(); ++s) {
      const std::uint32_t o = steps[s].op;
      if (from_small[o] && to_small[o] && is_real[o] && !reads_small[o] && !steps[s].moves)
        add_step(data, lint, {p, s});
    }
  }
  lint.title = std::format("{} of f32 between integers", count_text(lint.steps.size(), "step"));
  keep(lints, std::move(lint));
}

void add_unplanned(const ReportData& data, std::vector<Lint>& lints) {
  std::vector<std::string> symbols;
  std::uint64_t programs = 0;
  for (const ReportProgram& one : data.programs) {
    if (!one.program->plans.empty()) continue;
    ++programs;
    for (const std::string& symbol : one.program->symbols)
      if (!std::ranges::contains(symbols, symbol)) symbols.push_back(symbol);
  }
  if (programs == 0) return;
  Lint lint{.kind = "unplanned",
            .title = std::format("{} without a plan", count_text(programs, "program")),
            .text = "the first run of each shape makes one, which takes longer than the run",
            .help = "--shape INPUT=DIMS plans ahead",
            .nodes = {},
            .steps = {}};
  if (!symbols.empty()) lint.help = std::format("--dim {}=N plans ahead", symbols.front());
  lints.push_back(std::move(lint));
}

/// Nodes on the host that read a partition and are read by one: values cross the boundary twice.
void add_between(const ReportData& data, std::vector<Lint>& lints) {
  std::vector<bool> feeds(data.nodes.size()), fed(data.nodes.size());
  for (std::uint32_t n = 0; n < data.nodes.size(); ++n)
    for (const std::uint32_t from : data.nodes[n].reads) {
      if (data.nodes[n].program != kNoIndex) feeds[from] = true;
      if (data.nodes[from].program != kNoIndex) fed[n] = true;
    }
  Lint lint{
      .kind = "between",
      .title = {},
      .text = "they stay on the host between two partitions, which are two because of them",
      .help = "compile the node (see why it stays) or move it to the start or end of the model",
      .nodes = {},
      .steps = {}};
  for (std::uint32_t n = 0; n < data.nodes.size(); ++n) {
    const ShownNode& node = data.nodes[n];
    if (node.program != kNoIndex || node.folded || !feeds[n] || !fed[n]) continue;
    lint.nodes.push_back(n);
    add_time(lint, node.microseconds);
  }
  lint.title = std::format("{} between partitions", count_text(lint.nodes.size(), "node"));
  keep(lints, std::move(lint));
}

void add_memory(const ReportData& data, std::vector<Lint>& lints) {
  for (const SplitWeights& split : data.compiled.split)
    lints.push_back(
        {.kind = "split_layout",
         .title = std::format("{} kept in several layouts", count_text(split.weights, "weight")),
         .text = std::format("programs want them in different order; {} more than in one",
                             size_text(split.extra_bytes)),
         .help = "compile with equal sizes (--dim, --shape) for the models of a batch",
         .nodes = {},
         .steps = {},
         .bytes = split.extra_bytes});
  if (!data.measured || data.measured->numbers.plans.repacked_weights == 0) return;
  const PlanStatistics& plans = data.measured->numbers.plans;
  lints.push_back(
      {.kind = "repacked",
       .title = std::format("{} repacked at load", count_text(plans.repacked_weights, "weight")),
       .text = std::format("{} in private memory that no other process shares",
                           size_text(plans.repacked_bytes)),
       .help = "compile on this machine, or for it with --isa; without --portable",
       .nodes = {},
       .steps = {},
       .bytes = plans.repacked_bytes});
}

void add_told(const ReportData& data, std::vector<Lint>& lints) {
  for (const ModelReport& model : data.compiled.models) {
    for (const std::string& cost : model.costs)
      lints.push_back({.kind = "target",
                       .title = "the target lacks instructions",
                       .text = cost,
                       .help = "--isa NAME,NAME adds programs for better machines",
                       .nodes = {},
                       .steps = {}});
    for (const std::string& warning : model.warnings)
      lints.push_back({.kind = "warning",
                       .title = "warning of the compile",
                       .text = warning,
                       .help = warning.contains("--freeze-initializers") ? "--freeze-initializers"
                                                                         : "as the warning says",
                       .nodes = {},
                       .steps = {}});
  }
  for (const ReportProgram& one : data.programs)
    if (!one.error.empty())
      lints.push_back({.kind = "not_shown",
                       .title = std::format("program {} is not shown", one.program->name),
                       .text = one.error,
                       .help = "ctxgen check CONTEXT says whether it fits this machine",
                       .nodes = {},
                       .steps = {}});
}

}  // namespace

std::vector<Lint> find_lints(const ReportData& data) {
  std::vector<Lint> lints;
  add_fallbacks(data, lints);
  add_references(data, lints);
  add_reorders(data, lints);
  add_islands(data, lints);
  add_unplanned(data, lints);
  add_between(data, lints);
  add_memory(data, lints);
  add_told(data, lints);
  std::ranges::stable_sort(lints, std::ranges::greater{}, &Lint::microseconds);
  return lints;
}

}  // namespace ctxgen::cli
