#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/trust/sha256.h"

#include "http_client.h"
#include "patience.h"

namespace ctxgen {

/// The result of an action, and blobs of the local cache that it refers to.
struct Upload {
  Sha256Digest action;
  std::vector<std::byte> entry;
  std::vector<Hash128> blobs;
};

/// Sends results to a server on a thread of its own; the first failure ends it.
class UploadQueue {
 public:
  UploadQueue(std::unique_ptr<HttpClient> client, CacheFolder& local);
  ~UploadQueue();
  UploadQueue(const UploadQueue&) = delete;
  UploadQueue& operator=(const UploadQueue&) = delete;

  void add(Upload upload);

  struct Counts {
    std::uint64_t stored = 0, errors = 0, bytes_sent = 0;
    std::string problem;
  };
  /// Waits until all is sent or `patience` is over; what is left then counts as one error.
  [[nodiscard]] Counts finish(Patience& patience);

 private:
  void run();
  void send(const Upload& upload);
  /// Puts a content where it is not; gives its digest, or what is wrong.
  [[nodiscard]] Result<Sha256Digest> send_content(std::span<const std::byte> bytes);
  [[nodiscard]] Status put(const std::string& path, std::span<const std::byte> bytes);
  [[nodiscard]] bool go_on(std::uint64_t moved);
  void give_up(const std::string& problem);

  std::unique_ptr<HttpClient> client_;
  CacheFolder& local_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Upload> waiting_;
  Counts counts_;
  std::uint64_t moving_ = 0;  // bytes of the exchange that is under way
  bool busy_ = false, failed_ = false, stop_ = false;
  std::thread thread_;  // started by the first upload
};

}  // namespace ctxgen
