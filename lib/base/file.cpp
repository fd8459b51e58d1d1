#include "ctxgen/base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "ctxgen/base/opened_file.h"

#include "open_beneath.h"
#include "unique_fd.h"

namespace ctxgen {
namespace {

class Mapping {
 public:
  Mapping(void* address, std::size_t size) : address_(address), size_(size) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (size_ != 0) ::munmap(address_, size_);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(address_), size_};
  }

 private:
  void* address_;
  std::size_t size_;
};

constexpr std::int64_t kNanoseconds = 1'000'000'000;

std::int64_t nanoseconds_of(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * kNanoseconds + time.tv_nsec;
}

Result<FileIdentity> read_identity(const UniqueFd& fd, std::string_view name) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0)
    return fail(ErrorCode::kIoError, "cannot access \"{}\": {}", name, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return fail(ErrorCode::kIoError, "\"{}\" is {}, expected a regular file", name,
                S_ISDIR(status.st_mode) ? "a folder" : "not a file");
  return identity_of(status);
}

/// The mappings that this process holds.
class MappingCache {
 public:
  Result<std::shared_ptr<const Mapping>> get(int fd, FileIdentity key, std::string_view name) {
    key.changed_ns = 0;  // names and permissions change it, too
    const std::lock_guard lock(mutex_);
    const auto known = mappings_.find(key);
    if (known != mappings_.end())
      if (auto mapping = known->second.lock()) return mapping;
    std::erase_if(mappings_, [](const auto& entry) { return entry.second.expired(); });
    auto mapping = CTXGEN_TRY(map(fd, key.size, name));
    mappings_[key] = mapping;
    return mapping;
  }

  static MappingCache& instance() {
    static auto* const cache = new MappingCache;  // blobs may outlive static objects
    return *cache;
  }

 private:
  static Result<std::shared_ptr<const Mapping>> map(int fd, std::uint64_t size,
                                                    std::string_view name) {
    if (size == 0) return std::make_shared<const Mapping>(nullptr, 0);  // mmap refuses length 0
    const auto length = static_cast<std::size_t>(size);
    void* address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      return fail(error == ENOMEM ? ErrorCode::kResourceLimit : ErrorCode::kIoError,
                  "cannot map \"{}\" ({} bytes): {}", name, length, std::strerror(error));
    }
    return std::make_shared<const Mapping>(address, length);
  }

  std::mutex mutex_;
  std::map<FileIdentity, std::weak_ptr<const Mapping>> mappings_;
};

Result<Blob> map_descriptor(const UniqueFd& fd, const FileIdentity& identity,
                            std::string_view name) {
  auto mapping = CTXGEN_TRY(MappingCache::instance().get(fd.get(), identity, name));
  const auto bytes = mapping->bytes();
  return Blob{std::move(mapping), bytes};
}

Result<UniqueFd> open_to_read(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO without a writer would hang.
  UniqueFd fd;
  do {
    fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  } while (!fd.valid() && errno == EINTR);
  if (!fd.valid())
    return fail(ErrorCode::kIoError, "cannot open \"{}\": {}", path.string(), std::strerror(errno));
  return fd;
}

/// One read(2), repeated where a signal came between or a non-blocking stream has nothing yet.
ssize_t read_some(int fd, std::byte* to, std::size_t count) {
  for (;;) {
    const ssize_t got = ::read(fd, to, count);
    if (got >= 0 || (errno != EINTR && errno != EAGAIN)) return got;
    if (errno == EAGAIN) {
      pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
      static_cast<void>(::poll(&waiting, 1, -1));
    }
  }
}

}  // namespace

Result<Blob> map_file(const std::filesystem::path& path) {
  const UniqueFd fd = CTXGEN_TRY(open_to_read(path));
  const std::string name = path.string();
  return map_descriptor(fd, CTXGEN_TRY(read_identity(fd, name)), name);
}

Result<Blob> map_file_beneath(const std::filesystem::path& folder, std::string_view relative) {
  const UniqueFd fd = CTXGEN_TRY(open_beneath(folder, relative, BeneathMethod::kAuto));
  const std::string name = (folder / relative).string();
  return map_descriptor(fd, CTXGEN_TRY(read_identity(fd, name)), name);
}

FileIdentity identity_of(const struct ::stat& status) {
  return FileIdentity{.device = status.st_dev,
                      .inode = status.st_ino,
                      .size = static_cast<std::uint64_t>(status.st_size),
                      .modified_ns = nanoseconds_of(status.st_mtim),
                      .changed_ns = nanoseconds_of(status.st_ctim)};
}

bool FileIdentity::is_settled(std::int64_t now_ns) const {
  constexpr std::int64_t kTickNs = 2 * kNanoseconds;
  return std::max(modified_ns, changed_ns) < now_ns - kTickNs;
}

std::int64_t file_clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return nanoseconds_of(now);
}

Result<OpenedFile> OpenedFile::of(UniqueFd fd, std::string_view name) {
  OpenedFile file;
  file.identity_ = CTXGEN_TRY(read_identity(fd, name));
  file.content_ = CTXGEN_TRY(map_descriptor(fd, file.identity_, name));
  file.fd_ = std::make_shared<const UniqueFd>(std::move(fd));
  return file;
}

Result<OpenedFile> OpenedFile::open(const std::filesystem::path& path) {
  return of(CTXGEN_TRY(open_to_read(path)), path.string());
}

Result<OpenedFile> OpenedFile::open_beneath(const std::filesystem::path& folder,
                                            std::string_view relative) {
  return of(CTXGEN_TRY(ctxgen::open_beneath(folder, relative, BeneathMethod::kAuto)),
            (folder / relative).string());
}

bool OpenedFile::is_unchanged() const { return read_identity(*fd_, "") == identity_; }

void OpenedFile::release_pages() const {
  // A shared mapping is not written: nothing is lost.
  auto* const begin = const_cast<std::byte*>(content_.bytes.data());
  if (!content_.bytes.empty()) (void)::madvise(begin, content_.bytes.size(), MADV_DONTNEED);
}

Result<Blob> read_stream(int file_descriptor, std::uint64_t max_bytes) try {
  constexpr std::size_t kFirstChunk = std::size_t{1} << 16;
  std::vector<std::byte> bytes;
  std::size_t used = 0;
  for (;;) {
    // One byte above the limit is room enough to see that the stream passes it.
    if (used == bytes.size()) {
      const std::uint64_t wanted = std::max<std::uint64_t>(kFirstChunk, used * 2);
      bytes.resize(max_bytes < wanted ? max_bytes + 1 : wanted);
    }
    const ssize_t got = read_some(file_descriptor, bytes.data() + used, bytes.size() - used);
    if (got < 0) return fail(ErrorCode::kIoError, "cannot read stream: {}", std::strerror(errno));
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > max_bytes)
      return fail(ErrorCode::kResourceLimit, "stream is longer than {} bytes", max_bytes);
  }
  bytes.resize(used);
  return Blob::own(std::move(bytes));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::kResourceLimit, "out of memory while reading a stream");
}

}  // namespace ctxgen
