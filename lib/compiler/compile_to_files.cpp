#include <algorithm>
#include <chrono>
#include <optional>

#include "ctxgen/base/boundary.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/compiler/compile.h"
#include "cache/output_cache.h"
#include "output/appended_bin.h"
#include "output/bin_users.h"
#include "output/file_uses.h"
#include "output/output_files.h"
#include "output/output_names.h"
#include "stages/compilation.h"
#include "stages/compile_target.h"
#include "stages/prepare_model.h"
#include "stages/report_model.h"

namespace ctxgen {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Where weights may lie meanwhile: a dry run makes no folder, and a device has none.
std::filesystem::path spill_place(const std::filesystem::path& output,
                                  const CompileOptions& options) {
  return options.dry_run || is_stream(output) ? std::filesystem::path() : output;
}

/// The folder of the outputs while it is not there, but will be.
std::filesystem::path folder_to_make(const std::vector<std::filesystem::path>& outputs,
                                     const CompileOptions& options) {
  const auto folder = outputs.front().parent_path();
  std::error_code ignored;
  return options.make_folder && !std::filesystem::exists(folder, ignored) ? folder
                                                                          : std::filesystem::path();
}

/// Refuses, before anything is read or written, what is known to be refused when the files are; makes
/// the outputs' folder.
Status prepare_outputs(const std::vector<ModelInput>& inputs,
                       const std::vector<std::filesystem::path>& outputs,
                       const ProviderList& providers, const CompileOptions& options,
                       OutputFolder& folder) {
  CTXGEN_CHECK(check_files(inputs, {outputs}, providers, {}, options));
  if (options.no_clobber)
    for (const auto& output : outputs) CTXGEN_CHECK(refuse_existing(output, options));
  CTXGEN_CHECK(folder.prepare(outputs.front().parent_path(), options));
  const auto uses = options.keep_unchanged ? options.other_files  // the others may stay as they are
                                           : file_uses(inputs, {outputs}, providers, {}, options);
  return check_all_writable(uses, folder_to_make(outputs, options));
}

/// Whether the key of a compile says all about it.
bool has_whole_key(const std::vector<ModelInput>& inputs, const CompileOptions& options) {
  return !options.initializer_location && options.append.empty() && std::ranges::all_of(inputs, [](const ModelInput& input) {
    return input.external_data.empty();
  });
}

/// Writes what an equal compile wrote before, if the cache has it.
Result<std::optional<CompileReport>> write_kept(CacheFolder& cache, Compilation& work, Hash128 key,
                                                const std::vector<std::filesystem::path>& outputs,
                                                const CompileOptions& options) {
  auto kept = find_outputs(cache, key, work.input_bytes(), outputs, options);
  if (!kept) return std::nullopt;
  if (options.no_clobber)
    for (const OutputFile& file : kept->files) CTXGEN_CHECK(refuse_existing(file.path, options));
  CTXGEN_CHECK(work.enter(CompileStage::kWrite, 0));
  CompileReport report = std::move(kept->report);
  report.files = CTXGEN_TRY(write_files(kept->files, options));
  report.dry_run = options.dry_run;
  CTXGEN_CHECK(work.enter(CompileStage::kWrite, 1));
  report.key = work.report().key;
  report.files_read = work.report().files_read;
  report.counts.outputs_cached = true;
  report.counts.bytes_cached = report.bytes_stored;
  for (const ModelReport& model : report.models)
    report.counts.programs_cached += model.partitions.size();
  return report;
}

}  // namespace

Result<CompileReport> compile_to_files(const std::vector<ModelInput>& inputs,
                                       const std::vector<std::filesystem::path>& outputs,
                                       const CompileOptions& given) {
  return at_boundary("compiling", [&]() -> Result<CompileReport> {
    const auto start = std::chrono::steady_clock::now();
    CTXGEN_CHECK(check_file_options(inputs, outputs, given));
    CompileOptions options = given;
    if (!options.append.empty()) {
      options.bin = options.append;
      for (const auto& output : outputs)
        (void)CTXGEN_TRY(bin_reference(output.parent_path(), options.bin));
    }
    ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
    OutputFolder folder;
    CTXGEN_CHECK(prepare_outputs(inputs, outputs, providers, options, folder));
    const auto cache = CTXGEN_TRY(open_cache(options));
    CacheFolder* output_cache = has_whole_key(inputs, options) ? cache.get() : nullptr;
    CompileTarget target = CTXGEN_TRY(make_target(options, providers));
    CTXGEN_CHECK(limit_process(target, providers));
    Compilation work(options, std::move(providers), std::move(target),
                     bin_names(outputs, options), spill_place(outputs.front(), options),
                     cache.get());
    work.set_outputs(outputs);
    CTXGEN_CHECK(work.import(inputs));
    CTXGEN_CHECK(check_files(inputs, {outputs}, work.providers(), work.imported(), options));
    const std::vector<Blob> read = work.input_bytes();
    const std::vector<BinUsers> users = find_bin_users(work.providers(), outputs, outputs, options);
    // What the cache holds does not say which programs are in it.
    if (!std::ranges::all_of(users, &BinUsers::empty)) output_cache = nullptr;
    const Hash128 key = output_key(work.report().key, outputs, options);
    if (output_cache != nullptr) {
      if (auto report = CTXGEN_TRY(write_kept(*output_cache, work, key, outputs, options))) {
        report->seconds = seconds_since(start);
        return std::move(*report);
      }
    }
    std::optional<AppendedBin> appended;  // until the files are there: others wait
    if (!options.append.empty()) {
      appended = CTXGEN_TRY(AppendedBin::open(options.append, options.cancelled));
      CTXGEN_CHECK(work.append_to(appended->reader()));
    }
    CTXGEN_CHECK(work.prepare());
    CTXGEN_CHECK(work.compile());
    CTXGEN_CHECK(check_bin_users(users, work.contents(), options));
    CTXGEN_CHECK(work.rewrite());
    CTXGEN_CHECK(work.enter(CompileStage::kWrite, 0));
    std::vector<OutputFile> files = CTXGEN_TRY(plan_files(work, outputs, options));
    if (options.no_clobber)
      for (const OutputFile& file : files)
        if (file.path != options.append) CTXGEN_CHECK(refuse_existing(file.path, options));
    if (appended)
      for (CompileReport::Bin& bin : work.report().bins)
        if (bin.name == options.append.filename())
          bin.kept_programs = appended->reader().programs().size();
    std::optional<OutputRecorder> recorder;
    if (output_cache != nullptr && !options.dry_run)
      files = recorder.emplace(*output_cache, read, work.contents()).record(files);
    const auto report_nodes = [&work]() -> Status {
      work.report_nodes();
      return {};
    };
    work.report().files = CTXGEN_TRY(write_files(files, options, report_nodes));
    if (recorder) recorder->keep(key, outputs, options, work.report());
    work.report().dry_run = options.dry_run;
    CTXGEN_CHECK(work.enter(CompileStage::kWrite, 1));
    CompileReport report = std::move(work.report());
    report.seconds = seconds_since(start);
    return report;
  });
}

Result<CompileKey> compile_key(const std::vector<ModelInput>& inputs,
                               const std::vector<std::filesystem::path>& outputs,
                               const CompileOptions& given) {
  return at_boundary("finding the key of a compile", [&]() -> Result<CompileKey> {
    CTXGEN_CHECK(check_file_options(inputs, outputs, given));
    if (given.initializer_location)
      return fail(ErrorCode::kInvalidArgument,
                  "a compile with an initializer location function has no key");
    CompileOptions options = given;
    if (!options.append.empty()) options.bin = options.append;
    ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
    CTXGEN_CHECK(check_files(inputs, {outputs}, providers, {}, options));
    CTXGEN_CHECK(check_all_writable(options.other_files, folder_to_make(outputs, options)));
    CompileTarget target = CTXGEN_TRY(make_target(options, providers));
    Compilation work(options, std::move(providers), std::move(target),
                     bin_names(outputs, options));
    work.set_outputs(outputs);
    CTXGEN_CHECK(work.import(inputs));
    CTXGEN_CHECK(check_files(inputs, {outputs}, work.providers(), work.imported(), options));
    return CompileKey{work.report().key, work.report().key_parts, work.report().files_read};
  });
}

Result<ModelReport> explain(const ModelInput& input, const CompileOptions& options) {
  return at_boundary("compiling", [&]() -> Result<ModelReport> {
    const ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
    const CompileTarget target = CTXGEN_TRY(make_target(options, providers));
    const StageFunction stage = [&](CompileStage s) -> Status {
      if (options.cancelled && options.cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
      if (options.progress) options.progress(s, 0);
      return {};
    };
    CTXGEN_CHECK(limit_process(target, providers));
    CTXGEN_CHECK(stage(CompileStage::kImport));
    ImportedModel imported = CTXGEN_TRY(import_model(input, options, providers));
    CTXGEN_CHECK(check_external_data_folder(std::span(&imported, 1), options));
    const PreparedModel prepared =
        CTXGEN_TRY(prepare_model(std::move(imported), options, providers, target, stage));
    std::vector<BuiltPartition> partitions;
    const auto add = [&](const Assignment& assignment, int body) {
      for (std::size_t p = 0; p < providers.all().size(); ++p)
        for (std::size_t i = 0; i < assignment.partitions[p].size(); ++i) {
          BuiltPartition one;
          one.provider = p;
          one.partition = i;
          one.body = body;
          partitions.push_back(std::move(one));
        }
    };
    add(prepared.assignment, -1);
    for (std::size_t b = 0; b < prepared.bodies.size(); ++b)
      add(prepared.bodies[b].assignment, static_cast<int>(b));
    ModelReport report = report_model(prepared, providers, target, partitions);
    report_assignment(report, prepared, providers, partitions);
    return report;
  });
}

}  // namespace ctxgen
