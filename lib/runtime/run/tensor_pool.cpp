#include "run/tensor_pool.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/working_memory.h"

namespace ctxgen {

/// Large buffers that callers have let go of. The system gives new ones page by page, each filled with zeros first: a
/// run that writes logits of 64 MB takes a fifth longer so.
///
/// Threads  any: callers let go of tensors where they like, also after the pool has ended.
class TensorPool::Returned {
 public:
  static constexpr std::uint64_t kLeastBytes = std::uint64_t{1}
                                               << 20U;  // malloc keeps smaller ones itself

  ~Returned() { clear(); }

  /// Takes the buffer, or frees it where `most_bytes` wait already.
  void give(void* memory, std::uint64_t capacity_bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (capacity_bytes >= kLeastBytes && capacity_bytes <= most_bytes_ - bytes_) {
        buffers_.push_back({capacity_bytes, memory});
        bytes_ += capacity_bytes;
        return;
      }
    }
    std::free(memory);
  }
  /// One of exactly that capacity; null: there is none.
  void* take(std::uint64_t capacity_bytes) {
    const std::lock_guard lock(mutex_);
    const auto fit = std::ranges::find(buffers_, capacity_bytes, &Buffer::capacity_bytes);
    if (fit == buffers_.end()) return nullptr;
    void* memory = fit->memory;
    buffers_.erase(fit);
    bytes_ -= capacity_bytes;
    return memory;
  }
  /// Frees what waits; from now on up to `most_bytes` may.
  void clear(std::uint64_t most_bytes = 0) {
    const std::lock_guard lock(mutex_);
    for (const Buffer& buffer : buffers_) std::free(buffer.memory);
    buffers_.clear();
    bytes_ = 0;
    most_bytes_ = most_bytes;
  }

 private:
  struct Buffer {
    std::uint64_t capacity_bytes;
    void* memory;
  };
  std::mutex mutex_;
  std::vector<Buffer> buffers_;
  std::uint64_t bytes_ = 0, most_bytes_ = 0;
};

namespace {

/// Marks memory as a pool's: std::get_deleter finds it behind a type-erased owner, so that memory
/// of other makers (mapped files, the caller) is never taken for the pool's.
struct PoolDeleter {
  std::uint64_t capacity_bytes = 0;
  std::shared_ptr<MemoryAccount> account;
  void operator()(const void* memory) const {
    std::free(const_cast<void*>(memory));
    account->release(capacity_bytes);
  }
};

/// Of memory that leaves with the caller.
struct LastingDeleter {
  std::uint64_t capacity_bytes = 0;
  std::shared_ptr<MemoryAccount> account;
  std::weak_ptr<TensorPool::Returned> returned;
  void operator()(const void* memory) const {
    account->release(capacity_bytes);
    if (const auto to = returned.lock())
      to->give(const_cast<void*>(memory), capacity_bytes);
    else
      std::free(const_cast<void*>(memory));
  }
};

/// The same for strings, which grow after they were made.
struct StringsDeleter {
  std::uint64_t charged_bytes = 0;
  bool settled = false;
  std::shared_ptr<MemoryAccount> account;
  void operator()(const void* strings) const {
    delete static_cast<const std::vector<std::string>*>(strings);
    account->release(charged_bytes);
  }
};

/// Strings of another maker, counted while they are in use.
struct CountedStrings {
  std::shared_ptr<const void> owner;
  std::uint64_t bytes = 0;
  std::shared_ptr<MemoryAccount> account;
  void operator()(const void*) const { account->release(bytes); }
};

std::uint64_t memory_of(std::span<const std::string> strings) {
  std::uint64_t bytes = strings.size() * sizeof(std::string);
  for (const std::string& text : strings)
    if (text.capacity() >= sizeof(std::string)) bytes += text.capacity();  // else: in the object
  return bytes;
}

/// A free buffer may be this much larger than what is asked.
constexpr std::uint64_t kSlackBytes = 4096;
/// Room for growth makes no buffer larger than this: what it is for has a number for each token.
constexpr std::uint64_t kMostRoomBytes = std::uint64_t{1} << 20U;

}  // namespace

TensorPool::TensorPool(std::uint64_t limit_bytes)
    : account_(std::make_shared<MemoryAccount>(limit_bytes)),
      returned_(std::make_shared<Returned>()),
      scratch_(limit_bytes) {}

Result<void*> TensorPool::new_memory(std::uint64_t capacity_bytes) {
  if (!account_->check(capacity_bytes)) {  // kept for later runs: this one needs it
    free_.clear();
    returned_->clear();
  }
  CTXGEN_CHECK(account_->charge(capacity_bytes));
  void* memory = allocate_working_memory(capacity_bytes);
  if (memory == nullptr) {
    account_->release(capacity_bytes);
    return fail(ErrorCode::kResourceLimit, "out of memory for a tensor of {} bytes",
                capacity_bytes);
  }
  allocated_bytes_ += capacity_bytes;
  return memory;
}

Result<Tensor> TensorPool::strings(const Dims& dims) {
  const auto count = checked_element_count(dims);
  const auto bytes = count ? checked_mul(*count, sizeof(std::string)) : std::nullopt;
  if (!bytes)
    return fail(ErrorCode::kResourceLimit, "string tensor {} has too many elements",
                to_string(dims));
  CTXGEN_CHECK(account_->check(*bytes));
  auto owned = std::make_unique<std::vector<std::string>>(*count);
  CTXGEN_CHECK(account_->charge(*bytes));
  return Tensor::borrow(
      DataType::kString, dims,
      std::shared_ptr<const void>(owned.release(), StringsDeleter{*bytes, false, account_}), {});
}

std::uint64_t TensorPool::with_room(std::uint64_t size_bytes) {
  if (runs_left_ == 0) return size_bytes;
  if (place_ == sizes_.size()) sizes_.push_back(size_bytes);
  const std::uint64_t before = std::exchange(sizes_[place_++], size_bytes);
  if (size_bytes <= before || size_bytes >= kMostRoomBytes) return size_bytes;
  const auto growth = checked_mul(size_bytes - before, runs_left_);
  const std::uint64_t most = kMostRoomBytes - size_bytes;
  const std::uint64_t roomy = size_bytes + std::min(growth.value_or(most), most);
  return account_->check(roomy) ? roomy : size_bytes;
}

Result<Tensor> TensorPool::allocate(DataType type, const Dims& dims) {
  if (type == DataType::kString) return strings(dims);
  const auto bytes = checked_size_bytes(type, dims);
  // Sizes that have no answer: Tensor::allocate has the rules and the messages.
  if (!bytes || *bytes > kMaxTensorBytes) return Tensor::allocate(type, dims);
  const std::uint64_t wanted = align_up(std::max<std::uint64_t>(with_room(*bytes), 1), 64);
  const auto fit = std::ranges::lower_bound(free_, wanted, {}, &Free::capacity_bytes);
  std::shared_ptr<const void> owner;
  if (fit != free_.end() && fit->capacity_bytes <= 2 * wanted + kSlackBytes) {
    owner = std::move(fit->owner);
    free_.erase(fit);
  } else {
    owner = {CTXGEN_TRY(new_memory(wanted)), PoolDeleter{wanted, account_}};
    ++allocations_;
  }
  const auto* data = static_cast<const std::byte*>(owner.get());
  return Tensor::borrow(type, dims, std::move(owner), std::span(data, *bytes));
}

Result<Tensor> TensorPool::allocate_lasting(DataType type, const Dims& dims) {
  if (type == DataType::kString) return strings(dims);
  const auto bytes = checked_size_bytes(type, dims);
  if (!bytes || *bytes > kMaxTensorBytes) return Tensor::allocate(type, dims);
  const std::uint64_t wanted = align_up(std::max<std::uint64_t>(*bytes, 1), 64);
  void* memory = returned_->take(wanted);
  if (memory == nullptr)
    memory = CTXGEN_TRY(new_memory(wanted));
  else if (Status charged = account_->charge(wanted); !charged)
    return returned_->give(memory, wanted), std::unexpected(charged.error());
  lasting_bytes_ += wanted;
  std::shared_ptr<const void> owner(memory, LastingDeleter{wanted, account_, returned_});
  return Tensor::borrow(type, dims, std::move(owner),
                        std::span(static_cast<const std::byte*>(memory), *bytes));
}

Status TensorPool::settle(Tensor& strings) {
  auto* deleter = std::get_deleter<StringsDeleter>(strings.owner());
  const auto& owner = strings.owner();
  if (deleter == nullptr && std::get_deleter<CountedStrings>(owner) == nullptr) {
    const std::uint64_t bytes = memory_of(strings.strings());
    CTXGEN_CHECK(account_->charge(bytes));
    std::shared_ptr<const void> counted(owner.get(), CountedStrings{owner, bytes, account_});
    strings = Tensor::borrow(DataType::kString, strings.dims(), std::move(counted), {});
    return {};
  }
  if (deleter == nullptr || deleter->settled) return {};
  const std::uint64_t bytes = memory_of(strings.strings());
  if (bytes > deleter->charged_bytes)
    CTXGEN_CHECK(deleter->account->charge(bytes - deleter->charged_bytes));
  deleter->charged_bytes = std::max(bytes, deleter->charged_bytes);
  deleter->settled = true;
  return {};
}

void TensorPool::release(RuntimeValue&& value) {
  const RuntimeValue last = std::exchange(value, RuntimeValue());
  if (!last.is_tensor()) return;
  const auto& owner = last.tensor().owner();
  if (owner.use_count() != 1) return;
  const auto* deleter = std::get_deleter<PoolDeleter>(owner);
  if (deleter == nullptr || deleter->account != account_) return;
  const auto place =
      std::ranges::lower_bound(free_, deleter->capacity_bytes, {}, &Free::capacity_bytes);
  free_.insert(place, Free{deleter->capacity_bytes, run_, owner});
}

void TensorPool::end_run() {
  scratch_.end_run();
  place_ = 0;
  std::erase_if(free_, [this](const Free& entry) { return entry.last_run + 1 < run_; });
  returned_->clear(std::exchange(lasting_bytes_, 0));
  ++run_;
  if (account_.use_count() == 1 + static_cast<long>(free_.size())) return;
  // Somebody outside holds memory of this run: it is the caller's now, and counts no longer.
  const auto next = std::make_shared<MemoryAccount>(account_->limit_bytes());
  for (const Free& entry : free_) {
    auto* deleter = std::get_deleter<PoolDeleter>(entry.owner);
    deleter->account->release(deleter->capacity_bytes);
    if (!next->charge(deleter->capacity_bytes)) CTXGEN_ASSERT(!"charged before");
    deleter->account = next;
  }
  account_ = next;
}

}  // namespace ctxgen
