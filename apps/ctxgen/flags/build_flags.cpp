#include "flags/build_flags.h"

#include <algorithm>
#include <string_view>

#include "ctxgen/base/file.h"
#include "ctxgen/base/file_roles.h"
#include "ctxgen/compiler/dependency_rules.h"

#include "flags/flag_table.h"
#include "flags/option_flags.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

struct Clash {
  bool given;
  const char* one;
  const char* other;
  const char* reason;
};

/// Models first: ninja compares the first name. Copied bins are left out: a build cannot know of them.
std::vector<fs::path> outputs_of(const CompileReport& report) {
  std::vector<fs::path> outputs;
  for (const FileReport& file : report.files)
    if (file.kind == FileReport::Kind::kModel) outputs.push_back(file.path);
  for (const FileReport& file : report.files)
    if (file.kind == FileReport::Kind::kBin || file.kind == FileReport::Kind::kExternalInitializers)
      outputs.push_back(file.path);
  return outputs;
}

}  // namespace

void add_build_flags(CLI::App& verb, BuildFlags& flags, CompileOptions& options) {
  verb.add_flag("--if-needed", flags.if_needed,
                "do nothing if the outputs are up to date and fit this machine");
  add_option_flag(verb, options, &CompileOptions::keep_unchanged);
  add_option_flag(verb, options, &CompileOptions::dry_run);
  verb.add_option("--depfile", flags.depfile,
                  "write a Make rule: the outputs depend on every file that was read")
      ->type_name("FILE");
  verb.add_flag("--MD", flags.gcc_depfile,
                "-MD: write a dependency file next to the (first) output, with the extension .d");
  verb.add_option("--MF", flags.gcc_file, "-MF FILE: the file that -MD writes")->type_name("FILE");
  verb.add_option("--MT", flags.gcc_targets,
                  "-MT TARGET: what depends on the files, instead of the outputs; may be repeated")
      ->type_name("TARGET")
      ->allow_extra_args(false);
}

std::vector<std::string> with_long_names(std::span<const char* const> arguments) {
  std::vector<std::string> result;
  bool options = true;  // until "--"
  for (const std::string_view argument : arguments) {
    const std::string name = "-" + std::string(argument.substr(0, argument.find('=')));
    const bool gcc = options && is_gcc_option(name);
    options = options && argument != "--";
    result.push_back((gcc ? "-" : "") + std::string(argument));
  }
  return result;
}

Status check_build_flags(const BuildFlags& flags, const CompileOptions& options,
                         const OutputPlan& plan, bool verify) {
  const bool depfile = !flags.depfile.empty() || flags.gcc_depfile || !flags.gcc_file.empty();
  const Clash clashes[] = {
      {flags.if_needed && options.no_clobber, "--if-needed", "--no-clobber",
       "one accepts existing outputs, the other refuses them"},
      {flags.if_needed && plan.to_stdout, "--if-needed", "-o -", "no output exists to check"},
      {flags.if_needed && !options.like.empty(), "--if-needed", "--like",
       "what is current is not compared"},
      {options.dry_run && plan.to_stdout, "--dry-run", "-o -", "nothing would be printed"},
      {options.dry_run && verify, "--dry-run", "--verify", "only a written file can be verified"},
      {options.dry_run && depfile, "--dry-run", "--depfile", "nothing is written"},
      {options.keep_unchanged && plan.to_stdout, "--keep-unchanged", "-o -",
       "there is no output to keep"},
      {depfile && plan.to_stdout, "--depfile", "-o -", "the rule would have no target"},
      {depfile && !plan.outputs.empty() && is_stream(plan.outputs.front()), "--depfile",
       "an output that is a device or a pipe", "the rule would have no target"},
      {!flags.depfile.empty() && !flags.gcc_file.empty(), "--depfile", "-MF",
       "both name the dependency file"},
  };
  for (const Clash& clash : clashes)
    if (clash.given)
      return fail(ErrorCode::kInvalidArgument, "{} cannot be combined with {}: {}", clash.one,
                  clash.other, clash.reason);
  if (!flags.gcc_file.empty() && !flags.gcc_depfile)
    return fail(ErrorCode::kInvalidArgument, "-MF needs -MD: it names the file that -MD writes");
  if (!flags.gcc_targets.empty() && !depfile)
    return fail(ErrorCode::kInvalidArgument,
                "-MT needs -MD or --depfile: it names the target in a dependency file");
  return {};
}

fs::path depfile_of(const BuildFlags& flags, const OutputPlan& plan) {
  if (!flags.depfile.empty()) return flags.depfile;
  if (!flags.gcc_file.empty()) return flags.gcc_file;
  if (!flags.gcc_depfile || plan.outputs.empty()) return {};
  return fs::path(plan.outputs.front()).replace_extension(".d");
}

Result<Depfile> make_depfile(const BuildFlags& flags, const OutputPlan& plan,
                             const CompileReport& report) {
  const fs::path path = depfile_of(flags, plan);
  if (path.empty()) return Depfile{};
  std::vector<fs::path> targets(flags.gcc_targets.begin(), flags.gcc_targets.end()), given, found;
  if (targets.empty()) targets = outputs_of(report);
  // What a rule names on the command line must be there; what a model names may come and go.
  for (const fs::path& file : report.files_read)
    (std::ranges::contains(plan.inputs, file.string()) ? given : found).push_back(file);
  return Depfile{path, CTXGEN_TRY(dependency_rules(targets, given, found))};
}

Status write_depfile(const Depfile& depfile) {
  if (depfile.path.empty()) return {};
  return write_file(depfile.path, as_bytes(depfile.text));
}

}  // namespace ctxgen::cli
