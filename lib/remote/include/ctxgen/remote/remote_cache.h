#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/remote/remote_counts.h"
#include "ctxgen/trust/sha256.h"

namespace ctxgen {

inline constexpr int kDefaultRemoteSeconds = 10;

struct RemoteCacheOptions {
  std::string url;                         // http(s)://HOST[:PORT][/PATH]
  std::filesystem::path headers = {};      // lines "Name: value" for every request; empty: none
  double seconds = kDefaultRemoteSeconds;  // of waiting, as Patience counts them
  std::function<bool()> cancelled = {};    // ends a wait, too
};

/// A cache on an HTTP server, below the one in a folder: /ac/<SHA-256 of what was asked for> lists what came of it,
/// /cas/<SHA-256> has the contents (the layout of Bazel's HTTP cache).
///
/// Trust    every content is compared with its digest, and an entry says for which action it is; who may write
///          below /ac decides what others get.
/// Failure  the first failed exchange ends all others of that direction; nothing here fails a compile.
/// Time     lookups and finish() wait as long as Patience lasts, and at most a second more.
/// Threads  one caller; uploads run on a thread of their own.
class RemoteCache {
 public:
  /// `local` must outlive it.
  /// Errors  INVALID_ARGUMENT (the URL, a header), IO_ERROR (the header file).
  [[nodiscard]] static Result<std::unique_ptr<RemoteCache>> open(const RemoteCacheOptions& options,
                                                                 CacheFolder& local);
  /// Gives up uploads that finish() did not wait for.
  ~RemoteCache();
  RemoteCache(const RemoteCache&) = delete;
  RemoteCache& operator=(const RemoteCache&) = delete;

  /// Brings the result of an action into the local cache: its blobs, then its entry under `kind` and `key`.
  /// Whether it is there now.
  [[nodiscard]] bool fetch(const Sha256Digest& action, CacheKind kind, Hash128 key);
  /// What fetch() brought could not be used: it was an error, not a hit.
  void reject();
  /// Asks for the result and all of its contents, without fetching them. Counts as fetch().
  [[nodiscard]] bool holds(const Sha256Digest& action);
  /// Uploads an entry and the blobs of the local cache that it refers to, meanwhile. Not after an error.
  void store(const Sha256Digest& action, std::vector<std::byte> entry, std::vector<Hash128> blobs);
  /// Waits for uploads.
  [[nodiscard]] RemoteCounts finish();

 private:
  RemoteCache();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The URL that the environment gives: CTXGEN_CACHE_URL, or nothing.
[[nodiscard]] std::string cache_url_from_environment();

}  // namespace ctxgen
