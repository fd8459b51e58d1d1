#include <format>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/runtime/check.h"
#include "ctxgen/runtime/node_features.h"

#include "cli.h"
#include "flags/value_checks.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Exit status: 0 optimal, 4 prefer recompilation or nothing in it is compiled, 2 unsupported.\n\n"
    "Examples:\n"
    "  ctxgen check model_ctx.onnx\n"
    "  ctxgen check model_ctx.onnx --json || ctxgen compile model.onnx\n";

struct Flags {
  std::string model;
  std::int64_t threads = 0;
  bool json = false;
  Verbosity verbosity;
};

std::string_view word(Compatibility verdict) {
  switch (verdict) {
    case Compatibility::kOptimal: return "optimal";
    case Compatibility::kPreferRecompilation: return "prefer recompilation";
    case Compatibility::kUnsupported: break;
  }
  return "unsupported";
}

/// A model that no compile wrote, and that another provider's metadata does not rule out.
bool is_plain(const ContextCheck& check) {
  return !check.is_compiled && check.verdict == Compatibility::kOptimal;
}

std::string_view verdict_of(const ContextCheck& check) {
  return is_plain(check) ? "not compiled" : word(check.verdict);
}

std::string_view reason_of(const ContextCheck& check) {
  return is_plain(check) ? "nothing in it is compiled" : std::string_view(check.reason);
}

int exit_status(const ContextCheck& check) {
  if (is_plain(check)) return error_info(ErrorCode::kNotSatisfied).exit_status;
  switch (check.verdict) {
    case Compatibility::kOptimal: return 0;
    case Compatibility::kPreferRecompilation:
      return error_info(ErrorCode::kNotSatisfied).exit_status;
    case Compatibility::kUnsupported: break;
  }
  return error_info(ErrorCode::kVersionMismatch).exit_status;
}

void write_expressions(JsonWriter& json, const std::vector<std::string>& labels) {
  for (const std::string& label : labels)
    json.begin_object()
        .field("key", label)
        .field("operator", "In")
        .key("values")
        .begin_array()
        .value("true")
        .end_array()
        .end_object();
}

/// What a pod's spec has as affinity.nodeAffinity, in words of Kubernetes.
void write_affinity(JsonWriter& json, const NodeFeatures& features) {
  json.key("node_affinity")
      .begin_object()
      .key("requiredDuringSchedulingIgnoredDuringExecution")
      .begin_object()
      .key("nodeSelectorTerms")
      .begin_array()
      .begin_object()
      .key("matchExpressions")
      .begin_array()
      .begin_object()
      .field("key", "kubernetes.io/arch")
      .field("operator", "In")
      .key("values")
      .begin_array()
      .value("amd64")
      .end_array()
      .end_object();
  write_expressions(json, features.required);
  json.end_array().end_object().end_array().end_object();
  if (!features.preferred.empty()) {
    json.key("preferredDuringSchedulingIgnoredDuringExecution")
        .begin_array()
        .begin_object()
        .field("weight", 100)
        .key("preference")
        .begin_object()
        .key("matchExpressions")
        .begin_array();
    write_expressions(json, features.preferred);
    json.end_array().end_object().end_object().end_array();
  }
  json.end_object();
}

void write_features(JsonWriter& json, const ContextCheck& check) {
  json.list("instruction_sets", check.instruction_sets);
  if (check.instruction_sets.empty()) return;
  const NodeFeatures features = node_features(check.instruction_sets);
  json.key("node_labels")
      .begin_object()
      .list("required", features.required)
      .list("preferred", features.preferred)
      .end_object();
  write_affinity(json, features);
}

std::string json_text(const std::string& model, const ContextCheck& check) {
  JsonWriter json;
  json.begin_object()
      .field("model", model)
      .field("verdict", verdict_of(check))
      .field("reason", reason_of(check))
      .field("partitions", std::uint64_t{check.partitions})
      .key("findings")
      .begin_array();
  for (const ContextFinding& finding : check.findings)
    json.begin_object()
        .field("what", finding.what)
        .field("source", finding.source)
        .field("verdict", word(finding.verdict.verdict))
        .field("reason", finding.verdict.reason)
        .end_object();
  json.end_array().key("precisions").begin_object();
  for (const auto& [precision, count] : check.precisions)
    json.field(precision, std::uint64_t{count});
  json.end_object();
  write_features(json, check);
  json.end_object();
  return json.finish();
}

/// Where not all of it is f32: what is in the way of comparing outputs with the source's.
std::string precisions_text(const ContextCheck& check) {
  std::string text;
  bool narrow = false;
  for (const auto& [precision, count] : check.precisions) {
    text += std::format("{}{} {}", text.empty() ? "" : ", ", count, precision);
    narrow = narrow || precision != "f32";
  }
  return narrow ? "operators with constant operands: " + text + "\n" : "";
}

std::string plain_text(const ContextCheck& check, bool verbose) {
  std::string text(verdict_of(check));
  if (!reason_of(check).empty()) text += std::format(": {}", reason_of(check));
  if (check.is_compiled && check.partitions == 0)
    text += " (there was nothing to compile in this model)";
  text += "\n" + precisions_text(check);
  if (!verbose) return text;
  TextTable table;
  for (const ContextFinding& finding : check.findings)
    table.row({finding.what, finding.source, std::string(word(finding.verdict.verdict)),
               finding.verdict.reason});
  return text + table.text("  ");
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  SessionOptions options;
  options.threads = static_cast<int>(flags.threads);
  const ContextCheck check = CTXGEN_TRY(check_context(flags.model, options));
  if (flags.json || !flags.verbosity.quiet)
    CTXGEN_CHECK(print(flags.json ? json_text(flags.model, check)
                                  : plain_text(check, flags.verbosity.verbose > 0)));
  return exit_status(check);
}

}  // namespace

void add_check(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand(
      "check", "check whether a context model fits this machine; loads no weights");
  verb.add_option("context", flags->model, "a context model")->type_name("CONTEXT")->required();
  verb.add_option("--threads", flags->threads, "threads that it will run with")
      ->type_name("N")
      ->transform(thread_count());
  verb.add_flag("--json", flags->json, "print JSON");
  add_verbosity(verb, flags->verbosity);
  verb.footer(kExamples);
  verb.callback([&cli, flags] { cli.action = [flags] { return run(*flags); }; });
}

}  // namespace ctxgen::cli
