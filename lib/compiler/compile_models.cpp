#include "ctxgen/compiler/compile_models.h"

#include <algorithm>
#include <chrono>

#include "ctxgen/base/boundary.h"
#include "ctxgen/compiler/option_table.h"
#include "cache/output_cache.h"
#include "output/bin_users.h"
#include "output/file_uses.h"
#include "output/output_files.h"
#include "output/output_names.h"
#include "stages/compilation.h"
#include "stages/compile_target.h"
#include "stages/prepare_model.h"

namespace ctxgen {
namespace {

using Paths = std::vector<std::filesystem::path>;

/// Where the models would lie: gives their names, and the folder of what is written beside them.
Paths paths_without_files(const std::vector<ModelInput>& inputs, const CompileOptions& options) {
  if (!options.context_file_path.empty()) return {options.context_file_path};
  Paths paths;
  for (const ModelInput& input : inputs)
    paths.push_back(options.bin.parent_path() / default_output_name(input.name));
  return paths;
}

/// Bins and the like into `result`, by the names that the models give them.
Status keep_in_memory(std::span<const OutputFile> files, const std::filesystem::path& folder,
                      CompiledModels& result) {
  for (const OutputFile& file : files) {
    std::string name = folder.empty() ? file.path.generic_string()
                                      : file.path.lexically_relative(folder).generic_string();
    result.bins.emplace_back(std::move(name), CTXGEN_TRY(write_to_memory(file.write)));
  }
  return {};
}

Status hand_out(std::span<const OutputFile> files, const std::vector<ModelOutput>& outputs,
                CompiledModels& result) {
  result.models.resize(outputs.size());
  for (std::size_t m = 0; m < outputs.size(); ++m) {
    if (outputs[m].write)
      CTXGEN_CHECK(files[m].write(outputs[m].write));
    else
      result.models[m] = CTXGEN_TRY(write_to_memory(files[m].write));
  }
  return {};
}

enum class Bins { kMemory, kFiles };

Result<CompiledModels> compile_without_files(const std::vector<ModelInput>& inputs,
                                             const std::vector<ModelOutput>& outputs,
                                             const CompileOptions& options, Bins bins) {
  const auto start = std::chrono::steady_clock::now();
  const Paths paths = paths_without_files(inputs, options);
  CTXGEN_CHECK(check_file_options(inputs, paths, options));
  if (options.keep_unchanged || options.dry_run || options.make_folder)
    return fail(ErrorCode::kInvalidArgument,
                "keep_unchanged, dry_run and make_folder are about models in files, and these go to "
                "memory or functions");
  if (!options.append.empty())
    return fail(ErrorCode::kInvalidArgument,
                "models that go to no files cannot add to a bin in a file ({})",
                option_name(options, &CompileOptions::append));
  ProviderList providers = CTXGEN_TRY(ProviderList::make(options));
  const PlannedOutputs planned{
      .models = paths, .models_are_files = false, .others_are_files = bins == Bins::kFiles};
  CTXGEN_CHECK(check_files(inputs, planned, providers, {}, options));
  CTXGEN_CHECK(check_all_writable(file_uses(inputs, planned, providers, {}, options), {}));
  const auto cache = CTXGEN_TRY(open_cache(options));
  CompileTarget target = CTXGEN_TRY(make_target(options, providers));
  CTXGEN_CHECK(limit_process(target, providers));
  Compilation work(options, std::move(providers), std::move(target), bin_names(paths, options),
                   bins == Bins::kFiles ? paths.front() : std::filesystem::path(), cache.get());
  if (bins == Bins::kFiles) work.set_outputs(paths);
  CTXGEN_CHECK(work.import(inputs));
  CTXGEN_CHECK(check_files(inputs, planned, work.providers(), work.imported(), options));
  std::vector<BinUsers> users;
  if (bins == Bins::kFiles) users = find_bin_users(work.providers(), paths, {}, options);
  CTXGEN_CHECK(work.prepare());
  CTXGEN_CHECK(work.compile());
  CTXGEN_CHECK(check_bin_users(users, work.contents(), options));
  CTXGEN_CHECK(work.rewrite());
  CTXGEN_CHECK(work.enter(CompileStage::kWrite, 0));
  const std::vector<OutputFile> files = CTXGEN_TRY(plan_files(work, paths, options));
  const auto models = std::span(files).last(outputs.size());
  const auto beside = std::span(files).first(files.size() - outputs.size());
  CompiledModels result;
  if (bins == Bins::kMemory) {
    CTXGEN_CHECK(keep_in_memory(beside, paths.front().parent_path(), result));
    for (const PreparedModel& model : work.models())  // those that plan_files finds in their place
      for (const auto& [name, file] : model.foreign_bins)
        if (!std::ranges::contains(result.bins, name, &std::pair<std::string, Blob>::first))
          result.bins.emplace_back(name, file.bytes);
    CTXGEN_CHECK(hand_out(models, outputs, result));
    work.report_nodes();
  } else {
    if (options.no_clobber)
      for (const OutputFile& file : beside) CTXGEN_CHECK(refuse_existing(file.path, options));
    work.report().files =
        CTXGEN_TRY(write_files({beside.begin(), beside.end()}, options,
                               [&]() -> Status {
                                 CTXGEN_CHECK(hand_out(models, outputs, result));
                                 work.report_nodes();
                                 return {};
                               }));
  }
  CTXGEN_CHECK(work.enter(CompileStage::kWrite, 1));
  result.report = std::move(work.report());
  result.report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

Status check_outputs(const std::vector<ModelInput>& inputs, const std::vector<ModelOutput>& outputs) {
  if (inputs.empty() || inputs.size() != outputs.size())
    return fail(ErrorCode::kInvalidArgument, "{} models and {} outputs", inputs.size(),
                outputs.size());
  std::size_t files = 0;
  for (const ModelOutput& output : outputs) {
    if (!output.path.empty() && output.write)
      return fail(ErrorCode::kInvalidArgument, "output \"{}\" is a file and a function",
                  output.path.string());
    files += output.path.empty() ? 0 : 1;
  }
  if (files != 0 && files != outputs.size())
    return fail(ErrorCode::kInvalidArgument,
                "{} of {} models of one group go to files: all or none must, they share a bin", files,
                outputs.size());
  return {};
}

}  // namespace

Result<CompiledModel> compile_in_memory(const ModelInput& input, const CompileOptions& options) {
  return at_boundary("compiling", [&]() -> Result<CompiledModel> {
    if (!options.bin.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "a bin \"{}\" is given, but a compile in memory writes no file",
                  options.bin.string());
    CompiledModels all = CTXGEN_TRY(compile_without_files({input}, {{}}, options, Bins::kMemory));
    return CompiledModel{std::move(all.models.front()), std::move(all.bins), std::move(all.report)};
  });
}

Result<CompiledModels> compile_models(const std::vector<ModelInput>& inputs,
                                      const std::vector<ModelOutput>& outputs,
                                      const CompileOptions& options) {
  return at_boundary("compiling", [&]() -> Result<CompiledModels> {
    CTXGEN_CHECK(check_outputs(inputs, outputs));
    if (outputs.front().path.empty()) {
      const bool in_files = !options.embed && !(options.context_file_path.empty() && options.bin.empty());
      return compile_without_files(inputs, outputs, options, in_files ? Bins::kFiles : Bins::kMemory);
    }
    Paths paths;
    for (const ModelOutput& output : outputs) paths.push_back(output.path);
    CompiledModels result;
    result.models.resize(outputs.size());
    result.report = CTXGEN_TRY(compile_to_files(inputs, paths, options));
    return result;
  });
}

}  // namespace ctxgen
