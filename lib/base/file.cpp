#include "ctxgen/base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <compare>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

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

/// What tells two files, or two states of one file, apart.
struct FileKey {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  time_t seconds = 0;
  long nanoseconds = 0;
  auto operator<=>(const FileKey&) const = default;
};

/// The mappings that this process holds.
class MappingCache {
 public:
  Result<std::shared_ptr<const Mapping>> get(int fd, const FileKey& key, std::string_view name) {
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
  static Result<std::shared_ptr<const Mapping>> map(int fd, off_t size, std::string_view name) {
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
  std::map<FileKey, std::weak_ptr<const Mapping>> mappings_;
};

Result<Blob> map_descriptor(const UniqueFd& fd, std::string_view name) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0)
    return fail(ErrorCode::kIoError, "cannot access \"{}\": {}", name, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return fail(ErrorCode::kIoError, "\"{}\" is {}, expected a regular file", name,
                S_ISDIR(status.st_mode) ? "a folder" : "not a file");
  const FileKey key{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                    status.st_mtim.tv_nsec};
  auto mapping = CTXGEN_TRY(MappingCache::instance().get(fd.get(), key, name));
  const auto bytes = mapping->bytes();
  return Blob{std::move(mapping), bytes};
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
  // O_NONBLOCK: opening a FIFO without a writer would hang.
  UniqueFd fd;
  do {
    fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  } while (!fd.valid() && errno == EINTR);
  if (!fd.valid())
    return fail(ErrorCode::kIoError, "cannot open \"{}\": {}", path.string(), std::strerror(errno));
  return map_descriptor(fd, path.string());
}

Result<Blob> map_file_beneath(const std::filesystem::path& folder, std::string_view relative) {
  const UniqueFd fd = CTXGEN_TRY(open_beneath(folder, relative, BeneathMethod::kAuto));
  return map_descriptor(fd, (folder / relative).string());
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
