#include "ctxgen/remote/remote_cache.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <format>
#include <optional>
#include <span>
#include <utility>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/file.h"
#include "ctxgen/base/log.h"

#include "action_result.h"
#include "http_client.h"
#include "patience.h"
#include "result_paths.h"
#include "upload_queue.h"

namespace ctxgen {
namespace {

constexpr std::uint64_t kMaxActionBytes = 16 << 20;
constexpr std::uint64_t kMaxHeaderBytes = 64 << 10;
constexpr double kConnectSeconds = 2;

/// The lines of a file of headers. What is wrong with one is said without it: they are secrets.
Result<std::vector<std::string>> read_headers(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  if (path.empty()) return lines;
  const Blob file = CTXGEN_TRY(map_file(path));
  if (file.bytes.size() > kMaxHeaderBytes)
    return fail(ErrorCode::kInvalidArgument, "header file \"{}\": {} bytes, at most {}",
                path.string(), file.bytes.size(), kMaxHeaderBytes);
  std::string_view text = as_text(file.bytes);
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t colon = line.find(':');
    const bool named = colon != 0 && colon != std::string_view::npos &&
                       line.substr(0, colon).find_first_of(" \t;") == std::string_view::npos;
    const bool printable = std::ranges::all_of(
        line, [](char c) { return static_cast<unsigned char>(c) >= 32 || c == '\t'; });
    if (!named || !printable)
      return fail(ErrorCode::kInvalidArgument, "header file \"{}\", line {}: expected Name: value",
                  path.string(), number);
    lines.emplace_back(line);
  }
  return lines;
}

std::optional<Hash128> hash_in(std::string_view path) {
  if (!path.starts_with(kBlobPrefix)) return std::nullopt;
  path.remove_prefix(kBlobPrefix.size());
  Hash128 hash;
  if (path.size() != 32) return std::nullopt;
  const char* const middle = path.data() + 16;
  const auto high = std::from_chars(path.data(), middle, hash.high, 16);
  const auto low = std::from_chars(middle, middle + 16, hash.low, 16);
  if (high.ptr != middle || low.ptr != middle + 16) return std::nullopt;
  return hash;
}

/// The files of a result by what they are for.
struct ResultParts {
  ResultFile entry;
  std::vector<std::pair<Hash128, ResultFile>> blobs;
};

/// Errors  kCorruptContext, also for contents of more than `max_bytes` together.
Result<ResultParts> read_result(std::span<const std::byte> message, std::uint64_t max_bytes) {
  ResultParts parts;
  std::uint64_t sum = 0;
  bool has_entry = false;
  for (ResultFile& file : CTXGEN_TRY(decode_action_result(message))) {
    const auto more = checked_add(sum, file.bytes);
    if (!more || *more > max_bytes)
      return fail(ErrorCode::kCorruptContext, "a result of more than the local cache's {} bytes",
                  max_bytes);
    sum = *more;
    if (file.path == kEntryPath) {
      parts.entry = std::move(file);
      has_entry = true;
    } else if (const auto hash = hash_in(file.path)) {
      parts.blobs.emplace_back(*hash, std::move(file));
    } else {
      return fail(ErrorCode::kCorruptContext, "a file that is not ctxgen's");
    }
  }
  if (!has_entry) return fail(ErrorCode::kCorruptContext, "no entry");
  return parts;
}

enum class Answer { kHit, kMiss, kError };

}  // namespace

std::string cache_url_from_environment() {
  const char* const url = std::getenv("CTXGEN_CACHE_URL");
  return url == nullptr ? std::string() : std::string(url);
}

struct RemoteCache::Impl {
  Impl(std::unique_ptr<HttpClient> downloads, std::unique_ptr<HttpClient> uploads,
       CacheFolder& folder, const RemoteCacheOptions& options)
      : client(std::move(downloads)),
        queue(std::move(uploads), folder),
        local(folder),
        patience(options.seconds, options.cancelled) {}

  Answer failed(const std::string& problem) {
    failed_once = true;
    if (counts.problem.empty()) counts.problem = problem;
    log(LogLevel::kWarning, "remote cache: {}", problem);
    return Answer::kError;
  }
  HttpClient::GoOn go_on() {
    return [this](std::uint64_t bytes) { return patience.lasts(received + bytes); };
  }
  Answer answer(const HttpReply& reply) {
    if (reply.done()) return Answer::kHit;
    if (reply.missing()) return Answer::kMiss;
    return failed("it does not answer: " + reply.text());
  }

  /// A body of at most `max_bytes` into `take`.
  HttpReply get(const std::string& path, std::uint64_t max_bytes, const HttpClient::Take& take) {
    std::uint64_t bytes = 0;
    const HttpReply reply = client->get(
        path,
        [&](std::span<const std::byte> part) {
          bytes += part.size();
          return bytes <= max_bytes && take(part);
        },
        go_on());
    received += bytes;
    counts.bytes_received += bytes;
    return reply;
  }

  Answer get_result(const Sha256Digest& action, ResultParts& parts) {
    std::vector<std::byte> message;
    const HttpReply reply =
        get(ac_path(action), kMaxActionBytes, [&](std::span<const std::byte> part) {
          message.insert(message.end(), part.begin(), part.end());
          return true;
        });
    if (const Answer found = answer(reply); found != Answer::kHit) return found;
    auto read = read_result(message, local.max_bytes());
    if (!read) return failed("a result that cannot be used: " + read.error().message);
    parts = std::move(*read);
    return Answer::kHit;
  }

  /// A content into an entry of the local cache, without its first `prefix`, which must be there.
  Answer get_content(const ResultFile& file, CacheKind kind, Hash128 key,
                     std::span<const std::byte> prefix) {
    if (file.bytes < prefix.size()) return failed("a content that is too short");
    auto entry = local.begin(kind, key);
    if (!entry) return failed(entry.error().message);
    Sha256 sha;
    Status written;
    std::uint64_t at = 0;
    bool prefixed = true;
    const HttpReply reply =
        get(cas_path(file.digest), file.bytes, [&](std::span<const std::byte> part) {
          sha.add(part);
          const std::uint64_t skipped =
              at < prefix.size() ? std::min<std::uint64_t>(part.size(), prefix.size() - at) : 0;
          if (skipped > 0)
            prefixed =
                prefixed && std::ranges::equal(part.first(skipped), prefix.subspan(at, skipped));
          at += part.size();
          written = entry->write(part.subspan(skipped));
          return written.has_value() && prefixed;
        });
    if (!written) return failed(written.error().message);
    if (!prefixed) return failed("an entry of another action");
    if (const Answer found = answer(reply); found != Answer::kHit) return found;
    if (at != file.bytes || sha.finish() != file.digest)
      return failed("a content that does not have its digest");
    if (kind == CacheKind::kBlob && entry->hash() != key)
      return failed("a blob that does not have its hash");
    if (const Status done = entry->finish(); !done) return failed(done.error().message);
    return Answer::kHit;
  }

  Answer fetch(const Sha256Digest& action, CacheKind kind, Hash128 key) {
    ResultParts parts;
    if (const Answer found = get_result(action, parts); found != Answer::kHit) return found;
    for (const auto& [hash, file] : parts.blobs) {
      if (const auto here = local.find(CacheKind::kBlob, hash);
          here && here->bytes.size() == file.bytes)
        continue;
      if (const Answer found = get_content(file, CacheKind::kBlob, hash, {}); found != Answer::kHit)
        return found;
    }
    return get_content(parts.entry, kind, key, action.bytes);
  }

  Answer ask(const Sha256Digest& action) {
    ResultParts parts;
    if (const Answer found = get_result(action, parts); found != Answer::kHit) return found;
    std::vector<ResultFile> files{parts.entry};
    for (const auto& [hash, file] : parts.blobs) files.push_back(file);
    for (const ResultFile& file : files)
      if (const Answer found = answer(client->head(cas_path(file.digest), go_on()));
          found != Answer::kHit)
        return found;
    return Answer::kHit;
  }

  /// Whether `ask_server` says that there is a hit; counts what it says.
  template <class Ask>
  bool counted(const Ask& ask_server) {
    if (failed_once) return false;
    received = 0;
    patience.begin();
    const Answer found = ask_server();
    patience.end(received);
    ++(found == Answer::kHit    ? counts.hits
       : found == Answer::kMiss ? counts.misses
                                : counts.errors);
    return found == Answer::kHit;
  }

  std::unique_ptr<HttpClient> client;
  UploadQueue queue;
  CacheFolder& local;
  Patience patience;
  RemoteCounts counts;
  std::uint64_t received = 0;  // in the lookup that is under way
  bool failed_once = false;
};

RemoteCache::RemoteCache() = default;
RemoteCache::~RemoteCache() = default;

Result<std::unique_ptr<RemoteCache>> RemoteCache::open(const RemoteCacheOptions& options,
                                                       CacheFolder& local) {
  const std::vector<std::string> headers = CTXGEN_TRY(read_headers(options.headers));
  const double connect = std::min(kConnectSeconds, options.seconds);
  auto downloads = CTXGEN_TRY(HttpClient::open(options.url, headers, connect));
  auto uploads = CTXGEN_TRY(HttpClient::open(options.url, headers, connect));
  std::unique_ptr<RemoteCache> cache(new RemoteCache());
  cache->impl_ = std::make_unique<Impl>(std::move(downloads), std::move(uploads), local, options);
  return cache;
}

bool RemoteCache::fetch(const Sha256Digest& action, CacheKind kind, Hash128 key) {
  return impl_->counted([&] { return impl_->fetch(action, kind, key); });
}

void RemoteCache::reject() {
  impl_->counts.hits -= 1;
  impl_->counts.errors += 1;
  static_cast<void>(impl_->failed("a result that cannot be used"));
}

bool RemoteCache::holds(const Sha256Digest& action) {
  return impl_->counted([&] { return impl_->ask(action); });
}

void RemoteCache::store(const Sha256Digest& action, std::vector<std::byte> entry,
                        std::vector<Hash128> blobs) {
  if (!impl_->failed_once) impl_->queue.add({action, std::move(entry), std::move(blobs)});
}

RemoteCounts RemoteCache::finish() {
  const UploadQueue::Counts sent = impl_->queue.finish(impl_->patience);
  RemoteCounts all = impl_->counts;
  all.stored = sent.stored;
  all.errors += sent.errors;
  all.bytes_sent = sent.bytes_sent;
  all.seconds_waited = impl_->patience.seconds_waited();
  if (!sent.problem.empty()) {
    log(LogLevel::kWarning, "remote cache: {}", sent.problem);
    if (all.problem.empty()) all.problem = sent.problem;
  }
  return all;
}

}  // namespace ctxgen
