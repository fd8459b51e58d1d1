#include "ops/values/stacked_slices.h"

#include <algorithm>

#include "kernel/string_memory.h"

namespace ctxgen::cpu {
namespace {

// The least that is worth taking at once, and the most that is taken before it is needed unless a
// quarter of what the run may hold is more: a trip count may be huge and the loop end early.
constexpr std::int64_t kLeastCapacity = 16;
constexpr std::uint64_t kEagerBytes = 64ull << 20;

}  // namespace

Stack::Stack(KernelContext& context, std::int64_t expected)
    : context_(context), expected_(expected), string_charge_(context.memory()) {}

Dims Stack::dims_of(std::int64_t count) const {
  Dims dims{count};
  for (const std::int64_t dim : slice_dims_) dims.push_back(dim);
  return dims;
}

std::int64_t Stack::first_capacity() const {
  if (expected_ < 0) return kLeastCapacity;
  const auto memory = context_.memory();
  const std::uint64_t left =
      memory ? (memory->limit_bytes() - std::min(memory->used_bytes(), memory->limit_bytes())) / 4
             : 0;
  const std::uint64_t most = std::max(kEagerBytes, left) / std::max<std::uint64_t>(slice_bytes_, 1);
  return std::max(kLeastCapacity, static_cast<std::int64_t>(std::min<std::uint64_t>(
                                      static_cast<std::uint64_t>(expected_), most)));
}

Status Stack::grow(std::int64_t capacity) {
  if (expected_ >= 0) capacity = std::min(capacity, std::max(expected_, size_ + 1));
  Tensor memory = CTXGEN_TRY(context_.make_tensor(type_, dims_of(capacity)));
  if (size_ > 0)
    std::memcpy(memory.mutable_bytes().data(), memory_.bytes().data(),
                static_cast<std::uint64_t>(size_) * slice_bytes_);
  context_.recycle(std::exchange(memory_, std::move(memory)));
  capacity_ = capacity;
  return {};
}

Status Stack::start(const Tensor& slice) {
  if (slice.rank() == kMaxRank)
    return fail(ErrorCode::kUnsupported, "stacked tensors of rank {}", slice.rank());
  if (!slice.is_string() && bits_of(slice.type()) < 8)
    return fail(ErrorCode::kUnsupported, "stacked tensors of type {}", name_of(slice.type()));
  type_ = slice.type();
  slice_dims_ = slice.dims();
  slice_bytes_ = slice.bytes().size();
  return {};
}

Status Stack::append_strings(const Tensor& slice) {
  CTXGEN_CHECK(string_charge_.resize(string_charge_.bytes() + bytes_of_copies(slice.strings())));
  strings_.insert(strings_.end(), slice.strings().begin(), slice.strings().end());
  ++size_;
  return {};
}

Status Stack::append(const Tensor& slice) {
  if (size_ == 0) CTXGEN_CHECK(start(slice));
  if (slice.type() != type_ || !(slice.dims() == slice_dims_))
    return fail(ErrorCode::kInvalidGraph, "is {} {} in iteration {}, but was {} {} before",
                name_of(slice.type()), to_string(slice.dims()), size_, name_of(type_),
                to_string(slice_dims_));
  if (slice.is_string()) return append_strings(slice);
  if (size_ == capacity_) CTXGEN_CHECK(grow(capacity_ == 0 ? first_capacity() : 2 * capacity_));
  if (slice_bytes_ > 0)
    std::memcpy(memory_.mutable_bytes().data() + static_cast<std::uint64_t>(size_) * slice_bytes_,
                slice.bytes().data(), slice_bytes_);
  ++size_;
  return {};
}

Status Stack::finish(std::size_t output_index) {
  const Dims dims = dims_of(size_);
  if (type_ == DataType::kString) {
    Tensor* output = CTXGEN_TRY(context_.make_output(output_index, type_, dims));
    std::ranges::move(strings_, output->mutable_strings().begin());
    return {};
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(size_) * slice_bytes_;
  if (2 * size_ >= capacity_) {  // most of it is used: the rest is not worth a copy
    context_.set_output(output_index,
                        Tensor::borrow(type_, dims, memory_.owner(), memory_.bytes().first(bytes)));
    return {};
  }
  Tensor* output = CTXGEN_TRY(context_.make_output(output_index, type_, dims));
  if (bytes > 0) std::memcpy(output->mutable_bytes().data(), memory_.bytes().data(), bytes);
  return {};
}

}  // namespace ctxgen::cpu
