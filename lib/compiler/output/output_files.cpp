#include "output/output_files.h"

#include <algorithm>

#include "ctxgen/compiler/option_table.h"

#include "output/output_names.h"
#include "stages/rewrite_models.h"

namespace ctxgen {
namespace {

/// Models in other folders would not find the file.
Status check_external_path(const std::filesystem::path& path,
                           const std::vector<std::filesystem::path>& outputs) {
  for (const auto& output : outputs)
    if (output.parent_path() != path.parent_path())
      return fail(ErrorCode::kInvalidArgument,
                  "models that share external initializers must be written to one folder: \"{}\" "
                  "and \"{}\"",
                  path.parent_path().string(), output.parent_path().string());
  return {};
}

}  // namespace

Status check_file_options(const std::vector<ModelInput>& inputs,
                          const std::vector<std::filesystem::path>& outputs,
                          const CompileOptions& options) {
  if (inputs.empty() || inputs.size() != outputs.size())
    return fail(ErrorCode::kInvalidArgument, "{} models and {} outputs", inputs.size(),
                outputs.size());
  CTXGEN_CHECK(check_options(options, inputs.size()));
  if (!options.context_file_path.empty() && options.context_file_path != outputs.front())
    return fail(ErrorCode::kInvalidArgument,
                "ep.context_file_path \"{}\" names another file than the output \"{}\"",
                options.context_file_path.string(), outputs.front().string());
  for (const auto& output : outputs)
    if (output.filename().empty())
      return fail(ErrorCode::kInvalidArgument, "output \"{}\" has no file name", output.string());
  return {};
}

std::filesystem::path bin_path(const std::vector<std::filesystem::path>& outputs,
                               const CompileOptions& options, std::string_view provider) {
  if (!options.bin.empty()) return options.bin;
  return outputs.front().parent_path() /
         default_bin_name(outputs.front().filename().string(), provider);
}

Result<std::string> shared_bin_reference(const std::vector<std::filesystem::path>& outputs,
                                         const std::filesystem::path& bin) {
  const auto folder = outputs.front().parent_path();
  for (const auto& output : outputs)
    if (output.parent_path() != folder)
      return fail(ErrorCode::kInvalidArgument,
                  "models that share a bin must be written to one folder: \"{}\" and \"{}\"",
                  folder.string(), output.parent_path().string());
  return bin_reference(folder, bin);
}

Status refuse_existing(const std::filesystem::path& path, const CompileOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    return fail(ErrorCode::kInvalidArgument, "\"{}\" exists already, and {} is given",
                path.string(), option_name(options, &CompileOptions::no_clobber));
  return {};
}

namespace {

/// The bins, each once.
Status add_bins(std::vector<OutputFile>& files, BuiltModels& built, const CompileEnv& env) {
  for (std::size_t p = 0; p < built.contents.size(); ++p) {
    const auto& content = built.contents[p];
    if (!content || env.options.embed) continue;
    const auto path = env.bin_path(env.providers.all()[p]->name());
    if (std::ranges::contains(files, path, &OutputFile::path))
      return fail(ErrorCode::kInvalidArgument, "two providers would write the bin \"{}\"",
                  path.string());
    CTXGEN_CHECK(add_bin_report(built.report, path.filename().string(), *content));
    files.push_back({path, FileReport::Kind::kBin, built.report.bins.back().bytes,
                     [&content](const ByteSink& sink) { return write_context(*content, sink); }});
  }
  return {};
}

/// Bins of other providers that the models name, where they are not in their place already.
void add_foreign_bins(std::vector<OutputFile>& files, const PreparedModels& prepared,
                      const CompileEnv& env) {
  for (std::size_t m = 0; m < prepared.models.size(); ++m)
    for (const auto& [name, file] : prepared.models[m].foreign_bins) {
      const auto path = env.outputs[m].parent_path() / name;
      std::error_code ignored;
      if (std::filesystem::equivalent(path, file.path, ignored)) continue;
      if (std::ranges::contains(files, path, &OutputFile::path)) continue;  // of a model before
      files.push_back({path, FileReport::Kind::kForeignBin, file.bytes.bytes.size(),
                       [&file](const ByteSink& sink) { return sink(file.bytes.bytes); }});
    }
}

}  // namespace

Result<std::vector<OutputFile>> plan_files(const PreparedModels& prepared, BuiltModels& built,
                                           const RewrittenModels& rewritten,
                                           const CompileEnv& env) {
  std::vector<OutputFile> files;
  CTXGEN_CHECK(add_bins(files, built, env));
  if (!env.options.external_initializers.empty()) {
    const auto path = env.outputs.front().parent_path() / env.options.external_initializers;
    CTXGEN_CHECK(check_external_path(path, env.outputs));
    files.push_back(
        {path, FileReport::Kind::kExternalInitializers, rewritten.external->size(),
         [&rewritten](const ByteSink& sink) { return rewritten.external->write(sink); }});
  }
  add_foreign_bins(files, prepared, env);
  for (std::size_t m = 0; m < env.outputs.size(); ++m) {
    built.report.models[m].output_name = env.outputs[m].filename().string();
    files.push_back({env.outputs[m], FileReport::Kind::kModel, built.report.models[m].model_bytes,
                     [&prepared, &rewritten, m](const ByteSink& sink) {
                       return write_model(prepared.models[m].model, rewritten.rewrites[m], sink);
                     }});
  }
  return files;
}

}  // namespace ctxgen
