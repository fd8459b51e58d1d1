#include "load/weight_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

namespace ctxgen {
namespace {

std::uintptr_t page_bytes() {
  static const auto bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* rounded(const std::byte* address, std::uintptr_t up) {
  const auto at = reinterpret_cast<std::uintptr_t>(address) + up;
  return reinterpret_cast<std::byte*>(at - at % page_bytes());
}

/// Reads one byte of each page, where the kernel cannot do it (before Linux 5.14).
void touch(const std::byte* begin, const std::byte* end) {
  for (const volatile std::byte* at = begin; at < end; at += page_bytes()) (void)*at;
}

Status prefault(std::byte* begin, std::byte* end) {
  const auto bytes = static_cast<std::size_t>(end - begin);
  if (madvise(begin, bytes, MADV_POPULATE_READ) == 0) return {};
  if (errno != EINVAL)
    return fail(ErrorCode::kIoError, "weights cannot be read into memory: {}",
                std::strerror(errno));
  touch(begin, end);
  return {};
}

Status lock(std::byte* begin, std::byte* end) {
  const auto bytes = static_cast<std::size_t>(end - begin);
  if (mlock(begin, bytes) == 0) return {};
  const int cause = errno;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return fail(ErrorCode::kResourceLimit,
              "{} bytes of weights cannot be locked: {} (the process may lock {} bytes in all)",
              bytes, std::strerror(cause), limit.rlim_cur);
}

}  // namespace

void WeightPages::add(const Blob& blob) {
  const std::span bytes = blob.bytes;
  if (mode_ == WeightMemory::kOnDemand || bytes.empty()) return;
  owners_.push_back(blob.owner);
  pages_.push_back(
      {rounded(bytes.data(), 0), rounded(bytes.data() + bytes.size(), page_bytes() - 1)});
}

/// Blobs are side by side: one call serves many.
void WeightPages::merge() {
  std::ranges::sort(pages_, std::less<>(), &Pages::begin);
  std::vector<Pages> merged;
  for (const Pages& next : pages_) {
    if (!merged.empty() && next.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, next.end);
    else
      merged.push_back(next);
  }
  pages_ = std::move(merged);
}

Status WeightPages::prepare() {
  merge();
  for (const Pages& pages : pages_) {
    CTXGEN_CHECK(prefault(pages.begin, pages.end));
    if (mode_ == WeightMemory::kLock) CTXGEN_CHECK(lock(pages.begin, pages.end));
  }
  pages_.clear();
  owners_.clear();
  return {};
}

}  // namespace ctxgen
