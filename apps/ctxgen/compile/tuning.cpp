#include "compile/tuning.h"

#include <algorithm>
#include <filesystem>
#include <format>
#include <utility>
#include <vector>

#include "ctxgen/base/log.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/tuning/tune_models.h"
#include "ctxgen/tuning/tuning_file.h"

#include "doctor/machine_facts.h"
#include "flags/arguments.h"
#include "running/random_inputs.h"
#include "term/time_left.h"

namespace ctxgen::cli {
namespace {

constexpr std::int64_t kMostSeconds = 86400;
constexpr std::uint64_t kSeed = 1;

Result<std::int64_t> seconds_of(const TuningFlags& flags) {
  const std::int64_t seconds = CTXGEN_TRY(parse_count(flags.seconds, "--tune"));
  if (seconds >= 1 && seconds <= kMostSeconds) return seconds;
  return fail(ErrorCode::kInvalidArgument, "--tune: {} seconds, expected 1 to {}", seconds,
              kMostSeconds);
}

std::string progress_text(const FormProgress& at) {
  const std::string shapes = std::format("{} shape{}", at.shapes, at.shapes == 1 ? "" : "s");
  const std::string what = !at.precision.empty()
                               ? std::format("{} ({} of {})", at.precision, at.trial, at.trials)
                           : at.confirming ? "measuring what won once more"
                                           : std::format("form {} of {}", at.trial, at.trials - 1);
  return std::format("tuning: {}, {}, {}", shapes, what, time_left_text(at.seconds_left));
}

/// Random ones, of the first sizes that are planned ahead.
Result<std::vector<NamedValue>> inputs_of(std::span<const IoInfo> infos,
                                          const CompileOptions& options) {
  const ShapeProfile shapes = options.profiles.empty() ? ShapeProfile() : options.profiles.front();
  std::vector<NamedValue> values;
  for (auto& [name, tensor] : CTXGEN_TRY(random_inputs(infos, {}, shapes, kSeed)))
    values.push_back({name, std::move(tensor)});
  return values;
}

/// Errors  CANCELLED.
std::unexpected<Error> interrupted_with(const TuningFlags& flags, const FormFinding& found,
                                        bool written) {
  if (!written)
    return fail(ErrorCode::kCancelled, "interrupted while forms were measured; nothing was kept");
  return fail(
      ErrorCode::kCancelled,
      "interrupted while forms were measured; \"{}\" has what was found for {} of {} shapes",
      flags.file, found.report.known + found.report.measured, found.report.shapes);
}

}  // namespace

void add_tuning_flags(CLI::App& verb, TuningFlags& flags) {
  verb.add_flag("--tune{60}", flags.seconds,
                "measure on this machine which packings of constants and which kernels are the "
                "fastest, so long at most (default: 60), and compile with these")
      ->type_name("[=SECONDS]");
  const OptionRow& row = option_row(&CompileOptions::tuning);
  verb.add_option(std::string(row.flag), flags.file, std::string(row.help))
      ->type_name(std::string(row.value));
}

Status read_tuning(const TuningFlags& flags, bool if_needed, CompileOptions& options) {
  std::error_code ignored;
  if (flags.tunes) {
    (void)CTXGEN_TRY(seconds_of(flags));
    if (if_needed && flags.file.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "--tune with --if-needed needs --tuning: the file says what the outputs were "
                  "made with");
    CTXGEN_CHECK(check_tunable(options));
    if (flags.file.empty() || !std::filesystem::exists(flags.file, ignored)) return {};
  }
  if (flags.file.empty()) return {};
  options.tuning = CTXGEN_TRY(read_tuning_file(flags.file));
  return {};
}

std::string why_untuned(std::span<const std::filesystem::path> outputs,
                        const CompileOptions& options) {
  for (const std::filesystem::path& output : outputs) {
    const auto shape = find_unmeasured(output, options);
    if (!shape) return shape.error().message;
    if (*shape)
      return std::format("\"{}\": the tuning file has no row for {}", output.string(),
                         to_string(**shape));
  }
  return "";
}

Result<std::optional<TuningReport>> tune(const TuningFlags& flags,
                                         std::span<const ModelInput> models,
                                         CompileOptions& options, Progress& progress) {
  if (!flags.tunes) return std::nullopt;
  const std::int64_t seconds = CTXGEN_TRY(seconds_of(flags));
  const bool writes = !flags.file.empty() && !options.dry_run;
  if (writes) CTXGEN_CHECK(check_tuning_file(flags.file));
  FormFinding found = CTXGEN_TRY(tune_models(
      models, options,
      {.seconds = static_cast<double>(seconds),
       .known = options.tuning,
       .machine = machine_facts().processor,
       .threads = std::max(options.threads, 1),
       .make_inputs = [&](std::span<const IoInfo> infos) { return inputs_of(infos, options); },
       .progress = [&](const FormProgress& at) { progress.say(progress_text(at)); }}));
  progress.clear();
  if (writes) found.table = CTXGEN_TRY(add_to_tuning_file(flags.file, std::move(found.table)));
  if (found.report.interrupted) return interrupted_with(flags, found, writes);
  if (found.report.shapes == 0)
    log(LogLevel::kWarning,
        "--tune: nothing to measure: no product or convolution with a constant is planned for "
        "known sizes (--dim, --shape)");
  options.tuning = std::move(found.table);
  return std::move(found.report);
}

}  // namespace ctxgen::cli
