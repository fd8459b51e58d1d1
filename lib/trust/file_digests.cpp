#include "ctxgen/trust/file_digests.h"

#include <algorithm>
#include <array>
#include <format>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "ctxgen/base/file.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kOfGit = {".git", ".gitattributes", ".github",
                                                    ".gitignore"};

auto io_error(const fs::path& path, const std::error_code& error) {
  return fail(ErrorCode::kIoError, "\"{}\": {}", path.string(), error.message());
}

fs::path absolute_normal(const fs::path& path) {
  fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

Result<Sha256Digest> digest_of_file(const fs::path& path, const DigestOptions& options) {
  constexpr std::size_t kPiece = std::size_t{64} << 20U;
  const Blob file = CTXGEN_TRY(map_file(path));
  Sha256 sha;
  for (std::size_t at = 0; at < file.bytes.size(); at += kPiece) {
    if (options.cancelled && options.cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
    sha.add(file.bytes.subspan(at, std::min(kPiece, file.bytes.size() - at)));
  }
  return sha.finish();
}

/// Files below `folder`, by name.
Result<std::map<std::string, fs::path>> files_below(const fs::path& folder,
                                                    const DigestOptions& options) {
  std::set<fs::path> ignored;
  for (const fs::path& path : options.ignored) ignored.insert(absolute_normal(path));
  for (const std::string_view name : kOfGit) ignored.insert(absolute_normal(folder / name));
  std::map<std::string, fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path& path = entry->path();
    const fs::file_status status = entry->symlink_status(error);
    if (error) break;
    if (ignored.contains(absolute_normal(path))) {
      if (fs::is_directory(status)) entry.disable_recursion_pending();
    } else if (fs::is_regular_file(status)) {
      files.emplace(path.lexically_relative(folder).generic_string(), path);
    } else if (!fs::is_directory(status)) {
      return fail(ErrorCode::kInvalidArgument,
                  "\"{}\" is a link or a device, which a signature does not vouch for",
                  path.string());
    }
  }
  if (error) return io_error(folder, error);
  return files;
}

std::string name_of(const fs::path& path) {
  const fs::path normal = absolute_normal(path);
  return normal.has_filename() ? normal.filename().string() : "model";
}

/// What both sides of a comparison are made of.
Result<std::map<std::string, fs::path>> files_of(const fs::path& path,
                                                 const DigestOptions& options) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status) || error)
    return fail(ErrorCode::kIoError, "\"{}\" is not there", path.string());
  if (fs::is_directory(status)) return files_below(path, options);
  if (!fs::is_regular_file(status))
    return fail(ErrorCode::kInvalidArgument, "\"{}\" must be a folder or a file", path.string());
  return std::map<std::string, fs::path>{{name_of(path), path}};
}

}  // namespace

Result<fs::path> signature_path(const fs::path& path, const fs::path& given) {
  if (!given.empty()) return given;
  std::error_code error;
  if (fs::is_directory(path, error)) return path / kSignatureName;
  return fail(ErrorCode::kInvalidArgument, "\"{}\" is not a folder: name the signature of a file",
              path.string());
}

Result<SignedSet> digest_files(const fs::path& path, const DigestOptions& options) {
  const auto files = CTXGEN_TRY(files_of(path, options));
  if (files.empty())
    return fail(ErrorCode::kInvalidArgument, "there is no file in \"{}\"", path.string());
  SignedSet set{.name = name_of(path), .files = {}, .ignored = {}};
  for (const auto& [name, file] : files)
    set.files.push_back({name, CTXGEN_TRY(digest_of_file(file, options))});
  for (const fs::path& ignored : options.ignored) {
    const fs::path relative = absolute_normal(ignored).lexically_relative(absolute_normal(path));
    if (!relative.empty() && *relative.begin() != "..")
      set.ignored.push_back(relative.generic_string());
  }
  std::ranges::sort(set.ignored);
  return set;
}

Status check_files(const fs::path& path, const SignedSet& set, const CheckFilesOptions& options) {
  DigestOptions digests = options.digests;
  std::error_code error;
  const bool folder = fs::is_directory(fs::symlink_status(path, error));
  for (const std::string& ignored : set.ignored)  // never one that is listed
    if (!std::ranges::contains(set.files, ignored, &SignedFile::name))
      digests.ignored.push_back(path / ignored);
  auto files = CTXGEN_TRY(files_of(path, digests));
  for (const SignedFile& file : set.files) {
    auto found = files.find(file.name);
    if (!folder && file.name == ".") found = files.begin();
    if (found == files.end())
      return fail(ErrorCode::kNotSatisfied, "\"{}\" was signed and is not in \"{}\"", file.name,
                  path.string());
    if (CTXGEN_TRY(digest_of_file(found->second, digests)) != file.digest)
      return fail(ErrorCode::kNotSatisfied, "\"{}\" is not the file that was signed",
                  found->second.string());
    files.erase(found);
  }
  if (!files.empty() && !options.ignore_unsigned)
    return fail(ErrorCode::kNotSatisfied, "\"{}\" was not signed", files.begin()->second.string());
  return {};
}

}  // namespace ctxgen
