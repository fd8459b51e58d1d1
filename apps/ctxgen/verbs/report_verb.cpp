#include <algorithm>
#include <filesystem>
#include <format>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/base/file.h"

#include "cli.h"
#include "flags/arguments.h"
#include "flags/options_file.h"
#include "flags/value_checks.h"
#include "io/run_files.h"
#include "report/gather_report.h"
#include "report/report_page.h"
#include "report/write_report.h"
#include "term/console.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen report model.onnx                 model_report.html, measured on this machine\n"
    "  ctxgen report model_ctx.onnx --against model.onnx -o model.html\n"
    "      with the error of each partition\n"
    "  ctxgen report model.onnx --no-run --dim batch=1 -o model.html\n"
    "      without running it: the same bytes each time\n"
    "  ctxgen report old_ctx.onnx new_ctx.onnx -o changes.html\n"
    "      two next to each other, differences first\n"
    "  ctxgen report model.onnx --format model-explorer -o model_times.json\n";

enum class Format { kHtml, kModelExplorer };
const std::vector<std::pair<std::string, int>> kFormats = {
    {"html", static_cast<int>(Format::kHtml)},
    {"model-explorer", static_cast<int>(Format::kModelExplorer)},
};

struct Flags {
  std::vector<std::string> models;
  std::string output;
  ReportRequest request;
  bool no_run = false;
  Format format = Format::kHtml;
  std::string options_file;
  bool json = false;
  Verbosity verbosity;
};

/// Where the report goes: what was named, else a new file next to the model.
Result<fs::path> output_of(const Flags& flags) {
  if (!flags.output.empty()) return fs::path(flags.output);
  const fs::path model = flags.models.front();
  const bool page = flags.format == Format::kHtml;
  fs::path path =
      model.parent_path() / (model.stem().string() + (page ? "_report.html" : "_node_data.json"));
  std::error_code ignored;
  if (fs::symlink_status(path, ignored).type() != fs::file_type::not_found)
    return fail(ErrorCode::kInvalidArgument, "\"{}\" exists: -o FILE replaces what it names",
                path.string());
  return path;
}

Status check_flags(const Flags& flags) {
  if (flags.models.size() > 2)
    return fail(ErrorCode::kInvalidArgument, "expected one model, or two to compare, got {}",
                flags.models.size());
  if (std::ranges::contains(flags.models, "-"))
    return fail(ErrorCode::kInvalidArgument, "a report needs a model from a file, not stdin (-)");
  const bool two = flags.models.size() == 2;
  if (two && flags.format != Format::kHtml)
    return fail(ErrorCode::kInvalidArgument, "--format model-explorer is for one model");
  if (two && flags.json)
    return fail(ErrorCode::kInvalidArgument, "--json prints the data of one model, got two");
  if (two && !flags.request.against.empty())
    return fail(ErrorCode::kInvalidArgument, "--against is for one model, got two");
  if (flags.json && !flags.output.empty())
    return fail(ErrorCode::kInvalidArgument, "--json prints the data and writes no file: omit -o");
  if (flags.json && flags.format != Format::kHtml)
    return fail(ErrorCode::kInvalidArgument,
                "--json cannot be combined with --format: model-explorer is another format");
  return {};
}

Status check_files(const Flags& flags, const fs::path& output) {
  for (const std::string& model : flags.models)
    CTXGEN_CHECK(check_run_files(
        {.model = model,
         .external_data_folder = flags.request.flags.options.external_data_folder.string(),
         .options_file = flags.options_file,
         .inputs = {},
         .test_data = {},
         .profile = {},
         .report = output.string(),
         .output_file = {},
         .output_folder = {}}));
  if (flags.request.against.empty()) return {};
  return check_file_uses({{FileUse::How::kRead, flags.request.against, "--against"},
                          {FileUse::How::kWritten, output, "-o"}});
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  CTXGEN_CHECK(check_flags(flags));
  fs::path output;
  if (!flags.json) {
    output = CTXGEN_TRY(output_of(flags));
    CTXGEN_CHECK(check_files(flags, output));
  }
  ReportRequest request = flags.request;
  request.runs = !flags.no_run;
  std::vector<MeasuringProcess> processes;  // before anything runs here
  for (const std::string& model : flags.models) {
    request.model = model;
    if (request.runs) processes.push_back(CTXGEN_TRY(start_measuring(request)));
  }
  std::vector<std::string> data;
  std::string title, sentence;
  for (std::size_t i = 0; i < flags.models.size(); ++i) {
    const std::string& model = flags.models[i];
    request.model = model;
    const ReportData one =
        CTXGEN_TRY(gather_report(request, request.runs ? &processes[i] : nullptr));
    if (flags.format == Format::kModelExplorer) {
      CTXGEN_CHECK(write_file(output, as_bytes(model_explorer_json(one))));
      return 0;
    }
    if (flags.json) {
      CTXGEN_CHECK(print(report_data_json(one)));
      return 0;
    }
    title += (title.empty() ? "" : " and ") + fs::path(model).filename().string();
    sentence += (sentence.empty() ? "" : " ") + sentence_of(one);
    data.push_back(report_data_json(one));
  }
  const std::string page = report_page(title, sentence, data);
  CTXGEN_CHECK(write_file(output, as_bytes(page)));
  if (!flags.verbosity.quiet && !is_standard_output(output))
    CTXGEN_CHECK(
        print(std::format("{}\n{} ({})\n", sentence, output.string(), size_text(page.size()))));
  return 0;
}

}  // namespace

void add_report(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* verb = cli.app.add_subcommand(
      "report", "write a page that shows what became of a model, or two next to each other");
  verb->add_option("model", flags->models,
                   "a context model, or an ONNX model, which is compiled in memory; two to compare")
      ->type_name("MODEL")
      ->required();
  verb->add_option("-o,--output", flags->output,
                   "the file to write (default: MODEL_report.html, if that is not there)")
      ->type_name("FILE.html");
  verb->add_option("--against", flags->request.against,
                   "the source of the context model, to compare outputs with")
      ->type_name("MODEL");
  verb->add_flag("--verify", flags->request.verify,
                 "compare a plain model, compiled, with itself on CPU kernels");
  verb->add_flag("--no-run", flags->no_run,
                 "measure nothing: without times, the same bytes each time");
  verb->add_option("--iterations", flags->request.iterations, "number of measured runs")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole_number(1, 1'000'000));
  verb->add_option("--format", flags->format,
                   "html, or model-explorer: node data for that program (default: html)")
      ->type_name("html|model-explorer")
      ->transform(one_word_of(kFormats));
  add_model_flags(*verb, flags->request.flags);
  verb->add_flag("--json", flags->json, "print the data of the page as JSON, and write no file");
  add_options_file(*verb, flags->options_file);
  add_verbosity(*verb, flags->verbosity);
  verb->footer(kExamples);
  verb->callback([&cli, flags, verb] {
    flags->request.compile_flag = compile_only_flag(*verb);
    cli.action = [flags] { return run(*flags); };
  });
}

}  // namespace ctxgen::cli
