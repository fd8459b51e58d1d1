#include "ctxgen/base/file_roles.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using How = FileUse::How;

/// A file as the system knows it.
struct Identity {
  fs::path real;  // absolute, without links as far as there is something
  std::optional<std::pair<dev_t, ino_t>> inode;  // of what is there
  bool shareable = false;                        // a character device or a socket
};

Identity identify(const fs::path& path) {
  Identity found;
  std::error_code error;
  found.real = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) found.real = fs::absolute(path, error).lexically_normal();
  if (!found.real.has_filename()) found.real = found.real.parent_path();  // "x/": of a new folder
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return found;
  found.inode.emplace(status.st_dev, status.st_ino);
  found.shareable = S_ISCHR(status.st_mode) || S_ISSOCK(status.st_mode);
  return found;
}

std::string described(const FileUse& use, const FileUse& other) {
  if (use.path == other.path) return use.role;
  return std::format("{} \"{}\"", use.role, use.path.string());
}

std::unexpected<Error> clash(const FileUse& written, const FileUse& other) {
  if (other.how == How::kWritten)
    return fail(ErrorCode::kInvalidArgument, "{} and {} \"{}\" would be written to one file",
                described(other, written), written.role, written.path.string());
  return fail(ErrorCode::kInvalidArgument, "{} would replace {} \"{}\"", described(written, other),
              other.role, other.path.string());
}

class Files {
 public:
  /// Written ones first: then every other one finds those that it meets.
  Status add_written(const FileUse& use) {
    Identity id = identify(use.path);
    if (id.shareable) return {};
    if (const FileUse* other = find(id)) return clash(use, *other);
    if (id.inode) by_inode_.emplace(*id.inode, &use);
    by_path_.emplace(id.real, &use);
    written_.emplace_back(&use, std::move(id.real));
    return {};
  }
  [[nodiscard]] Status check_read(const FileUse& use) const {
    const Identity id = identify(use.path);
    if (id.shareable) return {};
    if (const FileUse* written = find(id)) return clash(*written, use);
    return check_folders(use, id.real.parent_path());
  }
  [[nodiscard]] Status check_folder(const FileUse& use) const {
    return check_folders(use, identify(use.path).real);
  }
  [[nodiscard]] Status check_folders_of_written() const {
    for (const auto& [use, real] : written_) CTXGEN_CHECK(check_folders(*use, real.parent_path()));
    return {};
  }

 private:
  [[nodiscard]] const FileUse* find(const Identity& id) const {
    if (id.inode)
      if (const auto found = by_inode_.find(*id.inode); found != by_inode_.end())
        return found->second;
    const auto found = by_path_.find(id.real);
    return found == by_path_.end() ? nullptr : found->second;
  }
  /// No file is written where `folder`, or one that contains it, has to be.
  [[nodiscard]] Status check_folders(const FileUse& use, fs::path folder) const {
    for (; folder.has_relative_path(); folder = folder.parent_path())
      if (const auto found = by_path_.find(folder); found != by_path_.end())
        return fail(ErrorCode::kInvalidArgument,
                    "{} \"{}\" would be where {} needs a folder: \"{}\"", found->second->role,
                    found->second->path.string(), use.role, use.path.string());
    return {};
  }

  std::map<fs::path, const FileUse*> by_path_;
  std::map<std::pair<dev_t, ino_t>, const FileUse*> by_inode_;
  std::vector<std::pair<const FileUse*, fs::path>> written_;
};

}  // namespace

Status check_file_uses(const std::vector<FileUse>& uses) {
  if (!std::ranges::contains(uses, How::kWritten, &FileUse::how)) return {};
  Files files;
  for (const FileUse& use : uses)
    if (use.how == How::kWritten) CTXGEN_CHECK(files.add_written(use));
  CTXGEN_CHECK(files.check_folders_of_written());
  for (const FileUse& use : uses) {
    if (use.how == How::kRead) CTXGEN_CHECK(files.check_read(use));
    if (use.how == How::kFolder) CTXGEN_CHECK(files.check_folder(use));
  }
  return {};
}

}  // namespace ctxgen
