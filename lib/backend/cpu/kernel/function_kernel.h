#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "ctxgen/base/half.h"
#include "ctxgen/cpu/kernel.h"

// What every family of kernels needs: kernels made of a lambda, inputs that must be there, and
// dispatch on element types.

namespace ctxgen::cpu {

/// A 16-bit float as an element: computes as float, rounds on assignment.
template <float (*Widen)(std::uint16_t), std::uint16_t (*Narrow)(float)>
struct ShortFloat {
  std::uint16_t bits;
  ShortFloat() = default;
  explicit ShortFloat(float value) : bits(Narrow(value)) {}
  explicit operator float() const { return Widen(bits); }
};
using Half = ShortFloat<float16_to_float, float_to_float16>;
using Bf16 = ShortFloat<bfloat16_to_float, float_to_bfloat16>;

/// A bool as an element: any byte but 0 is true, so that bytes of a file are safe to read.
struct Bit {
  std::uint8_t byte;
  Bit() = default;
  explicit Bit(bool value) : byte(value ? 1 : 0) {}
  explicit operator bool() const { return byte != 0; }
};

template <class T>
inline constexpr bool kIsShortFloat = std::is_same_v<T, Half> || std::is_same_v<T, Bf16>;
template <class T>
inline constexpr bool kIsFloating = std::is_floating_point_v<T> || kIsShortFloat<T>;

/// The type that single elements are computed in, and the one that sums are kept in.
template <class T>
using Compute = std::conditional_t<kIsShortFloat<T>, float,
                                   std::conditional_t<std::is_same_v<T, Bit>, bool, T>>;
template <class T>
using Accumulate =
    std::conditional_t<kIsFloating<T>, double,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

template <class T>
[[nodiscard]] constexpr Compute<T> load(T value) {
  return static_cast<Compute<T>>(value);
}
/// The integer that a float is cut to. What does not fit is undefined in ONNX and saturates here (NaN:
/// 0), so that no input is undefined behaviour.
template <std::integral T>
[[nodiscard]] constexpr T saturated(double value) {
  using Limits = std::numeric_limits<T>;
  if (value != value) return T(0);
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(value);
}

/// Rounds a computed value to the element type.
template <class T, class V>
[[nodiscard]] constexpr T store(V value) {
  if constexpr (kIsShortFloat<T>)
    return T(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, Bit>)
    return Bit(value != V(0));
  else if constexpr (std::integral<T> && std::is_floating_point_v<V>)
    return saturated<T>(value);
  else
    return static_cast<T>(value);
}

template <class... Ts>
struct Types {};
using FloatTypes = Types<float, double>;
using RealTypes = Types<float, double, Half, Bf16>;
using SignedTypes =
    Types<float, double, Half, Bf16, std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
using IntTypes = Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                       std::uint16_t, std::uint32_t, std::uint64_t>;
using NumericTypes = Types<float, double, Half, Bf16, std::int8_t, std::int16_t, std::int32_t,
                           std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
using NumericAndBoolTypes =
    Types<float, double, Half, Bf16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
          std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, Bit>;
using IndexTypes = Types<std::int32_t, std::int64_t>;

template <class T>
inline constexpr DataType kElementTypeOf = kDataTypeOf<T>;
template <>
inline constexpr DataType kElementTypeOf<Bit> = DataType::kBool;
template <>
inline constexpr DataType kElementTypeOf<std::string> = DataType::kString;
template <>
inline constexpr DataType kElementTypeOf<Half> = DataType::kFloat16;
template <>
inline constexpr DataType kElementTypeOf<Bf16> = DataType::kBfloat16;

/// Calls f.operator()<T>() for the T that `type` stands for; UNSUPPORTED if it is none of them.
template <class... Ts, class F>
[[nodiscard]] Status dispatch(Types<Ts...>, DataType type, F&& f) {
  Status status;
  const bool found =
      ((type == kElementTypeOf<Ts> && (status = f.template operator()<Ts>(), true)) || ...);
  if (!found)
    return fail(ErrorCode::kUnsupported, "element type {} is not supported here", name_of(type));
  return status;
}

/// Storage of one element of 1, 2, 4, 8 or 16 bytes, or a string: for kernels that only move data.
struct Bytes16 {
  std::uint64_t low, high;
  [[nodiscard]] bool operator==(const Bytes16&) const = default;
};
template <class F>
[[nodiscard]] Status dispatch_storage(DataType type, F&& f) {
  if (type == DataType::kString) return f.template operator()<std::string>();
  switch (bits_of(type)) {
    case 8: return f.template operator()<std::uint8_t>();
    case 16: return f.template operator()<std::uint16_t>();
    case 32: return f.template operator()<std::uint32_t>();
    case 64: return f.template operator()<std::uint64_t>();
    case 128: return f.template operator()<Bytes16>();
    default:
      return fail(ErrorCode::kUnsupported, "element type {} is not supported here", name_of(type));
  }
}

template <class T>
[[nodiscard]] const T* data_of(const Tensor& tensor) {
  if constexpr (std::is_same_v<T, std::string>)
    return tensor.strings().data();
  else
    return reinterpret_cast<const T*>(tensor.bytes().data());
}
template <class T>
[[nodiscard]] T* mutable_data_of(Tensor& tensor) {
  if constexpr (std::is_same_v<T, std::string>)
    return tensor.mutable_strings().data();
  else
    return reinterpret_cast<T*>(tensor.mutable_bytes().data());
}

/// A kernel whose run() is `f(KernelContext&) -> Status`; f holds the attributes.
template <class F>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(F f) : f_(std::move(f)) {}
  [[nodiscard]] Status run(KernelContext& context) const override { return f_(context); }

 private:
  F f_;
};
using KernelResult = Result<std::unique_ptr<Kernel>>;
template <class F>
[[nodiscard]] KernelResult kernel(F f) {
  return std::make_unique<FunctionKernel<F>>(std::move(f));
}

/// The input, which must be there. Errors: INVALID_GRAPH.
[[nodiscard]] Result<const Tensor*> required(const KernelContext& context, std::size_t index);
/// nullptr for an absent input, also beyond the last one.
[[nodiscard]] const Tensor* optional_input(const KernelContext& context, std::size_t index);
/// The required input, of this element type.
[[nodiscard]] Result<const Tensor*> required(const KernelContext& context, std::size_t index,
                                             DataType type);
/// INVALID_GRAPH unless the types agree.
[[nodiscard]] Status same_type(const Tensor& a, const Tensor& b);
/// INVALID_GRAPH unless `tensor` has the dims.
[[nodiscard]] Status expect_dims(const Tensor& tensor, std::string_view what, const Dims& dims);
[[nodiscard]] Status expect_rank(const Tensor& tensor, std::string_view what, std::size_t least,
                                 std::size_t most = kMaxRank);

/// An axis counted from the front. Errors: INVALID_GRAPH unless -rank <= axis < rank.
[[nodiscard]] Result<std::size_t> normalize_axis(std::int64_t axis, std::size_t rank);
/// Products of dims before, at and after an axis.
struct AxisSplit {
  std::int64_t outer = 1, extent = 1, inner = 1;
};
[[nodiscard]] AxisSplit split_at(const Dims& dims, std::size_t axis);
[[nodiscard]] std::int64_t product(const Dims& dims, std::size_t first, std::size_t last);
/// Row-major strides in elements.
[[nodiscard]] Dims strides_of(const Dims& dims);

/// Errors  UNSUPPORTED where elements share a byte, for kernels that move them one by one.
[[nodiscard]] Status require_whole_bytes(const Tensor& tensor);
/// Copies elements (strings too, none that share a byte) between tensors of one element type.
void copy_elements(const Tensor& from, std::int64_t from_index, Tensor& to, std::int64_t to_index,
                   std::int64_t count);

inline constexpr std::string_view kOnnx = "";
inline constexpr std::string_view kMicrosoft = "com.microsoft";
inline constexpr std::string_view kOnnxMl = "ai.onnx.ml";

}  // namespace ctxgen::cpu
