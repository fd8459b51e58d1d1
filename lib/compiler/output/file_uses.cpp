#include "output/file_uses.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "ctxgen/base/file.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/partition/provider.h"

#include "output/output_files.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using How = FileUse::How;

constexpr const char* kForeignCopy = "the copy of a context binary of another provider";

/// What is next to the models and is found from there by a relative path. `role` as in FileUse.
std::vector<FileUse> files_beside(const PlannedOutputs& outputs, const ProviderList& providers,
                                  const CompileOptions& options) {
  std::vector<FileUse> uses;
  if (!outputs.others_are_files) return uses;
  const auto add = [&](fs::path path, std::string role) {
    if (!std::ranges::contains(uses, path, &FileUse::path))
      uses.push_back({How::kWritten, std::move(path), std::move(role)});
  };
  if (!options.embed)
    for (const Provider* provider : providers.all())
      if (provider->compiles())
        add(bin_path(outputs.models, options, provider->name()),
            !options.append.empty() ? option_name(options, &CompileOptions::append)
            : !options.bin.empty()  ? option_name(options, &CompileOptions::bin)
                                    : "the context binary");
  if (!options.external_initializers.empty())
    uses.push_back({How::kWritten,
                    outputs.models.front().parent_path() / options.external_initializers,
                    option_name(options, &CompileOptions::external_initializers)});
  return uses;
}

/// Foreign bins are copied to the same place next to the outputs, once if several models name one. One
/// that is there already is not.
void add_foreign_bins(std::span<const ImportedModel> models, const PlannedOutputs& outputs,
                      std::vector<FileUse>& uses) {
  std::set<std::pair<fs::path, fs::path>> copies;
  for (std::size_t m = 0; m < models.size(); ++m)
    for (const auto& [name, file] : models[m].foreign_bins) {
      uses.push_back({How::kRead, file.path, "a context binary of another provider"});
      const fs::path copy = outputs.models[m].parent_path() / name;
      std::error_code ignored;
      if (outputs.others_are_files && copies.emplace(copy, file.path).second &&
          !fs::equivalent(copy, file.path, ignored))
        uses.push_back({How::kWritten, copy, kForeignCopy});
    }
}

Status check_streams(const PlannedOutputs& outputs, const CompileOptions& options) {
  if (!outputs.models_are_files) return {};
  for (const fs::path& model : outputs.models)
    if (is_stream(model) && (!options.embed || !options.external_initializers.empty()))
      return fail(
          ErrorCode::kInvalidArgument,
          "\"{}\" is a device or a pipe, so no file can be next to it: {} keeps the context binary inside the model",
          model.string(), option_name(options, &CompileOptions::embed));
  return {};
}

}  // namespace

Status check_found_from(const fs::path& folder, const FileUse& use) {
  const fs::path relative = fs::absolute(use.path).lexically_normal().lexically_relative(
      fs::absolute(folder / "x").lexically_normal().parent_path());
  if (*relative.begin() == "..") return {};  // refused where the models' names for it are made
  std::error_code error;
  if (fs::weakly_canonical(fs::absolute(use.path), error) ==
      fs::weakly_canonical(fs::absolute(folder / "x"), error).parent_path() / relative)
    return {};  // no link on the way
  for (fs::path part = relative; !part.empty(); part = part.parent_path())
    if (const auto found = map_file_beneath(folder.empty() ? "." : folder, part.generic_string());
        !found && found.error().code == ErrorCode::kInvalidGraph)
      return fail(ErrorCode::kInvalidArgument, "{} \"{}\": a load would not find it: {}", use.role,
                  use.path.string(), found.error().message);
  return {};
}

std::vector<FileUse> file_uses(const std::vector<ModelInput>& inputs, const PlannedOutputs& outputs,
                               const ProviderList& providers,
                               std::span<const ImportedModel> imported,
                               const CompileOptions& options) {
  std::vector<FileUse> uses;
  if (outputs.models_are_files)
    for (const fs::path& model : outputs.models)
      uses.push_back({How::kWritten, model, "the context model"});
  std::ranges::move(files_beside(outputs, providers, options), std::back_inserter(uses));
  std::ranges::copy(options.other_files, std::back_inserter(uses));
  for (const ModelInput& input : inputs)
    if (!input.path.empty()) uses.push_back({How::kRead, input.path, "the model"});
  for (const ImportedModel& model : imported)
    for (const FileRead& file : model.external_files)
      uses.push_back({How::kRead, file.path, "external data"});
  add_foreign_bins(imported, outputs, uses);
  if (!options.like.empty())
    uses.push_back({How::kRead, options.like, option_name(options, &CompileOptions::like)});
  if (!options.cache_headers.empty())
    uses.push_back({How::kRead, options.cache_headers, "the header file of the remote cache"});
  const fs::path cache = options.cache_dir ? *options.cache_dir : cache_folder_from_environment();
  if (!cache.empty()) uses.push_back({How::kFolder, cache, "the cache"});
  return uses;
}

Status check_files(const std::vector<ModelInput>& inputs, const PlannedOutputs& outputs,
                   const ProviderList& providers, std::span<const ImportedModel> imported,
                   const CompileOptions& options) {
  CTXGEN_CHECK(check_streams(outputs, options));
  CTXGEN_CHECK(check_file_uses(file_uses(inputs, outputs, providers, imported, options)));
  for (const FileUse& use : files_beside(outputs, providers, options))
    CTXGEN_CHECK(check_found_from(outputs.models.front().parent_path(), use));
  if (!outputs.others_are_files) return {};
  // A model names these: no link of the user's leads what it brings to another place.
  for (std::size_t m = 0; m < imported.size(); ++m)
    for (const auto& [name, file] : imported[m].foreign_bins) {
      const fs::path folder = outputs.models[m].parent_path();
      CTXGEN_CHECK(check_found_from(folder, {How::kWritten, folder / name, kForeignCopy}));
    }
  return {};
}

Status refuse_existing_outputs(const PlannedOutputs& outputs, const ProviderList& providers,
                               std::span<const ImportedModel> imported,
                               const CompileOptions& options) {
  if (!options.no_clobber) return {};
  if (outputs.models_are_files)
    for (const fs::path& model : outputs.models) CTXGEN_CHECK(refuse_existing(model, options));
  std::vector<FileUse> beside = files_beside(outputs, providers, options);
  add_foreign_bins(imported, outputs, beside);
  for (const FileUse& use : beside)
    if (use.how == How::kWritten && use.path != options.append)
      CTXGEN_CHECK(refuse_existing(use.path, options));
  return {};
}

Status check_all_writable(const std::vector<FileUse>& uses, const fs::path& new_folder) {
  for (const FileUse& use : uses)
    if (use.how == How::kWritten && (new_folder.empty() || use.path.parent_path() != new_folder))
      CTXGEN_CHECK(check_writable(use.path));
  return {};
}

}  // namespace ctxgen
