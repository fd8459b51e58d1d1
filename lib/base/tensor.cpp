#include "ctxgen/base/tensor.h"

#include <cstdlib>
#include <cstring>
#include <format>

#include "ctxgen/base/checked.h"

#include "own_memory.h"

namespace ctxgen {

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i)
    text += std::format("{}{}", i == 0 ? "" : ", ", dims[i]);
  return text + "]";
}

std::optional<std::uint64_t> checked_element_count(const Dims& dims) {
  std::uint64_t count = 1;
  bool has_zero = false;
  for (std::int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      has_zero = true;
      continue;
    }
    const auto product = checked_mul(count, static_cast<std::uint64_t>(dim));
    if (!product || *product > INT64_MAX) return std::nullopt;
    count = *product;
  }
  if (has_zero && count > kMaxEmptyExtent) return std::nullopt;
  return has_zero ? 0 : count;
}

std::optional<std::uint64_t> checked_size_bytes(DataType type, const Dims& dims) {
  const auto count = checked_element_count(dims);
  if (!count) return std::nullopt;
  const auto bits = checked_mul(*count, bits_of(type));
  if (!bits) return std::nullopt;
  return *bits / 8 + (*bits % 8 != 0 ? 1 : 0);
}

std::int64_t element_count(const Dims& dims) {
  std::int64_t count = 1;
  for (std::int64_t dim : dims) count *= dim;
  return count;
}

std::uint64_t TensorView::size_bytes() const { return checked_size_bytes(type, dims).value_or(0); }

Result<Tensor> Tensor::allocate(DataType type, const Dims& dims) {
  Tensor tensor;
  tensor.type_ = type;
  tensor.dims_ = dims;
  const auto count = checked_element_count(dims);
  if (!count)
    return fail(ErrorCode::kResourceLimit, "tensor {} {} has too many elements", name_of(type),
                to_string(dims));
  if (type == DataType::kString) {
    if (*count > kMaxTensorBytes / sizeof(std::string))
      return fail(ErrorCode::kResourceLimit, "string tensor {} is too large", to_string(dims));
    tensor.owner_ = std::make_shared<std::vector<std::string>>(*count);
    return tensor;
  }
  const auto bytes = checked_size_bytes(type, dims);
  if (!bytes || *bytes > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "tensor {} {} needs more than {} bytes", name_of(type),
                to_string(dims), kMaxTensorBytes);
  tensor.size_bytes_ = *bytes;
  void* memory = std::aligned_alloc(64, align_up(std::max<std::uint64_t>(*bytes, 1), 64));
  if (memory == nullptr)
    return fail(ErrorCode::kResourceLimit, "out of memory for a tensor of {} bytes", *bytes);
  tensor.owner_ = std::shared_ptr<void>(memory, FreeOwnMemory());
  tensor.data_ = static_cast<std::byte*>(memory);
  return tensor;
}

Tensor Tensor::borrow(DataType type, const Dims& dims, std::shared_ptr<const void> owner,
                      std::span<const std::byte> bytes) {
  CTXGEN_ASSERT(checked_size_bytes(type, dims) == bytes.size());
  Tensor tensor;
  tensor.type_ = type;
  tensor.dims_ = dims;
  tensor.owner_ = std::move(owner);
  // Never written through: mutable_bytes() is for tensors made by allocate().
  tensor.data_ = const_cast<std::byte*>(bytes.data());
  tensor.size_bytes_ = bytes.size();
  return tensor;
}

Tensor Tensor::of_strings(const Dims& dims, std::vector<std::string> strings) {
  CTXGEN_ASSERT(checked_element_count(dims) == strings.size());
  Tensor tensor;
  tensor.type_ = DataType::kString;
  tensor.dims_ = dims;
  tensor.owner_ = std::make_shared<std::vector<std::string>>(std::move(strings));
  return tensor;
}

Tensor Tensor::with_dims(const Dims& dims) const {
  CTXGEN_ASSERT(ctxgen::element_count(dims) == element_count());
  Tensor tensor = *this;
  tensor.dims_ = dims;
  return tensor;
}

std::span<const std::string> Tensor::strings() const {
  CTXGEN_ASSERT(is_string());
  return *static_cast<const std::vector<std::string>*>(owner_.get());
}

std::span<std::string> Tensor::mutable_strings() {
  CTXGEN_ASSERT(is_string());
  return *static_cast<std::vector<std::string>*>(const_cast<void*>(owner_.get()));
}

Result<Tensor> Tensor::aligned() const {
  if (is_string() || reinterpret_cast<std::uintptr_t>(data_) % 64 == 0) return *this;
  Tensor copy = CTXGEN_TRY(allocate(type_, dims_));
  std::memcpy(copy.data_, data_, size_bytes_);
  return copy;
}

}  // namespace ctxgen
