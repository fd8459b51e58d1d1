#include "ctxgen/base/atomic_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "outputs/temporaries.h"
#include "unique_fd.h"
#include "write_all.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> cannot_write(const fs::path& path, int error) {
  return fail(ErrorCode::kIoError, "cannot write \"{}\": {}", path.string(), std::strerror(error));
}

/// Absolute, links followed, without a slash at the end.
Result<fs::path> destination_of(const fs::path& target) {
  std::error_code error;
  const fs::file_status there = fs::status(target, error);
  fs::path path = fs::exists(there) ? fs::canonical(target, error) : fs::absolute(target, error);
  if (error) return cannot_write(target, error.value());
  if (!path.has_filename()) path = path.parent_path();
  if (!fs::exists(there)) return path;
  if (!fs::is_directory(there))
    return fail(ErrorCode::kInvalidArgument, "\"{}\" is there, and not a folder", target.string());
  const bool empty = fs::is_empty(path, error);
  if (error) return cannot_write(target, error.value());
  if (!empty)
    return fail(ErrorCode::kInvalidArgument,
                "the folder \"{}\" is not empty: name another one, or remove it first",
                target.string());
  return path;
}

void remove_stale_folders(const fs::path& destination) {
  for_each_temporary(destination, [](const fs::path& path, pid_t process) {
    std::error_code ignored;
    if (is_stale_folder(path, process)) fs::remove_all(path, ignored);
  });
}

/// How the registry tells a folder from a file.
fs::path as_folder(const fs::path& path) { return path.native() + '/'; }

}  // namespace

struct AtomicFolder::Impl {
  fs::path target;       // as given, for messages
  fs::path destination;  // absolute
  fs::path temporary;    // absolute
  UniqueFd lock;         // the folder, locked: a process id says nothing in another container
  bool present = false;
  bool lasts = true;              // what is in it is flushed to disk
  LiveTemporary registration;     // of the folder with all that is in it
  std::vector<fs::path> folders;  // relative

  ~Impl() {
    std::error_code ignored;
    if (present) fs::remove_all(temporary, ignored);
  }
};

AtomicFolder::AtomicFolder() : impl_(std::make_unique<Impl>()) {}
AtomicFolder::AtomicFolder(AtomicFolder&&) noexcept = default;
AtomicFolder& AtomicFolder::operator=(AtomicFolder&&) noexcept = default;
AtomicFolder::~AtomicFolder() = default;

Result<AtomicFolder> AtomicFolder::create(const fs::path& target) {
  return make(target, CTXGEN_TRY(destination_of(target)), 0777);
}

Result<AtomicFolder> AtomicFolder::scratch() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error)
    return fail(ErrorCode::kIoError, "the folder for temporary files (TMPDIR): {}",
                error.message());
  const fs::path target = fs::absolute(parent / "scratch");
  AtomicFolder folder = CTXGEN_TRY(make(target, target, 0700));
  folder.impl_->lasts = false;
  return folder;
}

fs::path AtomicFolder::path() const { return impl_->temporary; }

Result<AtomicFolder> AtomicFolder::make(const fs::path& target, const fs::path& destination,
                                        mode_t mode) {
  AtomicFolder folder;
  Impl& impl = *folder.impl_;
  impl.target = target;
  impl.destination = destination;
  remove_stale_folders(impl.destination);
  for (;;) {
    impl.temporary = new_temporary_path(impl.destination);
    CTXGEN_CHECK(impl.registration.enter(as_folder(impl.temporary), target));
    if (::mkdir(impl.temporary.c_str(), mode) == 0) break;
    const int error = errno;
    impl.registration.leave();
    if (error != EEXIST) return cannot_write(target, error);
  }
  impl.present = true;
  impl.lock = UniqueFd(::open(impl.temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (impl.lock.valid()) static_cast<void>(::flock(impl.lock.get(), LOCK_EX | LOCK_NB));
  return folder;
}

Status AtomicFolder::make_folder(const fs::path& relative) {
  if (::mkdir((impl_->temporary / relative).c_str(), 0777) != 0)
    return cannot_write(impl_->target / relative, errno);
  impl_->folders.push_back(relative);
  return {};
}

Status AtomicFolder::write_file(const fs::path& relative,
                                const std::function<Status(const Sink&)>& write) {
  const fs::path path = impl_->temporary / relative;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd.valid()) return cannot_write(impl_->target / relative, errno);
  CTXGEN_CHECK(write([&](std::span<const std::byte> bytes) -> Status {
    if (const int error = write_all(fd.get(), bytes); error != 0)
      return cannot_write(impl_->target / relative, error);
    return {};
  }));
  int error = impl_->lasts ? flush_to_disk(fd.get()) : 0;
  // close(2) reports late write errors of network file systems.
  if (::close(fd.release()) != 0 && errno != EINTR && error == 0) error = errno;
  if (error != 0) return cannot_write(impl_->target / relative, error);
  return {};
}

Status AtomicFolder::rename_file(const fs::path& from, const fs::path& to) {
  if (::rename((impl_->temporary / from).c_str(), (impl_->temporary / to).c_str()) != 0)
    return cannot_write(impl_->target / to, errno);
  return {};
}

Status AtomicFolder::commit() {
  CTXGEN_ASSERT(impl_->present);
  for (const fs::path& relative : impl_->folders) flush_folder(impl_->temporary / relative);
  flush_folder(impl_->temporary);
  // Takes the place of an empty folder, and of nothing else.
  if (::rename(impl_->temporary.c_str(), impl_->destination.c_str()) != 0)
    return cannot_write(impl_->target, errno);
  impl_->present = false;
  impl_->registration.leave();
  flush_folder(folder_of(impl_->destination));
  return {};
}

}  // namespace ctxgen
