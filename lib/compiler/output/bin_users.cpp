#include "output/bin_users.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <format>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "ctxgen/base/file.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/onnx_lite/list_contexts.h"
#include "ctxgen/partition/provider.h"

#include "output/output_files.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxModels = 1000;
constexpr std::size_t kMaxEntries = 100'000;  // of a folder, whatever they are

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// The .onnx files of the folders, in order.
std::vector<fs::path> models_in(const std::set<fs::path>& folders) {
  std::vector<fs::path> models;
  for (const fs::path& folder : folders) {
    // Not a directory_iterator: libstdc++'s ends the process where memory runs out (noexcept).
    const std::unique_ptr<DIR, CloseFolder> listing(::opendir(folder.c_str()));
    std::size_t entries = 0;
    while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
      if (++entries > kMaxEntries || models.size() == kMaxModels) break;
      if (std::string_view(entry->d_name).ends_with(".onnx"))
        models.push_back(folder / entry->d_name);
    }
  }
  std::ranges::sort(models);
  return models;
}

using Inode = std::pair<dev_t, ino_t>;

/// Nothing if there is no file.
std::optional<Inode> inode_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Inode(status.st_dev, status.st_ino);
}

/// "hash=<32 hex digits>" of EPContext `notes`; "" if there is none.
std::string hash_in(std::string_view notes) {
  constexpr std::string_view kKey = "hash=";
  while (!notes.empty()) {
    const std::string_view part = notes.substr(0, notes.find(';'));
    if (part.starts_with(kKey)) return std::string(part.substr(kKey.size()));
    notes.remove_prefix(std::min(notes.size(), part.size() + 1));
  }
  return "";
}

bool names_bin(const EpContextAttributes& node, const fs::path& model, const fs::path& bin) {
  std::error_code ignored;
  return node.main_context == 1 && node.embed_mode == 0 && !node.ep_cache_context.empty() &&
         fs::equivalent(folder_of(model) / node.ep_cache_context, bin, ignored);
}

}  // namespace

std::optional<BinUsers::User> BinUsers::user_of(const fs::path& model, const fs::path& bin,
                                                const ContextReader& reader) {
  const auto file = map_file(model);
  if (!file) return std::nullopt;
  const auto listed = list_contexts(*file);
  if (!listed) return std::nullopt;
  const std::string& source = reader.info().source;
  User user{model, {}};
  bool names = false;
  for (const auto& [where, node, payload] : listed->nodes) {
    if (node.source != source) continue;
    names = names || names_bin(node, model, bin);
    const std::string hash = hash_in(node.notes);
    const auto program = reader.find(node.partition_name);
    if (!program || (!hash.empty() && reader.program_hash(*program).hex() != hash))
      return std::nullopt;  // it does not load as it is
    user.programs.push_back({node.partition_name, hash});
  }
  if (!names) return std::nullopt;
  return user;
}

BinUsers BinUsers::find(const fs::path& bin, const std::vector<fs::path>& outputs) {
  BinUsers found;
  found.bin_ = bin;
  std::error_code ignored;
  if (!fs::is_regular_file(bin, ignored)) return found;
  std::set<fs::path> folders{folder_of(bin)};
  for (const fs::path& output : outputs) folders.insert(folder_of(output));
  std::set<std::optional<Inode>> written;
  for (const fs::path& output : outputs) written.insert(inode_of(output));
  std::vector<fs::path> models = models_in(folders);
  std::erase_if(models, [&](const fs::path& model) { return written.contains(inode_of(model)); });
  if (models.empty()) return found;
  const auto file = map_file(bin);
  if (!file) return found;
  const auto reader = ContextReader::open(*file, bin.filename().string(), VerifyBlobs::kNever);
  if (!reader) return found;
  for (const fs::path& model : models)
    if (auto user = user_of(model, bin, *reader)) found.users_.push_back(std::move(*user));
  return found;
}

Status BinUsers::check(const ContextContent& content, const CompileOptions& options) const {
  const auto has = [&](const NeededProgram& needed) {
    const auto program = std::ranges::find(content.programs, needed.name, &Program::name);
    return program != content.programs.end() &&
           (needed.hash.empty() || hash_program(*program, [&](BlobRef blob) {
                                     return content.blob_hashes[blob.bin_index().value];
                                   }).hex() == needed.hash);
  };
  std::string models;
  std::size_t count = 0;
  for (const User& user : users_) {
    if (std::ranges::all_of(user.programs, has)) continue;
    if (++count <= 3)
      models += std::format("{}\"{}\"", count == 1 ? "" : ", ", user.model.string());
  }
  if (count == 0) return {};
  if (count > 3) models += std::format(" and {} more", count - 3);
  return fail(
      ErrorCode::kNotSatisfied,
      "the context binary \"{}\" is used by {}, which would no longer load: add to it ({}), compile all its models together, or replace it ({})",
      bin_.string(), models, option_name(options, &CompileOptions::append),
      option_name(options, &CompileOptions::force));
}

std::vector<BinUsers> find_bin_users(const ProviderList& providers,
                                     const std::vector<fs::path>& outputs,
                                     const std::vector<fs::path>& models,
                                     const CompileOptions& options) {
  std::vector<BinUsers> users;
  const bool replaces = !options.force && !options.embed && options.append.empty();
  for (const Provider* provider : providers.all())
    users.push_back(replaces && provider->compiles()
                        ? BinUsers::find(bin_path(outputs, options, provider->name()), models)
                        : BinUsers());
  return users;
}

Status check_bin_users(std::span<const BinUsers> users,
                       std::span<const std::optional<ContextContent>> contents,
                       const CompileOptions& options) {
  for (std::size_t p = 0; p < users.size() && p < contents.size(); ++p)
    if (contents[p]) CTXGEN_CHECK(users[p].check(*contents[p], options));
  return {};
}

}  // namespace ctxgen
