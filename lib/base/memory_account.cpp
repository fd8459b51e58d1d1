#include "ctxgen/base/memory_account.h"

#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

std::unexpected<Error> beyond(std::uint64_t bytes, std::uint64_t used, std::uint64_t limit) {
  return fail(ErrorCode::kResourceLimit,
              "{} bytes on top of {} exceed the memory limit of {} bytes", bytes, used, limit);
}

}  // namespace

Status MemoryAccount::charge(std::uint64_t bytes) {
  std::uint64_t used = used_bytes();
  do {
    if (!range_fits(used, bytes, limit_bytes_)) return beyond(bytes, used, limit_bytes_);
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return {};
}

Status MemoryAccount::check(std::uint64_t bytes) const {
  const std::uint64_t used = used_bytes();
  if (!range_fits(used, bytes, limit_bytes_)) return beyond(bytes, used, limit_bytes_);
  return {};
}

Status MemoryCharge::resize(std::uint64_t bytes) {
  if (!account_) return {};
  if (bytes > bytes_)
    CTXGEN_CHECK(account_->charge(bytes - bytes_));
  else
    account_->release(bytes_ - bytes);
  bytes_ = bytes;
  return {};
}

}  // namespace ctxgen
