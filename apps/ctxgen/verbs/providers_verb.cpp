#include <algorithm>
#include <format>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/base/version.h"
#include "ctxgen/registry/providers.h"

#include "cli.h"
#include "show/operator_tables.h"
#include "term/console.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n  ctxgen providers\n  ctxgen providers --json\n"
    "  ctxgen providers --operators               the tables of docs/operators.md\n";

struct Flags {
  bool json = false;
  bool operators = false;
  Verbosity verbosity;
};

struct Row {
  std::string name, source, fingerprint;
  bool compiles = false;
  ProviderInfo info;
  std::vector<InstructionSetState> isas;
  std::vector<std::string> options;
};

Result<std::vector<Row>> collect() {
  std::vector<Row> rows;
  for (const std::string& name : provider_names()) {
    const auto provider = CTXGEN_TRY(make_provider(name));
    Row row{.name = name,
            .source = std::string(provider->source()),
            .fingerprint = "",
            .compiles = provider->compiles(),
            .info = provider->info(),
            .isas = provider->instruction_sets(),
            .options = provider->option_names()};
    if (provider->loader() != nullptr) row.fingerprint = provider->loader()->fingerprint();
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string_view version_of(const Row& row) {
  return row.info.library.empty() ? "ctxgen " CTXGEN_VERSION_STRING
                                  : std::string_view(row.info.library);
}

/// That a run has by default: of the provider that wants the most.
int default_threads(const std::vector<Row>& rows) {
  int threads = 1;
  for (const Row& row : rows) threads = std::max(threads, row.info.threads);
  return threads;
}

std::string json_text(const std::vector<Row>& rows) {
  JsonWriter json;
  json.begin_object().field("threads", default_threads(rows)).key("providers").begin_array();
  for (const Row& row : rows) {
    json.begin_object()
        .field("name", row.name)
        .field("ep_name", row.source)
        .field("version", version_of(row))
        .field("compiles", row.compiles)
        .field("isa", row.info.instruction_set)
        .field("fingerprint", row.fingerprint)
        .key("instruction_sets")
        .begin_array();
    for (const auto& [isa, usable] : row.isas)
      json.begin_object().field("name", isa).field("usable", usable).end_object();
    json.end_array().list("options", row.options).end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

std::string usable_names(const std::vector<InstructionSetState>& isas) {
  std::string names;
  for (const auto& [name, usable] : isas)
    if (usable) names += (names.empty() ? "" : ", ") + std::string(name);
  return names.empty() ? "none" : names;
}

std::string plain_text(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    text += row.name + "\n";
    if (!row.source.empty()) text += std::format("  EP name      {}\n", row.source);
    text += std::format("  version      {}\n", version_of(row));
    text +=
        std::format("  compiles     {}\n", row.compiles ? "yes" : "no: runs what the others leave");
    if (!row.info.instruction_set.empty())
      text += std::format("  instructions {} (--isa: {})\n", row.info.instruction_set,
                          usable_names(row.isas));
    if (!row.fingerprint.empty()) text += std::format("  fingerprint  {}\n", row.fingerprint);
    std::string options;
    for (const std::string& option : row.options) options += (options.empty() ? "" : ", ") + option;
    text += std::format("  options      {}\n", options.empty() ? "none" : options);
  }
  return text + std::format("threads by default: {}\n", default_threads(rows));
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  if (flags.operators) {
    const std::string text = CTXGEN_TRY(flags.json ? operators_json() : operators_markdown());
    CTXGEN_CHECK(print(text));
    return 0;
  }
  const std::vector<Row> rows = CTXGEN_TRY(collect());
  CTXGEN_CHECK(print(flags.json ? json_text(rows) : plain_text(rows)));
  return 0;
}

}  // namespace

void add_providers(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand(
      "providers", "list providers, their versions, instruction sets and options");
  verb.add_flag("--operators", flags->operators,
                "list the operators of all providers, their versions and limits");
  verb.add_flag("--json", flags->json, "print JSON");
  add_verbosity(verb, flags->verbosity);
  verb.footer(kExamples);
  verb.callback([&cli, flags] { cli.action = [flags] { return run(*flags); }; });
}

}  // namespace ctxgen::cli
