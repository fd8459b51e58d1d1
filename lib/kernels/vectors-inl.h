// Vectors of floats in registers. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_VECTORS_INL_H
#undef CTXGEN_KERNELS_VECTORS_INL_H
#else
#define CTXGEN_KERNELS_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

// Lanes of a vector as a constant: all our instruction sets have one.
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());

/// A vector of elements, or the first `count` of one where it is not whole.
template <bool kWhole>
HWY_INLINE FloatVector load(const float* from, std::size_t count) {
  if constexpr (kWhole) return hn::LoadU(Floats(), from);
  return hn::LoadN(Floats(), from, count);
}

template <bool kWhole>
HWY_INLINE void store(FloatVector x, float* to, std::size_t count) {
  if constexpr (kWhole)
    hn::StoreU(x, Floats(), to);
  else
    hn::StoreN(x, Floats(), to, count);
}

/// NaN stays: it compares as neither, and x86's Max and Min return their second operand then.
HWY_INLINE FloatVector clamp(FloatVector x, FloatVector low, FloatVector high) {
#if HWY_ARCH_X86
  return hn::Min(high, hn::Max(low, x));
#else
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(x, high), high, x);
#endif
}

// A lambda whose code becomes the caller's: sums whose address it took stay in registers.
#undef CTXGEN_UNROLLED
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
#define CTXGEN_UNROLLED HWY_ATTR __attribute__((always_inline))
#else
#define CTXGEN_UNROLLED HWY_ATTR
#endif

/// Calls function with each number below kCount as a constant.
template <std::size_t kCount>
HWY_INLINE void unrolled(const auto& function) {
  [&]<std::size_t... k>(std::index_sequence<k...>) CTXGEN_UNROLLED {
    (function(std::integral_constant<std::size_t, k>()), ...);
  }(std::make_index_sequence<kCount>());
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
