#include <format>
#include <memory>
#include <string>
#include <string_view>

#include "ctxgen/base/json.h"
#include "ctxgen/compiler/compile.h"

#include "cli.h"
#include "compile/compile_report.h"
#include "flags/model_flags.h"
#include "flags/options_file.h"
#include "term/console.h"
#include "term/interrupt.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen explain model.onnx\n"
    "  ctxgen explain model.onnx --dim batch=1 --json\n";

struct Flags {
  std::string model;
  ModelFlags options;
  std::string options_file;
  bool json = false;
  Verbosity verbosity;
};

std::string explanation_json(const ModelReport& report) {
  JsonWriter json;
  json.begin_object()
      .field("input", report.input_name)
      .field("nodes", std::uint64_t{report.nodes})
      .field("compiled_nodes", std::uint64_t{report.compiled_nodes})
      .field("folded_nodes", std::uint64_t{report.folded_nodes})
      .key("partitions")
      .begin_array();
  for (const PartitionReport& partition : report.partitions)
    json.begin_object()
        .field("provider", partition.provider)
        .field("nodes", std::uint64_t{partition.nodes})
        .field("inputs", std::uint64_t{partition.inputs})
        .field("outputs", std::uint64_t{partition.outputs})
        .end_object();
  json.end_array();
  write_assignment(json.key("assignment"), report.assignment);
  json.list("warnings", report.warnings).list("costs", report.costs).end_object();
  return json.finish();
}

std::string_view provider_word(const NodeReport& node) {
  if (node.folded) return "(folded)";
  return node.provider.empty() ? "none" : std::string_view(node.provider);
}

std::string explanation_text(const ModelReport& report) {
  TextTable table({3});
  table.row({"node", "operator", "provider", "partition", "why"});
  for (const NodeReport& node : report.assignment) {
    std::string reasons;
    for (const std::string& reason : node.reasons)
      reasons += (reasons.empty() ? "" : "; ") + reason;
    table.row({node.name, node.op_type.str(), std::string(provider_word(node)),
               node.partition < 0 ? "-" : std::to_string(node.partition), reasons});
  }
  std::string text =
      table.text() + std::format("\n{}, {} compiled into {}, {} folded\n",
                                 count_text(report.nodes, "node"), report.compiled_nodes,
                                 count_text(report.partitions.size(), "partition"),
                                 report.folded_nodes);
  for (const std::string& cost : report.costs) text += cost + "\n";
  return text;
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  CompileOptions options = CTXGEN_TRY(compile_options(flags.options));
  options.cancelled = interrupted;
  const ModelInput input = CTXGEN_TRY(model_input(flags.model));
  handle_interrupts(Interrupt::kCooperative);
  const ModelReport report = CTXGEN_TRY(explain(input, options));
  if (!flags.json)
    for (const std::string& warning : report.warnings) warn(warning);
  CTXGEN_CHECK(print(flags.json ? explanation_json(report) : explanation_text(report)));
  return 0;
}

}  // namespace

void add_explain(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand(
      "explain", "show which provider runs each node and why, without compiling");
  verb.add_option("model", flags->model, "an ONNX model; - is stdin")
      ->type_name("MODEL")
      ->required();
  add_model_flags(verb, flags->options);
  add_target_flags(verb, flags->options);
  verb.add_flag("--json", flags->json, "print JSON");
  add_options_file(verb, flags->options_file);
  add_verbosity(verb, flags->verbosity);
  verb.footer(kExamples);
  verb.callback([&cli, flags] { cli.action = [flags] { return run(*flags); }; });
}

}  // namespace ctxgen::cli
