#include "tensor_pool.h"

#include <algorithm>
#include <cstdlib>
#include <span>

#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

/// Marks memory as a pool's: std::get_deleter finds it behind a type-erased owner, so that memory
/// of other makers (mapped files, the caller) is never taken for the pool's.
struct PoolDeleter {
  std::uint64_t capacity_bytes = 0;
  void operator()(const void* memory) const { std::free(const_cast<void*>(memory)); }
};

/// A free buffer may be this much larger than what is asked.
constexpr std::uint64_t kSlackBytes = 4096;

}  // namespace

Result<Tensor> TensorPool::allocate(DataType type, const Dims& dims) {
  const auto bytes = checked_size_bytes(type, dims);
  // Strings, and sizes that have no answer: Tensor::allocate has the rules and the messages.
  if (type == DataType::kString || !bytes || *bytes > kMaxTensorBytes)
    return Tensor::allocate(type, dims);
  const std::uint64_t wanted = align_up(std::max<std::uint64_t>(*bytes, 1), 64);
  const auto fit = std::ranges::lower_bound(free_, wanted, {}, &Free::capacity_bytes);
  std::shared_ptr<const void> owner;
  if (fit != free_.end() && fit->capacity_bytes <= 2 * wanted + kSlackBytes) {
    owner = std::move(fit->owner);
    free_.erase(fit);
  } else {
    void* memory = std::aligned_alloc(64, wanted);
    if (memory == nullptr)
      return fail(ErrorCode::kResourceLimit, "out of memory for a tensor of {} bytes", *bytes);
    owner = std::shared_ptr<const void>(memory, PoolDeleter{wanted});
    ++allocations_;
  }
  const auto* data = static_cast<const std::byte*>(owner.get());
  return Tensor::borrow(type, dims, std::move(owner), std::span(data, *bytes));
}

void TensorPool::release(Tensor&& tensor) {
  const Tensor last = std::move(tensor);
  tensor = Tensor();
  const auto& owner = last.owner();
  if (owner.use_count() != 1) return;
  const auto* deleter = std::get_deleter<PoolDeleter>(owner);
  if (deleter == nullptr) return;
  const auto place = std::ranges::lower_bound(free_, deleter->capacity_bytes, {},
                                              &Free::capacity_bytes);
  free_.insert(place, Free{deleter->capacity_bytes, run_, owner});
}

void TensorPool::end_run() {
  std::erase_if(free_, [this](const Free& entry) { return entry.last_run + 1 < run_; });
  ++run_;
}

}  // namespace ctxgen
