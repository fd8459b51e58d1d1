#include "outputs/temporaries.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <format>
#include <memory>
#include <string>
#include <utility>

#include <climits>

#include "ctxgen/base/file.h"

#include "unique_fd.h"

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

// Slots hold heap strings, those of folders (with all that is in them) with a slash at the end. Whoever exchanges a pointer for nullptr
// owns the string: the file that leaves the registry frees it; the signal handler may not call free, and puts
// it aside. So the handler never looks at freed memory, even while another thread commits.
std::array<std::atomic<const char*>, 4096> live_temporaries{};
std::array<std::atomic<const char*>, live_temporaries.size()> unlinked_temporaries{};
static_assert(std::atomic<const char*>::is_always_lock_free);

bool is_stale(const fs::path& temporary, pid_t process, int flags, mode_t kind) {
  const bool own = process == ::getpid();  // a new process may get a dead one's id
  if (!own && (::kill(process, 0) == 0 || errno != ESRCH)) return false;
  const UniqueFd fd(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | flags));
  if (!fd.valid()) return false;
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || (status.st_mode & S_IFMT) != kind) return false;
  return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 || (!own && errno != EWOULDBLOCK);
}

/// Removes what is in a folder, and the folder: a signal handler may not call opendir(3) or anything else that allocates.
/// By paths, not by descriptors: a folder that another thread renames meanwhile is its target, which stays.
bool remove_folder(std::array<char, PATH_MAX>& path, std::size_t length, int depth) noexcept {
  const UniqueFd folder(::open(path.data(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) return false;
  alignas(dirent64) std::array<char, 2048> entries{};
  // Some file systems pass over entries where others were removed.
  for (bool removed = true; removed;) {
    removed = false;
    if (::lseek(folder.get(), 0, SEEK_SET) != 0) break;
    for (long size = 0;
         (size = ::syscall(SYS_getdents64, folder.get(), entries.data(), entries.size())) > 0;)
      for (long at = 0; at < size;) {
        const auto* const entry = reinterpret_cast<const dirent64*>(&entries[std::size_t(at)]);
        at += entry->d_reclen;
        const std::string_view name = entry->d_name;
        if (name == "." || name == ".." || length + name.size() + 2 > path.size()) continue;
        std::memcpy(&path[length], entry->d_name, name.size() + 1);
        if (::unlink(path.data()) == 0) {
          removed = true;
        } else if (errno == EISDIR && depth > 0) {
          path[length + name.size()] = '/';
          path[length + name.size() + 1] = '\0';
          removed = remove_folder(path, length + name.size() + 1, depth - 1) || removed;
        }
      }
  }
  path[length] = '\0';
  return ::rmdir(path.data()) == 0;
}

void remove_temporary(const char* temporary) noexcept {
  constexpr int kMostFoldersInFolders = 8;
  std::array<char, PATH_MAX> path;
  const std::size_t length = std::strlen(temporary);
  if (temporary[length - 1] != '/') {
    ::unlink(temporary);
  } else if (length < path.size()) {
    std::memcpy(path.data(), temporary, length + 1);
    remove_folder(path, length, kMostFoldersInFolders);
  }
}

/// Keeps a string that a signal handler may not free; without a place left, the process keeps it nameless.
void put_aside(const char* path) noexcept {
  for (auto& slot : unlinked_temporaries)
    if (const char* empty = nullptr; slot.compare_exchange_strong(empty, path)) return;
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

fs::path new_temporary_path(const fs::path& target) {
  static std::atomic<std::uint64_t> counter{0};
  return folder_of(target) / std::format("{}{}-{}{}", temporary_prefix(target), ::getpid(),
                                         counter.fetch_add(1), kTemporarySuffix);
}

pid_t process_of_temporary(std::string_view name) {
  const std::size_t mark = name.rfind(kTemporaryMark);
  if (!name.starts_with('.') || mark == std::string_view::npos) return -1;
  return process_of(name, name.substr(0, mark + kTemporaryMark.size()));
}

void for_each_temporary(const fs::path& target, FunctionRef<void(const fs::path&, pid_t)> found) {
  const std::string prefix = temporary_prefix(target);
  const fs::path folder = folder_of(target);
  // Not a directory_iterator: libstdc++'s ends the process where memory runs out (noexcept).
  const std::unique_ptr<DIR, CloseFolder> listing(::opendir(folder.c_str()));
  if (listing == nullptr) return;
  while (const dirent* entry = ::readdir(listing.get()))
    if (const pid_t process = process_of(entry->d_name, prefix); process > 0)
      found(folder / entry->d_name, process);
}

bool is_stale_file(const fs::path& temporary, pid_t process) {
  return is_stale(temporary, process, O_NONBLOCK, S_IFREG);
}

bool is_stale_folder(const fs::path& temporary, pid_t process) {
  return is_stale(temporary, process, O_DIRECTORY, S_IFDIR);
}

LiveTemporary::LiveTemporary(LiveTemporary&& other) noexcept
    : slot_(std::exchange(other.slot_, nullptr)) {}

LiveTemporary& LiveTemporary::operator=(LiveTemporary&& other) noexcept {
  if (this == &other) return *this;
  leave();
  slot_ = std::exchange(other.slot_, nullptr);
  return *this;
}

Status LiveTemporary::enter(const fs::path& path, const fs::path& target) {
  const std::string& text = path.native();
  auto copy = std::make_unique<char[]>(text.size() + 1);
  std::memcpy(copy.get(), text.c_str(), text.size() + 1);
  for (auto& slot : live_temporaries) {
    const char* empty = nullptr;
    if (!slot.compare_exchange_strong(empty, copy.get())) continue;
    slot_ = &slot;
    static_cast<void>(copy.release());
    return {};
  }
  return fail(ErrorCode::kResourceLimit,
              "cannot write \"{}\": more than {} files are being written", target.string(),
              live_temporaries.size());
}

void LiveTemporary::leave() {
  if (slot_ != nullptr) delete[] slot_->exchange(nullptr);
  slot_ = nullptr;
}

int flush_to_disk(int fd) {
  while (::fsync(fd) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

void flush_folder(const fs::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) static_cast<void>(flush_to_disk(fd.get()));
}

void unlink_live_temporaries() noexcept {
  const int saved = errno;
  for (auto& slot : live_temporaries)
    if (const char* const path = slot.exchange(nullptr); path != nullptr) {
      remove_temporary(path);
      put_aside(path);
    }
  errno = saved;
}

}  // namespace ctxgen
