#include "ctxgen/cache/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ctxgen/base/file.h"
#include "ctxgen/base/log.h"
#include "ctxgen/base/opened_file.h"
#include "ctxgen/cache/file_hashes.h"

#include "cache_entry.h"
#include "listing.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

/// Backup programs pass over folders with this file (bford.info/cachedir).
constexpr std::string_view kTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is a compile cache of ctxgen.\n";

/// Trimming goes by the time of last use; times of access are often not kept. Whether the file is
/// there; where nothing can be written, it is not marked.
bool mark_used(const fs::path& path) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                             {.tv_sec = 0, .tv_nsec = UTIME_NOW}};
  return ::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0 ||
         (errno != ENOENT && errno != ENOTDIR);
}

}  // namespace

std::string_view name_of(CacheKind kind) {
  switch (kind) {
    case CacheKind::kBlob: return "blob";
    case CacheKind::kPacked: return "packed";
    case CacheKind::kProgram: return "program";
    case CacheKind::kTuning: return "tuning";
    case CacheKind::kHashes: return "hashes";
    case CacheKind::kOutput: break;
  }
  return "output";
}

fs::path cache_folder_from_environment() {
  const char* const folder = std::getenv("CTXGEN_CACHE_DIR");
  return folder == nullptr ? fs::path() : fs::path(folder);
}

Result<std::unique_ptr<CacheFolder>> CacheFolder::open(const fs::path& path,
                                                       std::uint64_t max_bytes) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);  // a later chdir changes nothing
  if (error)
    return fail(ErrorCode::kIoError, "cache folder \"{}\": {}", path.string(), error.message());
  const fs::file_status status = fs::status(absolute, error);
  const bool below_a_file = error == std::errc::not_a_directory;
  if (below_a_file || (fs::exists(status) && !fs::is_directory(status)))
    return fail(ErrorCode::kIoError, "cache folder \"{}\": not a folder", path.string());
  return std::unique_ptr<CacheFolder>(new CacheFolder(absolute, max_bytes));
}

CacheFolder::~CacheFolder() try {
  if (written_) static_cast<void>(trim(max_bytes_));
} catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  // No memory to look through the folder: the next compile does it.
}

fs::path CacheFolder::path_of(CacheKind kind, Hash128 key) const {
  const std::string hex = key.hex();
  return path_ / name_of(kind) / hex.substr(0, 2) / hex.substr(2);
}

std::optional<Blob> CacheFolder::find(CacheKind kind, Hash128 key) {
  const fs::path path = path_of(kind, key);
  const auto file = map_file(path);
  if (!file) return std::nullopt;
  const auto bytes = bytes_of_entry(file->bytes, kind, key);
  if (!bytes) {
    log(LogLevel::kInfo, "cache entry \"{}\" is damaged", path.string());
    ::unlink(path.c_str());  // holds() shall not count on it
    return std::nullopt;
  }
  static_cast<void>(mark_used(path));
  return Blob{file->owner, *bytes};
}

std::optional<Blob> CacheFolder::find_unchanged(CacheKind kind, Hash128 key) {
  const std::int64_t now_ns = file_clock_ns();
  const auto file = OpenedFile::open(path_of(kind, key));
  if (!file) return std::nullopt;
  const Blob& whole = file->content();
  FileHashes hashes(*this);
  const FilePart part{.offset = 0, .size = whole.bytes.size()};
  auto hash = hashes.find(file->identity(), part);
  const bool is_known = hash.has_value();
  const auto bytes = bytes_of_entry(whole.bytes, kind, key, [&](auto content) {
    if (!is_known) hash = hash_bytes(content);
    return *hash;
  });
  if (!bytes) return find(kind, key);  // it says what is wrong
  if (!is_known && file->identity().is_settled(now_ns) && file->is_unchanged()) {
    hashes.add(file->identity(), part, *hash);
    hashes.store();
  }
  return Blob{whole.owner, *bytes};
}

std::optional<Blob> CacheFolder::find_added(CacheKind kind, Hash128 key) {
  const auto file = OpenedFile::open(path_of(kind, key));
  if (!file) return std::nullopt;
  const Blob& whole = file->content();
  const auto said = hash_in_footer(whole.bytes);
  if (!said) return std::nullopt;
  const auto bytes = bytes_of_entry(whole.bytes, kind, key, [&](auto) { return *said; });
  if (!bytes) return std::nullopt;
  FileHashes hashes(*this);
  hashes.add(file->identity(), {.offset = 0, .size = whole.bytes.size()}, *said);
  hashes.store();
  return Blob{whole.owner, *bytes};
}

bool CacheFolder::holds(CacheKind kind, Hash128 key) const { return mark_used(path_of(kind, key)); }

Status CacheEntryWriter::write(std::span<const std::byte> bytes) {
  hasher_.add(bytes);
  size_ += bytes.size();
  return file_.write(bytes);
}

Status CacheEntryWriter::finish() {
  CTXGEN_CHECK(file_.write(make_footer(kind_, key_, size_, hash())));
  return file_.commit_unflushed();  // what a power cut leaves of it does not fit its checksum
}

Result<CacheEntryWriter> CacheFolder::create(CacheKind kind, Hash128 key) const {
  const fs::path path = path_of(kind, key);
  std::error_code error;
  const bool first = fs::create_directories(path_, error);
  if (!error) fs::create_directories(path.parent_path(), error);
  if (error)
    return fail(ErrorCode::kIoError, "cannot make \"{}\": {}", path.parent_path().string(),
                error.message());
  if (first) {
    AtomicFile tag = CTXGEN_TRY(AtomicFile::create(path_ / "CACHEDIR.TAG", Links::kReplace));
    CTXGEN_CHECK(tag.write(as_bytes(kTag)));
    CTXGEN_CHECK(tag.commit_unflushed());
  }
  // Others may write into the folder, too: a link that one of them left there leads nowhere.
  return CacheEntryWriter(CTXGEN_TRY(AtomicFile::create(path, Links::kReplace)), kind, key);
}

Result<CacheEntryWriter> CacheFolder::begin(CacheKind kind, Hash128 key) {
  written_ = true;
  return create(kind, key);
}

bool CacheFolder::add(CacheKind kind, Hash128 key, std::span<const std::byte> bytes) {
  return add(kind, key, bytes.size(), [&](CacheEntryWriter& entry) { return entry.write(bytes); });
}

bool CacheFolder::add(CacheKind kind, Hash128 key, std::uint64_t bytes,
                      const std::function<Status(CacheEntryWriter&)>& fill) {
  if (!writable_ || bytes > max_bytes_) return false;
  const auto write = [&]() -> Status {
    CacheEntryWriter entry = CTXGEN_TRY(create(kind, key));
    CTXGEN_CHECK(fill(entry));
    return entry.finish();
  };
  const Status status = write();
  if (status) {
    written_ = true;
    return true;
  }
  if (writable_.exchange(false))
    log(LogLevel::kWarning, "compile cache \"{}\": nothing more is stored: {}", path_.string(),
        status.error().message);
  return false;
}

Blob CacheFolder::add_and_map(CacheKind kind, Hash128 key, Blob made) {
  if (!add(kind, key, made.bytes)) return made;
  const auto file = map_file(path_of(kind, key));
  // A process that replaced it meanwhile wrote the same; one that trimmed it left nothing to map.
  const auto bytes = file ? bytes_of_entry(file->bytes, kind, key) : std::nullopt;
  return bytes ? Blob{file->owner, *bytes} : made;
}

CacheFolder::Usage CacheFolder::Contents::all() const {
  Usage sum;
  for (const Usage& one : kinds) {
    sum.entries += one.entries;
    sum.bytes += one.bytes;
  }
  return sum;
}

CacheFolder::Contents CacheFolder::contents() const {
  Contents contents;
  for (const ListedEntry& entry : list_entries(path_, nullptr)) {
    Usage& usage = contents.kinds[static_cast<std::size_t>(entry.kind)];
    usage.entries += 1;
    usage.bytes += entry.bytes;
  }
  return contents;
}

Result<CacheFolder::Usage> CacheFolder::trim(std::uint64_t max_bytes) {
  std::vector<fs::path> temporaries;
  std::vector<ListedEntry> entries = list_entries(path_, &temporaries);
  for (const fs::path& temporary : temporaries) remove_if_stale(temporary);
  for (ListedEntry& entry : entries) {
    // Marking an entry that is found unchanged would change it, so its hash is marked.
    struct stat of_hash{};
    const bool is_read =
        entry.kind == CacheKind::kOutput &&
        ::lstat(path_of(CacheKind::kHashes, FileHashes::key_of(entry.file)).c_str(), &of_hash) == 0;
    if (is_read) entry.used_ns = std::max(entry.used_ns, identity_of(of_hash).modified_ns);
  }
  std::ranges::sort(entries, {}, [](const ListedEntry& entry) {
    return std::pair(entry.used_ns, entry.path.native());
  });
  std::uint64_t left = 0;
  for (const ListedEntry& entry : entries) left += entry.bytes;
  Usage removed;
  for (const ListedEntry& entry : entries) {
    if (left <= max_bytes) break;
    if (::unlink(entry.path.c_str()) != 0 && errno != ENOENT)
      return fail(ErrorCode::kIoError, "cannot remove \"{}\": {}", entry.path.string(),
                  std::strerror(errno));
    left -= entry.bytes;
    removed.entries += 1;
    removed.bytes += entry.bytes;
  }
  return removed;
}

}  // namespace ctxgen
