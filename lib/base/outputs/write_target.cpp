#include "outputs/write_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>

#include "ctxgen/base/file_roles.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> cannot_write(const fs::path& target, std::string_view why) {
  return fail(ErrorCode::kIoError, "cannot write \"{}\": {}", target.string(), why);
}

/// The number of a descriptor of this process that `link` in `folder` names: /proc keeps links there
/// that no path can replace (a pipe, a file that was deleted).
std::optional<int> own_descriptor(const fs::path& folder, const fs::path& link) {
  const std::string own = "/proc/" + std::to_string(::getpid());
  const std::string where = folder.string(), name = link.string();
  const bool is_own =
      where == own + "/fd" || (where.starts_with(own + "/task/") && where.ends_with("/fd"));
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (!is_own || error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

/// Follows the links that a path ends in, one by one.
Result<WriteTarget> follow_links(const fs::path& target) {
  WriteTarget found;
  found.path = fs::absolute(target);
  constexpr int kMaxLinks = 40;  // the kernel's own limit
  for (int links = 0; links <= kMaxLinks; ++links) {
    std::error_code error;
    const fs::path folder = fs::canonical(found.path.parent_path(), error);
    if (error) return cannot_write(target, error.message());
    const fs::path name = found.path.filename();
    found.path = folder / name;
    if (const auto number = own_descriptor(folder, name)) {
      found.kind = WriteTarget::Kind::kDescriptor;
      found.descriptor = *number;
      return found;
    }
    const fs::path next = fs::read_symlink(found.path, error);
    if (error == std::errc::invalid_argument) return found;  // it is not a link
    if (error) return cannot_write(target, error.message());
    found.path = folder / next;
  }
  return cannot_write(target, std::strerror(ELOOP));
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder, expected a file";
  if (S_ISBLK(mode)) return "it is a block device, expected a file";
  return "it is a socket, expected a file";
}

bool is_link(const fs::path& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

}  // namespace

Result<WriteTarget> find_target(const fs::path& target, Links links) {
  if (!target.has_filename()) return cannot_write(target, "it names no file");
  WriteTarget found;
  std::error_code error;
  found.path = fs::absolute(target, error);
  if (error) return cannot_write(target, error.message());
  struct stat status{};
  // The kernel follows links first, with its own rules about foreign ones in folders like /tmp.
  const auto look = links == Links::kFollow ? ::stat : ::lstat;
  if (look(target.c_str(), &status) != 0) {
    const int reason = errno;
    if (reason != ENOENT) return cannot_write(target, std::strerror(reason));
    if (links == Links::kFollow && is_link(target))
      return cannot_write(target, "it is a link to a file that is not there");
    return found;
  }
  if (S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode) || S_ISSOCK(status.st_mode))
    return cannot_write(target, kind_of(status.st_mode));
  if (links == Links::kFollow && is_link(target)) {
    found = CTXGEN_TRY(follow_links(target));
    struct stat there{};
    if (found.kind == WriteTarget::Kind::kFile &&
        (::lstat(found.path.c_str(), &there) != 0 || there.st_dev != status.st_dev ||
         there.st_ino != status.st_ino))
      return cannot_write(target, "the link was changed meanwhile");
  }
  if (found.kind == WriteTarget::Kind::kFile &&
      (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)))
    found.kind = WriteTarget::Kind::kStream;
  return found;
}

Result<UniqueFd> open_stream(const WriteTarget& target) {
  UniqueFd fd;
  if (target.kind == WriteTarget::Kind::kDescriptor) {
    fd = UniqueFd(::fcntl(target.descriptor, F_DUPFD_CLOEXEC, 0));
    if (fd.valid() && (::fcntl(fd.get(), F_GETFL) & O_ACCMODE) == O_RDONLY)
      return cannot_write(target.path, "it is open for reading only");
  } else {
    do {
      fd = UniqueFd(::open(target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    } while (!fd.valid() && errno == EINTR);
  }
  if (!fd.valid()) return cannot_write(target.path, std::strerror(errno));
  return fd;
}

Status check_writable(const fs::path& target) {
  const WriteTarget found = CTXGEN_TRY(find_target(target, Links::kFollow));
  if (found.kind == WriteTarget::Kind::kDescriptor) return {};
  const bool stream = found.kind == WriteTarget::Kind::kStream;
  const fs::path asked = stream ? found.path : found.path.parent_path();
  struct stat status{};
  if (::stat(asked.c_str(), &status) != 0) return cannot_write(target, std::strerror(errno));
  if (!stream && !S_ISDIR(status.st_mode)) return cannot_write(target, std::strerror(ENOTDIR));
  if (::faccessat(AT_FDCWD, asked.c_str(), stream ? W_OK : W_OK | X_OK, AT_EACCESS) != 0)
    return cannot_write(target, std::strerror(errno));
  return {};
}

bool is_stream(const fs::path& target) {
  const auto found = find_target(target, Links::kFollow);
  return found && found->kind != WriteTarget::Kind::kFile;
}

bool is_standard_output(const fs::path& target) {
  const auto found = find_target(target, Links::kFollow);
  return found && found->kind == WriteTarget::Kind::kDescriptor &&
         found->descriptor == STDOUT_FILENO;
}

}  // namespace ctxgen
