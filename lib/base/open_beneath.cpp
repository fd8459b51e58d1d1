#include "open_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <climits>

namespace ctxgen {
namespace {

// O_NONBLOCK: opening a FIFO without a writer would hang; regular files do not mind.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
constexpr int kMaxLinks = 40;  // the kernel's own limit

/// The outcome of one attempt: a descriptor, an errno, or "leaves the folder" (EXDEV, openat2's).
struct Attempt {
  UniqueFd fd;
  int error = 0;
};

Attempt failed(int error) { return Attempt{UniqueFd(), error}; }

Attempt open_at(int folder, const char* name, int flags) {
  for (;;) {
    const int fd = ::openat(folder, name, flags);
    if (fd >= 0) return Attempt{UniqueFd(fd), 0};
    if (errno != EINTR) return failed(errno);
  }
}

Attempt open_with_kernel(int folder, const std::string& relative) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(kOpenFlags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  // EAGAIN: something was renamed meanwhile, and the kernel could not be sure; it asks for retries.
  for (int tries = 0;; ++tries) {
    const long fd = ::syscall(SYS_openat2, folder, relative.c_str(), &how, sizeof(how));
    if (fd >= 0) return Attempt{UniqueFd(static_cast<int>(fd)), 0};
    if (errno == EINTR || (errno == EAGAIN && tries < 100)) continue;
    return failed(errno);
  }
}

std::deque<std::string> split(std::string_view path) {
  std::deque<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    if (slash != 0) parts.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

/// Walks one component at a time and follows links itself, so that none is followed unseen.
class Walk {
 public:
  explicit Walk(int folder) : folder_(folder) {}

  Attempt open(std::string_view relative) {
    parts_ = split(relative);
    while (!parts_.empty()) {
      const std::string part = std::move(parts_.front());
      parts_.pop_front();
      if (part == ".") continue;
      const int error = part == ".." ? leave() : enter(part);
      if (error != 0) return failed(error);
      if (file_.valid()) return Attempt{std::move(file_), 0};
    }
    return failed(EISDIR);
  }

 private:
  [[nodiscard]] int here() const { return entered_.empty() ? folder_ : entered_.back().get(); }

  int leave() {  // only links bring ".." here
    if (entered_.empty()) return EXDEV;
    entered_.pop_back();
    return 0;
  }

  int enter(const std::string& part) {
    Attempt found = open_at(here(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (found.error != 0) return found.error;
    struct stat status{};
    if (::fstat(found.fd.get(), &status) != 0) return errno;
    if (S_ISLNK(status.st_mode)) return follow(found.fd.get());
    if (S_ISDIR(status.st_mode)) {
      entered_.push_back(std::move(found.fd));
      return 0;
    }
    if (!parts_.empty()) return ENOTDIR;
    // O_NOFOLLOW again: the name may have become a link since.
    Attempt file = open_at(here(), part.c_str(), kOpenFlags | O_NOFOLLOW);
    file_ = std::move(file.fd);
    return file.error;
  }

  int follow(int link) {
    if (++links_ > kMaxLinks) return ELOOP;
    std::array<char, PATH_MAX> text{};
    const ssize_t length = ::readlinkat(link, "", text.data(), text.size());
    if (length < 0) return errno;
    const std::string_view to(text.data(), static_cast<std::size_t>(length));
    if (to.starts_with('/')) return EXDEV;  // as openat2 sees it, even if it points back inside
    std::deque<std::string> inserted = split(to);
    parts_.insert(parts_.begin(), inserted.begin(), inserted.end());
    return 0;
  }

  int folder_;
  std::vector<UniqueFd> entered_;  // the folders from `folder_` down to here
  std::deque<std::string> parts_;  // still to go
  UniqueFd file_;
  int links_ = 0;
};

Status check_relative(std::string_view relative) {
  if (relative.empty()) return fail(ErrorCode::kInvalidGraph, "the file's path is empty");
  if (relative.find('\0') != std::string_view::npos)
    return fail(ErrorCode::kInvalidGraph, "the file's path holds a NUL byte");
  if (relative.starts_with('/'))
    return fail(ErrorCode::kInvalidGraph,
                "path \"{}\" is absolute, expected one relative to the model's folder", relative);
  for (const std::string& part : split(relative))
    if (part == "..")
      return fail(ErrorCode::kInvalidGraph,
                  "path \"{}\" holds \"..\", expected one below the "
                  "model's folder",
                  relative);
  return {};
}

}  // namespace

Result<UniqueFd> open_beneath(const std::filesystem::path& folder, std::string_view relative,
                              BeneathMethod method) {
  CTXGEN_CHECK(check_relative(relative));
  const std::string base = folder.empty() ? "." : folder.string();
  Attempt root = open_at(AT_FDCWD, base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root.error != 0)
    return fail(ErrorCode::kIoError, "cannot open folder \"{}\": {}", base,
                std::strerror(root.error));
  Attempt found;
  if (method != BeneathMethod::kStepwise)
    found = open_with_kernel(root.fd.get(), std::string(relative));
  const bool unavailable = found.error == ENOSYS || found.error == EPERM;
  if (method == BeneathMethod::kStepwise || (method == BeneathMethod::kAuto && unavailable))
    found = Walk(root.fd.get()).open(relative);
  if (found.error == EXDEV)
    return fail(ErrorCode::kInvalidGraph, "path \"{}\" leaves folder \"{}\" through a link",
                relative, base);
  if (found.error != 0)
    return fail(ErrorCode::kIoError, "cannot open \"{}\": {}",
                (std::filesystem::path(base) / relative).string(), std::strerror(found.error));
  return std::move(found.fd);
}

}  // namespace ctxgen
