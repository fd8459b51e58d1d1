#include "report/write_report.h"

#include <algorithm>
#include <format>
#include <map>
#include <ranges>

#include "ctxgen/base/json.h"
#include "ctxgen/base/version.h"

#include "compile/compile_report.h"
#include "running/input_sizes.h"
#include "term/console.h"

namespace ctxgen::cli {
namespace {

constexpr std::uint64_t kReportVersion = 1;

void optional_number(JsonWriter& json, std::string_view name, double number) {
  json.key(name);
  number < 0 ? json.null() : json.value(number);
}

void optional_index(JsonWriter& json, std::string_view name, std::uint32_t index) {
  json.key(name);
  index == kNoIndex ? json.null() : json.value(std::uint64_t{index});
}

void write_interface(JsonWriter& json, std::string_view name,
                     const std::vector<std::pair<std::string, std::string>>& values) {
  json.key(name).begin_array();
  for (const auto& [value, type] : values)
    json.begin_object().field("name", value).field("type", type).end_object();
  json.end_array();
}

void write_file(JsonWriter& json, const ReportData& data) {
  json.key("file")
      .begin_object()
      .field("name", data.facts.name)
      .field("bytes", data.facts.file_bytes)
      .field("ir_version", data.facts.ir_version)
      .field("producer", data.facts.producer)
      .key("opsets")
      .begin_array();
  for (const auto& [domain, version] : data.facts.opsets)
    json.begin_object().field("domain", domain).field("version", version).end_object();
  json.end_array();
  write_interface(json, "inputs", data.facts.inputs);
  write_interface(json, "outputs", data.facts.outputs);
  json.end_object();
}

void write_nodes(JsonWriter& json, const std::vector<ShownNode>& nodes) {
  json.key("nodes").begin_array();
  for (const ShownNode& node : nodes) {
    json.begin_object().field("name", node.name).field("op_type", node.op_type);
    if (!node.graph.empty()) json.field("graph", node.graph);
    json.key("provider");
    node.provider.empty() ? json.null() : json.value(node.provider);
    optional_index(json, "program", node.program);
    optional_index(json, "op", node.op);
    if (node.folded) json.field("folded", true);
    if (!node.reasons.empty()) json.list("reasons", node.reasons);
    if (!node.reads.empty()) json.list("reads", node.reads);
    if (node.microseconds >= 0) json.field("us", node.microseconds);
    json.end_object();
  }
  json.end_array();
}

void write_plan(JsonWriter& json, const PlanView& plan, const std::vector<double>* times) {
  json.begin_object().key("input_dims").begin_array();
  for (const Dims& dims : plan.input_dims) {
    json.begin_array();
    for (const std::int64_t dim : dims) json.value(dim);
    json.end_array();
  }
  json.end_array()
      .field("arena_bytes", plan.arena_bytes)
      .field("scratch_bytes", plan.scratch_bytes)
      .key("steps")
      .begin_array();
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    json.begin_object()
        .field("op", std::uint64_t{step.op})
        .field("implementation", step.implementation)
        .field("types", step.types)
        .field("layouts", step.layouts)
        .field("flops", step.flops)
        .field("bytes", step.bytes)
        .field("scratch_bytes", step.scratch_bytes);
    if (step.moves) json.field("moves", true);
    if (times != nullptr && s < times->size() && (*times)[s] >= 0) json.field("us", (*times)[s]);
    json.end_object();
  }
  json.end_array().key("regions").begin_array();
  for (const PlanRegion& region : plan.regions)
    json.begin_object()
        .field("offset", region.offset)
        .field("bytes", region.bytes)
        .field("first", std::uint64_t{region.first})
        .field("last", std::uint64_t{region.last})
        .end_object();
  json.end_array().end_object();
}

/// Ops, as steps refer to them.
void write_ops(JsonWriter& json, const Program& program) {
  json.key("ops").begin_array();
  for (const ProgramOp& op : program.ops) {
    json.begin_object().field("name", op.name).field("kind", op.kind.str());
    if (!op.outputs.empty()) {
      const ProgramValue& value = program.values[op.outputs[0]];
      std::string dims;
      for (const ProgramDim& dim : value.dims)
        dims +=
            std::format("{}{}", dims.empty() ? "" : ", ",
                        dim.value >= 0    ? std::to_string(dim.value)
                        : dim.symbol >= 0 ? program.symbols[static_cast<std::size_t>(dim.symbol)]
                                          : "?");
      json.field("result",
                 std::format("{}[{}]", name_of(value.type), value.has_rank ? dims : "..."));
    }
    if (!op.post_ops.empty()) {
      json.key("fused").begin_array();
      for (const PostOp& post : op.post_ops) json.value(post.kind.str());
      json.end_array();
    }
    json.end_object();
  }
  json.end_array();
}

void write_weights(JsonWriter& json, const ReportProgram& one, const OpenContext& context) {
  const auto* shows = dynamic_cast<const ShowsPlans*>(context.loader);
  json.key("weights").begin_array();
  for (const ProgramWeight& weight : one.program->weights)
    for (const PackedWeight& packed : weight.packed)
      json.begin_object()
          .field("name", weight.name)
          .field("type", name_of(weight.type))
          .field("dims", to_string(weight.dims))
          .field("layout", shows != nullptr        ? shows->layout_name(weight, packed)
                           : packed.layout.empty() ? "plain"
                                                   : "packed")
          .field("blob", std::uint64_t{packed.blob.bin_index().value})
          .end_object();
  json.end_array();
}

void write_programs(JsonWriter& json, const ReportData& data) {
  json.key("programs").begin_array();
  for (const ReportProgram& one : data.programs) {
    const Program& program = one.shown.program ? *one.shown.program : *one.program;
    json.begin_object()
        .field("name", one.program->name)
        .field("provider", one.provider)
        .field("context", std::uint64_t{one.context})
        .field("hash", one.hash)
        .field("isa", one.program->isa)
        .field("error", one.error);
    json.list("symbols", program.symbols);
    write_ops(json, program);
    json.key("plans").begin_array();
    for (std::size_t p = 0; p < one.shown.plans.size(); ++p)
      write_plan(json, one.shown.plans[p], p == 0 ? &one.microseconds : nullptr);
    json.end_array();
    write_weights(json, one, data.contexts[one.context]);
    json.end_object();
  }
  json.end_array();
}

void write_contexts(JsonWriter& json, const ReportData& data) {
  json.key("contexts").begin_array();
  for (const OpenContext& context : data.contexts) {
    const ContextInfo& info = context.reader->info();
    json.begin_object()
        .field("name", context.name)
        .field("bytes", context.reader->file_size())
        .field("embedded", context.embedded)
        .field("format", std::format("{}.{}", info.format_major, info.format_minor))
        .field("producer", info.producer)
        .field("fingerprint", info.fingerprint)
        .key("blobs")
        .begin_array();
    for (const BlobEntry& blob : context.reader->blobs())
      json.begin_object()
          .field("offset", blob.offset)
          .field("bytes", blob.size)
          .field("stored_bytes", blob.stored)
          .field("hash", blob.hash.hex())
          .end_object();
    json.end_array().end_object();
  }
  json.end_array();
}

void write_measured(JsonWriter& json, const ReportData& data) {
  json.key("measured");
  if (!data.measured) {
    json.null();
    return;
  }
  const BenchNumbers& numbers = data.measured->numbers;
  json.begin_object()
      .field("iterations", data.iterations)
      .field("compile_ms", numbers.compile_ms)
      .field("load_ms", numbers.load_ms)
      .field("first_run_ms", numbers.first_run_ms);
  write_latencies(json, numbers);
  json.field("primitive_creation_ms", numbers.primitive_creation_ms)
      .field("primitives", numbers.primitives)
      .field("resident_bytes", numbers.resident_bytes)
      .field("private_bytes", numbers.private_bytes);
  write_peaks(json, data.measured->peaks);
  write_input_sizes(json.key("inputs"), data.measured->inputs);
  // By kind of what ran, also where no plan was made ahead and steps have no times of their own.
  json.key("ops").begin_array();
  for (const OpTiming& op : data.measured->ops)
    json.begin_object()
        .field("name", op.name)
        .field("kind", op.kind)
        .field("implementation", op.implementation)
        .field("us", op.microseconds)
        .field("flops", op.flops)
        .field("bytes", op.bytes)
        .field("int8", op.int8)
        .end_object();
  json.end_array().end_object();
}

void write_lints(JsonWriter& json, const std::vector<Lint>& lints) {
  json.key("lints").begin_array();
  for (const Lint& lint : lints) {
    json.begin_object()
        .field("kind", lint.kind)
        .field("title", lint.title)
        .field("text", lint.text)
        .field("help", lint.help)
        .field("bytes", lint.bytes);
    optional_number(json, "us", lint.microseconds);
    json.list("nodes", lint.nodes);
    json.key("steps").begin_array();
    for (const Lint::StepRef& step : lint.steps)
      json.begin_object()
          .field("program", std::uint64_t{step.program})
          .field("step", std::uint64_t{step.step})
          .end_object();
    json.end_array().end_object();
  }
  json.end_array();
}

void write_verification(JsonWriter& json, const ReportData& data) {
  json.key("verification");
  if (data.verification.empty()) {
    json.null();
    return;
  }
  json.begin_object();
  write_runs(json, data.verification, first_divergence(data.verification), {});
  json.end_object();
}

}  // namespace

std::string sentence_of(const ReportData& data) {
  std::map<std::string, std::size_t> reasons;
  std::size_t compiled = 0, folded = 0, left = 0;
  for (const ShownNode& node : data.nodes) {
    compiled += node.program != kNoIndex ? 1 : 0;
    folded += node.folded ? 1 : 0;
    if (node.program != kNoIndex || node.folded) continue;
    ++left;
    if (node.reasons.empty()) continue;
    const std::string_view reason = node.reasons.front();  // "dnnl: element type int64"
    const std::size_t provider = reason.find(": ");
    ++reasons[std::format("{}: {}", node.op_type,
                          provider == reason.npos ? reason : reason.substr(provider + 2))];
  }
  std::string text =
      std::format("{} of {} compiled", compiled,
                  count_text(data.nodes.size(), data.from_source ? "node" : "operation"));
  if (folded > 0) text += std::format(", {} computed ahead of time", folded);
  if (left == 0) return text + (compiled > 0 ? "; none stays." : ".");
  text += std::format("; {} stay{}", left, left == 1 ? "s" : "");
  const auto most =
      std::ranges::max_element(reasons, {}, [](const auto& one) { return one.second; });
  if (most == reasons.end()) return text + ".";
  text += " because of " + most->first;
  if (most->second < left)
    text += std::format(" ({} of {}; other reasons below)", most->second, left);
  return text + ".";
}

std::string report_data_json(const ReportData& data) {
  JsonWriter json;
  json.begin_object();
  write_report_fields(json, data.compiled);
  json.key("report")
      .begin_object()
      .field("version", kReportVersion)
      .field("ctxgen", std::string_view(CTXGEN_VERSION_STRING))
      .field("from_source", data.from_source)
      .field("sentence", sentence_of(data));
  write_file(json, data);
  write_nodes(json, data.nodes);
  write_programs(json, data);
  write_contexts(json, data);
  write_measured(json, data);
  write_verification(json, data);
  write_lints(json, data.lints);
  json.end_object().end_object();
  return json.finish();
}

std::string model_explorer_json(const ReportData& data) {
  JsonWriter json;
  json.begin_object().key("results").begin_object();
  const bool timed = data.measured.has_value();
  // Nodes that one op computes share its time equally.
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> times;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> users;
  for (std::uint32_t p = 0; p < data.programs.size(); ++p) {
    const ReportProgram& one = data.programs[p];
    for (std::size_t s = 0; s < one.microseconds.size(); ++s)
      times[{p, one.shown.plans.front().steps[s].op}] += std::max(one.microseconds[s], 0.0);
  }
  for (const ShownNode& node : data.nodes)
    if (node.op != kNoIndex) users[{node.program, node.op}] += 1;
  for (const ShownNode& node : data.nodes) {
    if (!node.graph.empty()) continue;
    json.key(node.name).begin_object();
    if (!timed)
      json.field("value", node.folded             ? std::string("folded")
                          : node.provider.empty() ? std::string("none")
                                                  : node.provider);
    else if (node.op != kNoIndex)
      json.field("value", times[{node.program, node.op}] / users[{node.program, node.op}]);
    else
      json.field("value", std::max(node.microseconds, 0.0));
    json.end_object();
  }
  json.end_object();
  if (timed) {
    json.key("gradient").begin_array();
    json.begin_object().field("stop", 0.0).field("bgColor", "#ffffff").end_object();
    json.begin_object().field("stop", 1.0).field("bgColor", "#d9480f").end_object();
    json.end_array();
  }
  json.end_object();
  return json.finish();
}

}  // namespace ctxgen::cli
