// AtomicFile of file.h, and what cleans up after one that was interrupted.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>

#include "ctxgen/base/file.h"

#include "unique_fd.h"
#include "unnamed_file.h"
#include "write_all.h"
#include "write_target.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

// ---- names: ".<name>.ctxgen-<pid>-<n>.tmp" ----

constexpr std::string_view kTemporaryMark = ".ctxgen-";
constexpr std::string_view kTemporarySuffix = ".tmp";

std::string temporary_prefix(const fs::path& target) {
  constexpr std::size_t kKeptLength = 200;  // NAME_MAX is 255, and the numbers want room
  return "." + target.filename().string().substr(0, kKeptLength) + std::string(kTemporaryMark);
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

/// The process id in a temporary's name, or -1 if the name is not one of `prefix`.
pid_t process_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kTemporarySuffix)) return -1;
  name.remove_prefix(prefix.size());
  if (name.size() <= kTemporarySuffix.size()) return -1;
  name.remove_suffix(kTemporarySuffix.size());
  pid_t process = -1;
  const char* const end = name.data() + name.size();
  const auto [dash, error] = std::from_chars(name.data(), end, process);
  if (error != std::errc() || dash == end || *dash != '-' || process <= 0) return -1;
  std::uint64_t number = 0;
  const auto [rest, number_error] = std::from_chars(dash + 1, end, number);
  return number_error == std::errc() && rest == end ? process : -1;
}

// ---- the registry of live temporaries ----

// Slots hold heap strings. Whoever exchanges a pointer for nullptr owns the string: the file that
// leaves the registry frees it; the signal handler may not call free, and puts it aside. So the
// handler never looks at freed memory, even while another thread commits.
std::array<std::atomic<const char*>, 4096> live_temporaries{};
std::array<std::atomic<const char*>, live_temporaries.size()> unlinked_temporaries{};
static_assert(std::atomic<const char*>::is_always_lock_free);

class Registration {
 public:
  Registration() = default;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() { leave(); }

  [[nodiscard]] bool enter(const std::string& path) {
    auto copy = std::make_unique<char[]>(path.size() + 1);
    std::memcpy(copy.get(), path.c_str(), path.size() + 1);
    for (auto& slot : live_temporaries) {
      const char* empty = nullptr;
      if (!slot.compare_exchange_strong(empty, copy.get())) continue;
      slot_ = &slot;
      static_cast<void>(copy.release());
      return true;
    }
    return false;
  }
  void leave() {
    if (slot_ != nullptr) delete[] slot_->exchange(nullptr);
    slot_ = nullptr;
  }

 private:
  std::atomic<const char*>* slot_ = nullptr;
};

// ---- small system calls ----

int flush_to_disk(int fd) {
  while (::fsync(fd) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

/// So that the rename survives a power cut; some file systems refuse it, and that is not an error.
void flush_folder(const fs::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) static_cast<void>(flush_to_disk(fd.get()));
}

}  // namespace

struct AtomicFile::Impl {
  fs::path target;       // as given, for messages
  fs::path destination;  // absolute: a later chdir changes nothing
  fs::path folder;       // of the destination
  fs::path temporary;    // absolute
  bool direct = false;   // no temporary: `fd` is the device, pipe or descriptor itself
  UniqueFd fd;
  UniqueFd lock;  // after flush(): keeps the lock that create() took
  std::uint64_t size = 0;
  bool present = false;  // the temporary exists
  Registration registration;

  ~Impl() {
    fd.reset();
    if (present) ::unlink(temporary.c_str());
  }
  Status close(bool to_disk);
  Status rename();  // over the target
};

namespace {

/// A new file for `destination`, its path and its place in the registry.
struct Temporary {
  fs::path path;
  UniqueFd fd;
};

/// Takes a name that is not in use, and registers it before the file exists: a signal between the two
/// finds either nothing to unlink or the file. `target` is for messages.
Result<Temporary> open_temporary(const fs::path& destination, const fs::path& target,
                                 Registration& registration) {
  static std::atomic<std::uint64_t> counter{0};
  for (;;) {
    Temporary made;
    made.path =
        folder_of(destination) / std::format("{}{}-{}{}", temporary_prefix(destination), ::getpid(),
                                             counter.fetch_add(1), kTemporarySuffix);
    if (!registration.enter(made.path.string()))
      return fail(ErrorCode::kResourceLimit,
                  "cannot write \"{}\": more than {} files are being "
                  "written",
                  target.string(), live_temporaries.size());
    made.fd = UniqueFd(
        ::open(made.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (made.fd.valid()) return made;
    const int error = errno;
    registration.leave();
    if (error != EEXIST && error != EINTR)
      return fail(ErrorCode::kIoError, "cannot write \"{}\": {}", target.string(),
                  std::strerror(error));
  }
}

}  // namespace

AtomicFile::AtomicFile() : impl_(std::make_unique<Impl>()) {}
AtomicFile::AtomicFile(AtomicFile&&) noexcept = default;
AtomicFile& AtomicFile::operator=(AtomicFile&&) noexcept = default;
AtomicFile::~AtomicFile() = default;

Result<AtomicFile> AtomicFile::create(const fs::path& target, Links links) {
  const WriteTarget found = CTXGEN_TRY(find_target(target, links));
  AtomicFile file;
  file.impl_->target = target;
  if (found.kind != WriteTarget::Kind::kFile) {
    file.impl_->fd = CTXGEN_TRY(open_stream(found));
    file.impl_->direct = true;
    return file;
  }
  file.impl_->destination = found.path;
  file.impl_->folder = folder_of(file.impl_->destination);
  Temporary made =
      CTXGEN_TRY(open_temporary(file.impl_->destination, target, file.impl_->registration));
  file.impl_->temporary = std::move(made.path);
  file.impl_->fd = std::move(made.fd);
  file.impl_->present = true;
  // remove_stale_temporaries() takes a locked file as live: a process id says nothing about a
  // process in another container that shares the folder. A file system without locks does without.
  static_cast<void>(::flock(file.impl_->fd.get(), LOCK_EX | LOCK_NB));
  return file;
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  CTXGEN_ASSERT(impl_->fd.valid());
  const int error = write_all(impl_->fd.get(), bytes);
  if (error != 0)
    return fail(ErrorCode::kIoError, "cannot write {} bytes to \"{}\": {}", bytes.size(),
                impl_->target.string(), std::strerror(error));
  impl_->size += bytes.size();
  return {};
}

Status AtomicFile::write_zeros(std::uint64_t count) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (count > 0) {
    const std::uint64_t part = std::min<std::uint64_t>(count, kZeros.size());
    CTXGEN_CHECK(write(std::span(kZeros).first(part)));
    count -= part;
  }
  return {};
}

std::uint64_t AtomicFile::size() const { return impl_->size; }

Status AtomicFile::Impl::close(bool to_disk) {
  if (!fd.valid()) return {};
  int error = 0;
  if (!direct) {
    lock = UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    error = !lock.valid() ? errno : to_disk ? flush_to_disk(fd.get()) : 0;
  }
  // close(2) reports late write errors of network file systems.
  if (::close(fd.release()) != 0 && errno != EINTR && error == 0) error = errno;
  if (error == 0) return {};
  return fail(ErrorCode::kIoError, "cannot write \"{}\": {}", target.string(),
              std::strerror(error));
}

Status AtomicFile::Impl::rename() {
  if (direct) return {};
  CTXGEN_ASSERT(present);
  if (::rename(temporary.c_str(), destination.c_str()) != 0)
    return fail(ErrorCode::kIoError, "cannot write \"{}\": {}", target.string(),
                std::strerror(errno));
  present = false;
  lock.reset();
  registration.leave();
  return {};
}

Status AtomicFile::flush() { return impl_->close(/*to_disk=*/true); }

Status AtomicFile::commit() {
  CTXGEN_CHECK(flush());
  CTXGEN_CHECK(impl_->rename());
  if (!impl_->direct)
    flush_folder(impl_->folder);  // nothing after rename() needs memory: what is renamed is done
  return {};
}

Status AtomicFile::commit_unflushed() {
  CTXGEN_CHECK(impl_->close(/*to_disk=*/false));
  return impl_->rename();
}

namespace {

bool is_stale(const fs::path& temporary, pid_t process) {
  const bool own = process == ::getpid();  // a new process may get a dead one's id
  if (!own && (::kill(process, 0) == 0 || errno != ESRCH)) return false;
  const UniqueFd fd(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return false;
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 || (!own && errno != EWOULDBLOCK);
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

Result<UniqueFd> open_unnamed_file(const fs::path& beside, bool tmpfile) {
  while (tmpfile) {
    UniqueFd fd(::open(folder_of(beside).c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
    if (fd.valid()) return fd;
    if (errno == EINTR) continue;
    // What kernels and file systems that do not know O_TMPFILE say.
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) break;
    return fail(ErrorCode::kIoError, "cannot write \"{}\": a file for its weights next to it: {}",
                beside.string(), std::strerror(errno));
  }
  Registration registration;
  Temporary named = CTXGEN_TRY(open_temporary(beside, beside, registration));
  ::unlink(named.path.c_str());
  return std::move(named.fd);
}

void remove_stale_temporaries(const fs::path& target) {
  const auto found = find_target(target, Links::kFollow);
  if (!found || found->kind != WriteTarget::Kind::kFile) return;
  const std::string prefix = temporary_prefix(found->path);
  const fs::path folder = folder_of(found->path);
  // Not a directory_iterator: libstdc++'s ends the process where memory runs out (noexcept).
  const std::unique_ptr<DIR, CloseFolder> listing(::opendir(folder.c_str()));
  if (listing == nullptr) return;
  while (const dirent* entry = ::readdir(listing.get())) {
    const pid_t process = process_of(entry->d_name, prefix);
    if (process <= 0) continue;
    const fs::path path = folder / entry->d_name;
    if (is_stale(path, process)) ::unlink(path.c_str());
  }
}

void remove_if_stale(const fs::path& temporary) {
  const std::string name = temporary.filename().string();
  const std::size_t mark = name.rfind(kTemporaryMark);
  if (!name.starts_with('.') || mark == std::string::npos) return;
  const pid_t process = process_of(name, name.substr(0, mark + kTemporaryMark.size()));
  if (process > 0 && is_stale(temporary, process)) ::unlink(temporary.c_str());
}

void unlink_live_temporaries() noexcept {
  const int saved = errno;
  for (std::size_t i = 0; i < live_temporaries.size(); ++i) {
    const char* const path = live_temporaries[i].exchange(nullptr);
    if (path == nullptr) continue;
    ::unlink(path);
    unlinked_temporaries[i] = path;
  }
  errno = saved;
}

}  // namespace ctxgen
