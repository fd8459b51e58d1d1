#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// How many bytes may be held at once, and how many are held now.
///
/// Threads  any: what is charged in one thread may be given back in another.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Errors  RESOURCE_LIMIT, and nothing is charged.
  [[nodiscard]] Status charge(std::uint64_t bytes);
  void release(std::uint64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// Whether a charge would pass now: for sizes that are only known to be no larger.
  [[nodiscard]] Status check(std::uint64_t bytes) const;

  [[nodiscard]] std::uint64_t used_bytes() const {
    return used_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  std::uint64_t limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_ = 0;
};

/// Bytes charged to an account until this object ends. Without an account: nothing is counted.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  explicit MemoryCharge(std::shared_ptr<MemoryAccount> account) : account_(std::move(account)) {}
  ~MemoryCharge() { clear(); }
  MemoryCharge(MemoryCharge&& other) noexcept
      : account_(std::move(other.account_)), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    clear();
    account_ = std::move(other.account_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  /// Errors  RESOURCE_LIMIT; the charge stays what it was.
  [[nodiscard]] Status resize(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void clear() {
    if (account_) account_->release(bytes_);
    bytes_ = 0;
  }
  std::shared_ptr<MemoryAccount> account_;
  std::uint64_t bytes_ = 0;
};

}  // namespace ctxgen
