#include "ctxgen/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "unique_fd.h"

namespace ctxgen {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kBetweenTries{20};

enum class Attempt { kLocked, kHeld, kNoLocks };

std::unexpected<Error> io_error(const std::filesystem::path& path) {
  return fail(ErrorCode::kIoError, "cannot lock \"{}\": {}", path.string(), std::strerror(errno));
}

/// What NFS (which wants a file open for writing) and file systems without locks answer.
bool has_no_locks(int error) {
  return error == EBADF || error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP;
}

/// kHeld, too, where the file was replaced before it was ours: then the one that is there now has to be locked.
/// Out  fd: the open file; closing unlocks.
Result<Attempt> try_lock(const std::filesystem::path& path, UniqueFd& fd) {
  fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return io_error(path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return Attempt::kHeld;
    if (has_no_locks(errno)) return Attempt::kNoLocks;
    return io_error(path);
  }
  struct stat ours{}, there{};
  if (::fstat(fd.get(), &ours) != 0 || ::stat(path.c_str(), &there) != 0) return io_error(path);
  const bool same = ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  return same ? Attempt::kLocked : Attempt::kHeld;
}

}  // namespace

Result<FileLock> lock_path(const std::filesystem::path& path, const LockWait& wait) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    UniqueFd fd;
    const Attempt attempt = CTXGEN_TRY(try_lock(path, fd));
    if (attempt == Attempt::kNoLocks) return nullptr;
    if (attempt == Attempt::kLocked) return std::make_shared<const UniqueFd>(std::move(fd));
    if (wait.cancelled && wait.cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
    if (wait.most && std::chrono::steady_clock::now() - start >= *wait.most)
      return fail(ErrorCode::kIoError,
                  "cannot lock \"{}\": another process has had the lock for {} ms", path.string(),
                  wait.most->count());
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace ctxgen
