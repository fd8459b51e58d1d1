#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <format>
#include <new>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/log.h"
#include "ctxgen/base/version.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onnx/infer.h"
#include "ctxgen/registry/providers.h"

#include "cli.h"
#include "flags/build_flags.h"
#include "flags/options_file.h"
#include "flags/usage.h"
#include "flags/value_checks.h"
#include "help/help_format.h"
#include "term/console.h"
#include "term/interrupt.h"
#include "term/out_of_memory.h"
#include "term/text_table.h"
#include "verbs/documents_verb.h"

namespace ctxgen::cli {
namespace {

std::string version_text() {
  std::string libraries;
  for (const std::string& name : provider_names())
    if (const auto provider = make_provider(name); provider && !(*provider)->info().library.empty())
      libraries += (*provider)->info().library + "\n";
  return std::format("ctxgen {}\ncontext format {}.{}\n{}onnx {}\n", CTXGEN_VERSION_STRING,
                     kFormatMajor, kFormatMinor, libraries, onnx_version());
}

/// Exit statuses and printed codes, from the one table of lib/base.
std::string errors_text() {
  std::vector<ErrorInfo> infos;
  for (int i = 0; i <= static_cast<int>(ErrorCode::kCancelled); ++i)
    infos.push_back(error_info(static_cast<ErrorCode>(i)));
  std::ranges::stable_sort(infos, {}, &ErrorInfo::exit_status);
  TextTable table({0});
  table.row({"0", "", "done"});
  for (const ErrorInfo& info : infos)
    table.row(
        {std::to_string(info.exit_status), std::string(info.printed), std::string(info.when)});
  return "Exit status and error codes:\n" + table.text("  ");
}

namespace fs = std::filesystem;

/// Can be copied into a shell as it is.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '-' && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen compile model.onnx            model_ctx.onnx and model_dnnl.bin\n"
    "  ctxgen run model_ctx.onnx            with random inputs\n"
    "  ctxgen bench model_ctx.onnx --compare model.onnx\n"
    "  ctxgen verify model_ctx.onnx --against model.onnx\n"
    "  ctxgen explain model.onnx            which provider runs each node, and why\n"
    "  ctxgen report model.onnx             the same and more as a page with pictures\n"
    "  ctxgen help COMMAND                  options and examples of a command\n";

/// The first steps after an installation: with a model of the current folder, if there is one.
std::string next_text() {
  std::set<std::string> models;
  std::error_code error;
  for (fs::directory_iterator entry(".", error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".onnx" && !path.stem().string().ends_with("_ctx") &&
        is_plain_name(path.stem().string()))
      models.insert(path.stem().string());
  }
  const std::string stem = models.empty() ? "MODEL" : *models.begin();
  TextTable table;
  table.row({"ctxgen doctor", "is this machine ready, and how fast is it?"});
  table.row(
      {std::format("ctxgen report {}.onnx", stem), "a page that shows what becomes of the model"});
  table.row({std::format("ctxgen compile {}.onnx", stem),
             std::format("{0}_ctx.onnx and {0}_dnnl.bin", stem)});
  table.row({std::format("ctxgen bench {}_ctx.onnx", stem), "how fast it loads and runs"});
  return "ctxgen compiles ONNX models ahead of time and runs the result.\n\n" + table.text("  ") +
         "\nctxgen --help lists all commands, ctxgen help COMMAND explains one.\n";
}

/// No option takes an empty value for "not given", but for those that say so.
void refuse_empty_values(CLI::App& app, const std::set<const CLI::Option*>& may_be_empty) {
  for (CLI::Option* option : app.get_options([](const CLI::Option* one) {
         return one->get_items_expected_max() > 0 && one->get_items_expected_min() > 0;
       }))
    if (!may_be_empty.contains(option)) option->transform(not_empty());
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    refuse_empty_values(*verb, may_be_empty);
}

void declare(Cli& cli) {
  CLI::App& app = cli.app;
  app.formatter(help_formatter());
#if CLI11_VERSION_MAJOR > 2 || CLI11_VERSION_MINOR >= 5
  app.get_formatter()->enable_footer_formatting(false);  // older ones print it as it is
#endif
  app.get_formatter()->column_width(34);
  app.require_subcommand(1);
  app.footer(std::string(kExamples) + "\n" + errors_text());
  app.set_version_flag("--version", version_text,
                       "versions of ctxgen, its file format, oneDNN and onnx");
  // In the order of --help: what is used daily, then what works on files.
  add_compile(cli);
  add_run(cli);
  add_verify(cli);
  add_bench(cli);
  add_report(cli);
  add_check(cli);
  add_inspect(cli);
  add_explain(cli);
  add_doctor(cli);
  add_providers(cli);
  add_cache(cli);
  add_merge(cli);
  add_split(cli);
  add_embed(cli);
  add_extract(cli);
  add_bundle(cli);
  add_sign(cli);
  add_verify_signature(cli);
  add_documents(cli);
  refuse_empty_values(app, cli.may_be_empty);
}

/// The verb that was chosen, or the program.
const CLI::App& chosen(const CLI::App& app) {
  const auto verbs = app.get_subcommands();
  if (verbs.empty()) return app;  // NOLINT(bugprone-return-const-ref-from-parameter)
  return chosen(*verbs.front());
}

/// Reads the arguments. Gives an exit status where there is nothing more to do (help, version).
Result<int> parse(Cli& cli, std::vector<std::string> words, bool& finished) {
  finished = true;
  words = CTXGEN_TRY(check_words(cli, std::move(words)));
  try {
    std::ranges::reverse(words);  // as CLI11 wants them
    cli.app.parse(std::move(words));
  } catch (const CLI::CallForVersion&) {
    CTXGEN_CHECK(print(version_text()));
    return 0;
  } catch (const CLI::CallForHelp&) {
    CTXGEN_CHECK(print(cli.app.help()));  // of the verb, if one was named
    return 0;
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::kInvalidArgument, "{} ({} --help)", error.what(),
                command_of(chosen(cli.app)));
  }
  for (CLI::App* verb : cli.app.get_subcommands()) CTXGEN_CHECK(apply_options_file(*verb));
  const CLI::Option* json = chosen(cli.app).get_option_no_throw("--json");
  if (json != nullptr && json->count() > 0) print_errors_as_json(true);  // from a file of options
  finished = false;
  return 0;
}

Result<int> run(int argc, char** argv) {
  const std::span<const char* const> arguments(argv, static_cast<std::size_t>(argc));
  CLI::App app("ctxgen compiles ONNX models ahead of time with oneDNN and runs the result.",
               "ctxgen");
  Cli cli{app, {}, {argv, argv + argc}};
  declare(cli);
  std::vector<std::string> words = with_long_names(arguments.subspan(arguments.empty() ? 0 : 1));
  print_errors_as_json(asks_for_json(cli, words));
  if (words.empty()) {
    CTXGEN_CHECK(print(next_text()));
    return 0;
  }
  bool finished = false;
  const int status = CTXGEN_TRY(parse(cli, std::move(words), finished));
  if (finished) return status;
  return cli.action();
}

}  // namespace

void add_verbosity(CLI::App& verb, Verbosity& verbosity) {
  verb.add_flag("-q,--quiet", verbosity.quiet, "errors only");
  verb.add_flag("-v,--verbose", verbosity.verbose, "say more; twice: everything");
}

void apply(const Verbosity& verbosity) {
  LogLevel least = LogLevel::kWarning;
  if (verbosity.verbose > 0) least = verbosity.verbose > 1 ? LogLevel::kTrace : LogLevel::kInfo;
  if (verbosity.quiet) least = LogLevel::kError;
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org
  const bool color = isatty(STDERR_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
  set_log_function(stderr_log_function(color), least);
}

}  // namespace ctxgen::cli

namespace {

/// Runs the program; the exit status.
int run_main(int argc, char** argv) {
  using namespace ctxgen;
  try {
    cli::handle_interrupts(cli::Interrupt::kImmediate);
    const auto status = cli::run(argc, argv);
    return status ? *status : cli::report_error(status.error());
  } catch (const std::bad_alloc&) {
    return cli::report_error({ErrorCode::kResourceLimit, "out of memory"});
  } catch (const std::exception& error) {
    return cli::report_error({ErrorCode::kInternal, error.what()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  ctxgen::cli::main_begins(argc, argv);
  const int status = run_main(argc, argv);
  ctxgen::cli::main_ends();
  return status;
}
