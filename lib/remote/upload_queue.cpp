#include "upload_queue.h"

#include <chrono>
#include <exception>
#include <format>
#include <utility>

#include "action_result.h"
#include "result_paths.h"

namespace ctxgen {

UploadQueue::UploadQueue(std::unique_ptr<HttpClient> client, CacheFolder& local)
    : client_(std::move(client)), local_(local) {}

UploadQueue::~UploadQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UploadQueue::add(Upload upload) {
  {
    const std::scoped_lock lock(mutex_);
    if (failed_ || stop_) return;
    waiting_.push_back(std::move(upload));
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void UploadQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const Upload upload = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    try {
      send(upload);
    } catch (const std::exception& error) {  // no memory
      give_up(error.what());
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

bool UploadQueue::go_on(std::uint64_t moved) {
  const std::scoped_lock lock(mutex_);
  moving_ = moved;
  return !stop_;
}

void UploadQueue::give_up(const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  if (stop_) return;  // that was us: finish() says so
  counts_.errors += 1;
  if (counts_.problem.empty()) counts_.problem = problem;
  failed_ = true;
  waiting_.clear();
}

Status UploadQueue::put(const std::string& path, std::span<const std::byte> bytes) {
  const HttpReply reply =
      client_->put(path, bytes, [this](std::uint64_t moved) { return go_on(moved); });
  const std::scoped_lock lock(mutex_);
  moving_ = 0;
  if (!reply.done()) return fail(ErrorCode::kIoError, "it does not store: {}", reply.text());
  counts_.bytes_sent += bytes.size();
  return {};
}

Result<Sha256Digest> UploadQueue::send_content(std::span<const std::byte> bytes) {
  const Sha256Digest digest = sha256_of(bytes);
  const std::string path = cas_path(digest);
  const HttpReply there = client_->head(path, [this](std::uint64_t) { return go_on(0); });
  if (!there.problem.empty())
    return fail(ErrorCode::kIoError, "it does not answer: {}", there.problem);
  if (!there.done()) CTXGEN_CHECK(put(path, bytes));
  return digest;
}

void UploadQueue::send(const Upload& upload) {
  std::vector<ResultFile> files;
  const auto add = [&](std::string path, std::span<const std::byte> bytes) -> Status {
    const Sha256Digest digest = CTXGEN_TRY(send_content(bytes));
    files.push_back({std::move(path), digest, bytes.size()});
    return {};
  };
  for (const Hash128 hash : upload.blobs) {
    const auto blob = local_.find(CacheKind::kBlob, hash);
    if (!blob) return;  // evicted meanwhile: others cannot use the rest
    if (const Status sent = add(blob_path(hash), blob->bytes); !sent)
      return give_up(sent.error().message);
  }
  std::vector<std::byte> entry(upload.action.bytes.begin(), upload.action.bytes.end());
  entry.insert(entry.end(), upload.entry.begin(), upload.entry.end());
  Status sent = add(std::string(kEntryPath), entry);
  if (sent) sent = put(ac_path(upload.action), encode_action_result(files));
  if (!sent) return give_up(sent.error().message);
  const std::scoped_lock lock(mutex_);
  counts_.stored += 1;
}

UploadQueue::Counts UploadQueue::finish(Patience& patience) {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = counts_.bytes_sent;
  const auto moved = [&] { return counts_.bytes_sent - before + moving_; };
  const auto idle = [this] { return !busy_ && waiting_.empty(); };
  patience.begin();
  while (!idle() && patience.lasts(moved()))
    changed_.wait_for(lock, std::chrono::milliseconds(50), idle);
  if (!idle()) {
    counts_.errors += 1;
    if (counts_.problem.empty()) counts_.problem = "storing took too long";
    waiting_.clear();
  }
  stop_ = true;
  const std::uint64_t bytes = moved();
  lock.unlock();
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  patience.end(bytes);
  return counts_;
}

}  // namespace ctxgen
