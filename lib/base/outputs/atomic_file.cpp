// AtomicFile of file.h, and what cleans up after one that was interrupted.
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/base/working_memory.h"

#include "outputs/temporaries.h"
#include "outputs/write_target.h"
#include "unique_fd.h"
#include "unnamed_file.h"
#include "write_all.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

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
  std::vector<std::byte> tail;  // of what was written, from a multiple of kHugePageBytes on
  bool present = false;         // the temporary exists
  LiveTemporary registration;

  ~Impl() {
    fd.reset();
    if (present) ::unlink(temporary.c_str());
  }
  Status put(std::span<const std::byte> bytes);
  Status write(std::span<const std::byte> bytes);
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
                                 LiveTemporary& registration) {
  for (;;) {
    Temporary made;
    made.path = new_temporary_path(destination);
    CTXGEN_CHECK(registration.enter(made.path, target));
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

Status AtomicFile::Impl::put(std::span<const std::byte> bytes) {
  const int error = write_all(fd.get(), bytes);
  if (error != 0)
    return fail(ErrorCode::kIoError, "cannot write {} bytes to \"{}\": {}", bytes.size(),
                target.string(), std::strerror(error));
  return {};
}

/// In pieces of a huge page, at multiples of its size: file systems whose page cache has large folios keep such pieces in huge pages,
/// which a mapping of the file then takes as they are (docs/onednn.md, "Packed weights"). All bytes pass through memory of our own:
/// what is not in memory yet (weights of a mapped file) Linux would write page by page, and keep in small pages.
Status AtomicFile::Impl::write(std::span<const std::byte> bytes) {
  if (direct) return put(bytes);
  while (!bytes.empty()) {
    const auto taken =
        bytes.first(std::min<std::size_t>(bytes.size(), kHugePageBytes - tail.size()));
    tail.insert(tail.end(), taken.begin(), taken.end());
    bytes = bytes.subspan(taken.size());
    if (tail.size() < kHugePageBytes) continue;
    CTXGEN_CHECK(put(tail));
    tail.clear();
  }
  return {};
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  CTXGEN_ASSERT(impl_->fd.valid());
  CTXGEN_CHECK(impl_->write(bytes));
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
  CTXGEN_CHECK(put(tail));
  tail = {};
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

Status write_file(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file = CTXGEN_TRY(AtomicFile::create(path));
  CTXGEN_CHECK(file.write(bytes));
  return file.commit();
}

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
  LiveTemporary registration;
  Temporary named = CTXGEN_TRY(open_temporary(beside, beside, registration));
  ::unlink(named.path.c_str());
  return std::move(named.fd);
}

void remove_stale_temporaries(const fs::path& target) {
  const auto found = find_target(target, Links::kFollow);
  if (!found || found->kind != WriteTarget::Kind::kFile) return;
  for_each_temporary(found->path, [](const fs::path& path, pid_t process) {
    if (is_stale_file(path, process)) ::unlink(path.c_str());
  });
}

void remove_if_stale(const fs::path& temporary) {
  const pid_t process = process_of_temporary(temporary.filename().string());
  if (process > 0 && is_stale_file(temporary, process)) ::unlink(temporary.c_str());
}

}  // namespace ctxgen
