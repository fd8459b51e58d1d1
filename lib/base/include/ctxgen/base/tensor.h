#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/data_type.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// The largest rank of a tensor that ctxgen takes (oneDNN's limit too). Importers refuse more.
inline constexpr std::size_t kMaxRank = 12;

/// Concrete dimensions of a tensor, in elements, none negative. No heap memory.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> dims) : Dims(std::span(dims.begin(), dims.size())) {}
  explicit Dims(std::span<const std::int64_t> dims) {
    for (std::int64_t dim : dims) push_back(dim);
  }
  Dims(std::size_t rank, std::int64_t value) {
    for (std::size_t i = 0; i < rank; ++i) push_back(value);
  }

  [[nodiscard]] std::size_t size() const { return rank_; }
  [[nodiscard]] bool empty() const { return rank_ == 0; }
  [[nodiscard]] std::int64_t& operator[](std::size_t i) { return dims_[i]; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const { return dims_[i]; }
  [[nodiscard]] std::int64_t back() const { return dims_[rank_ - 1]; }
  [[nodiscard]] const std::int64_t* begin() const { return dims_.data(); }
  [[nodiscard]] const std::int64_t* end() const { return dims_.data() + rank_; }
  [[nodiscard]] std::int64_t* begin() { return dims_.data(); }
  [[nodiscard]] std::int64_t* end() { return dims_.data() + rank_; }
  [[nodiscard]] std::span<const std::int64_t> span() const { return {dims_.data(), rank_}; }
  /// Requires size() < kMaxRank: importers check ranks before they build a Dims.
  void push_back(std::int64_t dim) {
    CTXGEN_ASSERT(rank_ < kMaxRank);
    dims_[rank_++] = dim;
  }
  void clear() { rank_ = 0; }
  [[nodiscard]] bool operator==(const Dims& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::size_t rank_ = 0;
};

/// "[1, 3, 224, 224]".
[[nodiscard]] std::string to_string(const Dims& dims);

/// What the other dims of a tensor with a dim of 0 may multiply to: so that products of the dims of
/// two tensors do not overflow where no data in memory bounds them.
inline constexpr std::uint64_t kMaxEmptyExtent = std::uint64_t{1} << 31;

/// Product of the dims; nothing if one is negative, the product passes 2^63 - 1, or it is 0 and the
/// dims other than 0 multiply to more than kMaxEmptyExtent.
[[nodiscard]] std::optional<std::uint64_t> checked_element_count(const Dims& dims);

/// Bytes of a dense tensor (sub-byte types packed, rounded up over the whole tensor), or nothing
/// where the product overflows. 0 for strings.
[[nodiscard]] std::optional<std::uint64_t> checked_size_bytes(DataType type, const Dims& dims);

/// Product of dims that are known to be small enough (those of an existing tensor).
[[nodiscard]] std::int64_t element_count(const Dims& dims);

/// A dense row-major tensor that borrows its bytes. `data` may have any alignment.
struct TensorView {
  DataType type = DataType::kUndefined;
  Dims dims;
  const std::byte* data = nullptr;
  [[nodiscard]] std::uint64_t size_bytes() const;
};

/// A dense row-major tensor that shares ownership of its bytes (heap memory, or a mapped file).
///
/// Lifetime  copies share the bytes. A tensor that another copy can see is never written.
/// Units     `bytes` holds packed sub-byte elements low bits first, as ONNX raw_data.
class Tensor {
 public:
  Tensor() = default;

  /// New memory, 64-byte aligned, not initialised (strings: empty strings).
  /// Errors: RESOURCE_LIMIT if the size overflows, passes kMaxTensorBytes or memory runs out.
  [[nodiscard]] static Result<Tensor> allocate(DataType type, const Dims& dims);
  /// Bytes owned by `owner` (a mapped file, a blob). Requires bytes.size() == size of the dims.
  [[nodiscard]] static Tensor borrow(DataType type, const Dims& dims,
                                     std::shared_ptr<const void> owner,
                                     std::span<const std::byte> bytes);
  [[nodiscard]] static Tensor of_strings(const Dims& dims, std::vector<std::string> strings);

  /// The same bytes seen with other dims of the same element count.
  [[nodiscard]] Tensor with_dims(const Dims& dims) const;

  [[nodiscard]] DataType type() const { return type_; }
  [[nodiscard]] const Dims& dims() const { return dims_; }
  [[nodiscard]] std::size_t rank() const { return dims_.size(); }
  [[nodiscard]] std::int64_t element_count() const { return ctxgen::element_count(dims_); }
  [[nodiscard]] bool is_string() const { return type_ == DataType::kString; }
  [[nodiscard]] bool defined() const { return type_ != DataType::kUndefined; }

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  /// Only for the creator, before the tensor is shared.
  [[nodiscard]] std::span<std::byte> mutable_bytes() { return {data_, size_bytes_}; }
  [[nodiscard]] TensorView view() const { return {type_, dims_, data_}; }
  [[nodiscard]] const std::shared_ptr<const void>& owner() const { return owner_; }

  /// Elements as T. Requires sizeof(T) * 8 == bits_of(type()) and data aligned for T (memory of
  /// allocate() is; mapped bytes may not be: use to_vector or read_element there).
  template <class T>
  [[nodiscard]] std::span<const T> elements() const {
    return {reinterpret_cast<const T*>(data_), size_bytes_ / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<T> mutable_elements() {
    return {reinterpret_cast<T*>(data_), size_bytes_ / sizeof(T)};
  }
  [[nodiscard]] std::span<const std::string> strings() const;
  [[nodiscard]] std::span<std::string> mutable_strings();

  /// Copies into aligned memory unless the bytes are aligned for 64-byte loads already.
  [[nodiscard]] Result<Tensor> aligned() const;

 private:
  DataType type_ = DataType::kUndefined;
  Dims dims_;
  std::shared_ptr<const void> owner_;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

/// No tensor may be larger, whatever a model declares (1 TiB: above every machine this runs on).
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 40;

}  // namespace ctxgen
