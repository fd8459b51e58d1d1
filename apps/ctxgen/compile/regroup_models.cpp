#include "compile/regroup_models.h"

#include <algorithm>
#include <format>
#include <map>
#include <memory>
#include <utility>

#include "ctxgen/base/json.h"

#include "compile/compile_outputs.h"
#include "compile/compile_report.h"
#include "flags/option_flags.h"
#include "term/console.h"
#include "term/interrupt.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

struct RegroupPlan {
  std::vector<fs::path> inputs, outputs;
  bool new_folder = false;
};

/// Context models keep their names; in a folder they are told apart by them.
Result<RegroupPlan> plan_regroup(const RegroupFlags& flags, RegroupOutput output) {
  std::error_code ignored;
  const fs::path out = flags.output;
  const bool is_there = fs::exists(out, ignored);
  const bool folder = fs::is_directory(out, ignored) || flags.output.ends_with('/') ||
                      (output == RegroupOutput::kFolder && !is_there);
  if (output == RegroupOutput::kFolder && !folder)
    return fail(ErrorCode::kInvalidArgument, "-o: merging needs a folder, \"{}\" is a file",
                flags.output);
  RegroupPlan plan;
  plan.new_folder = folder && !is_there;
  std::map<fs::path, std::string> names;
  for (const std::string& model : expand_models(flags.models)) {
    if (model.empty()) return fail(ErrorCode::kInvalidArgument, "an empty model name");
    const fs::path name = fs::path(model).filename();
    if (const auto [at, added] = names.emplace(name, model); !added)
      return fail(ErrorCode::kInvalidArgument, "\"{}\" and \"{}\" have the same name \"{}\"",
                  at->second, model, name.string());
    plan.inputs.emplace_back(model);
    plan.outputs.push_back(folder ? out / name : out);
  }
  return plan;
}

std::string json_text(const RegroupReport& report) {
  JsonWriter json;
  json.begin_object().key("models").begin_array();
  for (const RegroupReport::Model& model : report.models)
    json.begin_object()
        .field("input", model.input_name)
        .field("output", model.output_name)
        .field("partitions", std::uint64_t{model.partitions})
        .field("model_bytes", model.model_bytes)
        .end_object();
  json.end_array().key("bins").begin_array();
  for (const CompileReport::Bin& bin : report.bins)
    json.begin_object()
        .field("name", bin.name)
        .field("bytes", bin.bytes)
        .field("weight_bytes", bin.weight_bytes)
        .field("blobs", bin.blobs)
        .end_object();
  json.end_array();
  write_outputs(json.key("files"), report.files);
  json.field("programs", std::uint64_t{report.programs})
      .field("programs_shared", std::uint64_t{report.programs_shared})
      .field("weight_bytes_added", report.bytes_added)
      .field("weight_bytes_stored", report.bytes_stored)
      .field("dry_run", report.dry_run)
      .key("files_read")
      .begin_array();
  for (const fs::path& file : report.files_read) json.value(file.string());
  json.end_array().field("seconds", report.seconds).end_object();
  return json.finish();
}

std::string plain_text(const RegroupReport& report) {
  std::string text;
  for (const RegroupReport::Model& model : report.models)
    text += std::format("{} -> {} ({}): {}\n", model.input_name, model.output_name,
                        size_text(model.model_bytes), count_text(model.partitions, "partition"));
  for (const CompileReport::Bin& bin : report.bins)
    text += std::format("{} ({}): {}, {} of weights\n", bin.name, size_text(bin.bytes),
                        count_text(bin.blobs, "blob"), size_text(bin.weight_bytes));
  if (report.bytes_added > report.bytes_stored)
    text += std::format("shared weights saved {}\n",
                        size_text(report.bytes_added - report.bytes_stored));
  return text + outputs_text(report.files, false) + std::format("{:.2f} s\n", report.seconds);
}

}  // namespace

void add_regroup_flags(CLI::App& verb, RegroupFlags& flags, const std::string& output_help) {
  verb.add_option("-o,--output", flags.output, output_help)->type_name("OUT")->required();
  add_option_flag(verb, flags.options, &CompileOptions::keep_unchanged);
  add_option_flag(verb, flags.options, &CompileOptions::dry_run);
  add_option_flag(verb, flags.options, &CompileOptions::no_clobber);
  add_option_flag(verb, flags.options, &CompileOptions::force);
  verb.add_flag("--json", flags.json, "print JSON");
  add_verbosity(verb, flags.verbosity);
}

void add_regroup_names(CLI::App& verb, RegroupFlags& flags) {
  verb.add_option("--bin", flags.options.bin,
                  "the context binary (default: named after the first model)")
      ->type_name("FILE");
  verb.add_option(
          "--external-initializers", flags.options.external_initializers,
          "the file of initializers that the models keep outside (default: the name that the "
          "first of them has for it)")
      ->type_name("NAME");
}

void add_regroup_one(Cli& cli, CLI::App& verb, bool embed) {
  const auto flags = std::make_shared<RegroupFlags>();
  flags->options.embed = embed;
  verb.add_option("context", flags->models, "a context model")
      ->type_name("CONTEXT")
      ->required()
      ->expected(1);
  add_regroup_flags(verb, *flags, "the context model, or a folder");
  if (!embed) add_regroup_names(verb, *flags);
  verb.callback([&cli, flags] {
    cli.action = [flags] { return regroup_models(*flags, RegroupOutput::kFileOrFolder); };
  });
}

Result<int> regroup_models(const RegroupFlags& flags, RegroupOutput output) {
  apply(flags.verbosity);
  const RegroupPlan plan = CTXGEN_TRY(plan_regroup(flags, output));
  handle_interrupts(Interrupt::kCooperative);
  const RegroupReport report =
      CTXGEN_TRY(regroup(plan.inputs, plan.outputs,
                         {.names = OptionNames::kFlags,
                          .embed = flags.options.embed,
                          .bin = flags.options.bin,
                          .external_initializers = flags.options.external_initializers,
                          .no_clobber = flags.options.no_clobber,
                          .force = flags.options.force,
                          .keep_unchanged = flags.options.keep_unchanged,
                          .dry_run = flags.options.dry_run,
                          .make_folder = plan.new_folder,
                          .other_files = {},
                          .cancelled = interrupted}));
  if (flags.json || !flags.verbosity.quiet)
    CTXGEN_CHECK(print(flags.json ? json_text(report) : plain_text(report)));
  return 0;
}

}  // namespace ctxgen::cli
