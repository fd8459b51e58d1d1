#include "ctxgen/compiler/compile_models.h"

#include <algorithm>
#include <chrono>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/stopwatch.h"
#include "ctxgen/compiler/option_table.h"

#include "output/bin_users.h"
#include "output/file_uses.h"
#include "output/output_files.h"
#include "output/output_names.h"
#include "output/output_transaction.h"
#include "regroup/like_context.h"

namespace ctxgen {
namespace {

using Paths = std::vector<std::filesystem::path>;

/// Where the models would be: gives their names, and the folder of what is written next to them.
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

/// Where the bins of models go that go to no file.
Bins bins_without_models(const CompileOptions& options) {
  const bool named = !options.context_file_path.empty() || !options.bin.empty();
  return named && !options.embed ? Bins::kFiles : Bins::kMemory;
}

Paths paths_of(const std::vector<ModelOutput>& outputs) {
  Paths paths;
  for (const ModelOutput& output : outputs) paths.push_back(output.path);
  return paths;
}

/// What is about files, and these models go to none.
Status check_without_files(const CompileOptions& options) {
  if (options.keep_unchanged || options.dry_run || options.make_folder)
    return fail(
        ErrorCode::kInvalidArgument,
        "keep_unchanged, dry_run and make_folder are about models in files, and these go to "
        "memory or functions");
  if (!options.cache_url.empty())
    return fail(ErrorCode::kInvalidArgument, "a remote cache ({}) is for models in files",
                option_name(options, &CompileOptions::cache_url));
  if (!options.append.empty())
    return fail(ErrorCode::kInvalidArgument,
                "models that are not written to files cannot be added to a bin ({})",
                option_name(options, &CompileOptions::append));
  return {};
}

/// Bins to memory or to files, models to memory or to functions.
Status hand_over(std::span<const OutputFile> files, const std::vector<ModelOutput>& outputs,
                 Bins bins, const PreparedModels& prepared, BuiltModels& built,
                 const CompileEnv& env, CompiledModels& result) {
  const auto models = files.last(outputs.size());
  const auto beside = files.first(files.size() - outputs.size());
  if (bins == Bins::kMemory) {
    CTXGEN_CHECK(keep_in_memory(beside, env.outputs.front().parent_path(), result));
    for (const PreparedModel& model :
         prepared.models)  // those that plan_files finds in their place
      for (const auto& [name, file] : model.foreign_bins)
        if (!std::ranges::contains(result.bins, name, &std::pair<std::string, Blob>::first))
          result.bins.emplace_back(name, file.bytes);
    CTXGEN_CHECK(hand_out(models, outputs, result));
    report_nodes(built, prepared, env);
    return {};
  }
  const auto last = [&]() -> Status {
    CTXGEN_CHECK(hand_out(models, outputs, result));
    report_nodes(built, prepared, env);
    return {};
  };
  if (env.options.no_clobber)
    for (const OutputFile& file : beside) CTXGEN_CHECK(refuse_existing(file.path, env.options));
  result.report.files = CTXGEN_TRY(write_files({beside.begin(), beside.end()}, env.options, last));
  return {};
}

Result<CompiledModels> compile_without_files(const std::vector<ModelInput>& inputs,
                                             const std::vector<ModelOutput>& outputs,
                                             const CompileOptions& options, Bins bins) {
  const auto start = std::chrono::steady_clock::now();
  const bool in_files = bins == Bins::kFiles;
  CTXGEN_CHECK(check_without_files(options));
  CompileEnv env = CTXGEN_TRY(
      CompileEnv::make(inputs, paths_without_files(inputs, options), options,
                       in_files ? CompileEnv::Outputs::kFiles : CompileEnv::Outputs::kNames));
  const PlannedOutputs planned{
      .models = env.outputs, .models_are_files = false, .others_are_files = in_files};
  CTXGEN_CHECK(check_files(inputs, planned, env.providers, {}, options));
  CTXGEN_CHECK(check_all_writable(file_uses(inputs, planned, env.providers, {}, options), {}));
  CTXGEN_CHECK(env.start(in_files ? env.outputs.front() : std::filesystem::path()));
  ImportedModels imported = CTXGEN_TRY(import_models(inputs, env));
  CTXGEN_CHECK(check_files(inputs, planned, env.providers, imported.models, options));
  const auto like = CTXGEN_TRY(LikeContext::read(env));
  if (like) CTXGEN_CHECK(like->check_request(imported.sources, env));
  CTXGEN_CHECK(env.choose_precision());
  std::vector<BinUsers> users;
  if (in_files) users = find_bin_users(env.providers, env.outputs, {}, options);
  PreparedModels prepared = CTXGEN_TRY(prepare_models(std::move(imported), env));
  BuiltModels built = CTXGEN_TRY(build_models(prepared, nullptr, env));
  CTXGEN_CHECK(check_bin_users(users, built.contents, options));
  const RewrittenModels rewritten = CTXGEN_TRY(rewrite_models(prepared, built, env));
  if (like) CTXGEN_CHECK(like->check_result(prepared, built, rewritten, env));
  CTXGEN_CHECK(env.enter(CompileStage::kWrite, 0));
  const std::vector<OutputFile> files = CTXGEN_TRY(plan_files(prepared, built, rewritten, env));
  CompiledModels result;
  CTXGEN_CHECK(hand_over(files, outputs, bins, prepared, built, env, result));
  CTXGEN_CHECK(env.enter(CompileStage::kWrite, 1));
  built.report.files = std::move(result.report.files);
  result.report = std::move(built.report);
  result.report.seconds = seconds_since(start);
  return result;
}

Status check_outputs(const std::vector<ModelInput>& inputs,
                     const std::vector<ModelOutput>& outputs) {
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
                "{} of {} models of one group go to files: all or none must, they share a bin",
                files, outputs.size());
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
    if (outputs.front().path.empty())
      return compile_without_files(inputs, outputs, options, bins_without_models(options));
    CompiledModels result;
    result.models.resize(outputs.size());
    result.report = CTXGEN_TRY(compile_to_files(inputs, paths_of(outputs), options));
    return result;
  });
}

Status check_compile(const std::vector<ModelInput>& inputs, const std::vector<ModelOutput>& outputs,
                     const CompileOptions& options) {
  return at_boundary("checking a compile", [&]() -> Status {
    CTXGEN_CHECK(check_outputs(inputs, outputs));
    const bool to_files = !outputs.front().path.empty();
    if (!to_files) CTXGEN_CHECK(check_without_files(options));
    const bool bins_to_files = to_files || bins_without_models(options) == Bins::kFiles;
    const CompileEnv env = CTXGEN_TRY(CompileEnv::make(
        inputs, to_files ? paths_of(outputs) : paths_without_files(inputs, options), options,
        bins_to_files ? CompileEnv::Outputs::kFiles : CompileEnv::Outputs::kNames));
    const PlannedOutputs planned{
        .models = env.outputs, .models_are_files = to_files, .others_are_files = bins_to_files};
    const ImportedModels imported =
        CTXGEN_TRY(import_checked(inputs, planned, Writable::kAll, env));
    return refuse_existing_outputs(planned, env.providers, imported.models, options);
  });
}

}  // namespace ctxgen
