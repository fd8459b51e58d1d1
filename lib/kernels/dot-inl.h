// Sums of products of four unsigned and four signed bytes in each 32-bit lane, and the rows of such products. Compiled once
// per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_DOT_INL_H
#undef CTXGEN_KERNELS_DOT_INL_H
#else
#define CTXGEN_KERNELS_DOT_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Shorts = hn::Repartition<std::int16_t, Floats>;
using Bytes = hn::Repartition<std::uint8_t, Floats>;
using SignedBytes = hn::Repartition<std::int8_t, Floats>;

// Keeps the compiler from sorting sums by kind of instruction, which makes it spill all of them:
// without it, few rows take 1.2 times as long on AVX2, many 1.6 times (g++ 16).
#undef CTXGEN_KEEP
#if HWY_ARCH_X86 && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
#define CTXGEN_KEEP(vector) __asm__("" : "+v"((vector).raw))
#else
#define CTXGEN_KEEP(vector)
#endif

/// sum += product. To keep the product, not the sum, costs no moves (1.12 times as fast on AVX2, Zen 5).
template <class Vector>
HWY_INLINE void add_kept(Vector& sum, Vector product) {
  CTXGEN_KEEP(product);
  sum = hn::Add(sum, product);
}

/// Four bytes.
template <class Byte>
HWY_INLINE std::int32_t load_four(const Byte* from) {
  static_assert(sizeof(Byte) == 1);
  std::int32_t four = 0;
  std::memcpy(&four, from, sizeof four);
  return four;
}
/// The same in each lane.
template <class Byte>
HWY_INLINE hn::Vec<Ints> spread_four(const Byte* from) {
  return hn::Set(Ints(), load_four(from));
}

/// Rows [first, ...) of `bytes` from one to the next, as pointers to every third: the others are at
/// distances that addresses hold.
template <std::size_t kRows, class Byte = std::uint8_t>
struct RowPointers {
  HWY_INLINE RowPointers(const Byte* first, std::size_t bytes) : stride(bytes) {
    for (std::size_t i = 0; i < kPointers; ++i) at[i] = first + i * 3 * bytes;
  }
  [[nodiscard]] HWY_INLINE const Byte* row(std::size_t r) const {
    return at[r / 3] + r % 3 * stride;
  }
  HWY_INLINE void advance(std::size_t bytes) {
    for (auto& pointer : at) pointer += bytes;
  }
  static constexpr std::size_t kPointers = (kRows + 2) / 3;
  const Byte* at[kPointers];
  std::size_t stride;
};

/// Calls take<kRows>(row) for rows [row, end), as many at once as there are, `kMost` at most.
template <std::size_t kMost, class Take>
HWY_INLINE void for_row_blocks(std::int64_t row, std::int64_t end, const Take& take) {
  const auto take_all = [&]<std::size_t kRows>() HWY_ATTR {
    for (; end - row >= static_cast<std::int64_t>(kRows); row += kRows)
      take.template operator()<kRows>(row);
  };
  take_all.template operator()<kMost>();
  if constexpr (kMost > 8) take_all.template operator()<8>();
  if constexpr (kMost > 4) take_all.template operator()<4>();
  take_all.template operator()<2>();
  take_all.template operator()<1>();
}

/// By products of 16 bits, which hold every pair: any instruction set, any bytes.
struct WideDot {
  using Sum = hn::Vec<Ints>;
  struct Four {
    hn::Vec<Shorts> even, odd;
  };
  static constexpr std::int64_t kMostTerms = 1 << 16;

  static HWY_INLINE Sum start(hn::Vec<Ints> first) { return first; }
  static HWY_INLINE Four four(std::int32_t bytes) {
    const auto both = hn::BitCast(Shorts(), hn::Set(Ints(), bytes));
    return {hn::ShiftRight<8>(hn::ShiftLeft<8>(both)), hn::ShiftRight<8>(both)};
  }
  static HWY_INLINE void add(Sum& sum, hn::Vec<Words> bytes, const Four& by) {
    const Shorts d;
    const hn::RebindToUnsigned<Shorts> du;
    const auto even = hn::And(hn::BitCast(d, bytes), hn::Set(d, 0xFF));
    const auto odd = hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(du, bytes)));
    add_kept(sum, hn::Add(hn::WidenMulPairwiseAdd(Ints(), even, by.even),
                          hn::WidenMulPairwiseAdd(Ints(), odd, by.odd)));
  }
  static HWY_INLINE hn::Vec<Ints> end(Sum sum, hn::Vec<Ints> /*first*/) { return sum; }
};

/// In 16 bits, which hold 8 pairs of products of bytes up to 15 with signed ones down to -127.
struct NarrowDot {
  using Sum = hn::Vec<Shorts>;
  using Four = hn::Vec<SignedBytes>;
  static constexpr std::int64_t kMostTerms = 32;

  static HWY_INLINE Sum start(hn::Vec<Ints> /*first*/) { return hn::Zero(Shorts()); }
  static HWY_INLINE Four four(std::int32_t bytes) {
    return hn::BitCast(SignedBytes(), hn::Set(Ints(), bytes));
  }
  static HWY_INLINE void add(Sum& sum, hn::Vec<Words> bytes, const Four& by) {
    add_kept(sum, hn::SatWidenMulPairwiseAdd(Shorts(), hn::BitCast(Bytes(), bytes), by));
  }
  static HWY_INLINE hn::Vec<Ints> end(Sum sum, hn::Vec<Ints> first) {
    return hn::Add(first, hn::WidenMulPairwiseAdd(Ints(), sum, hn::Set(Shorts(), 1)));
  }
};

// AVX-512-VNNI, and AVX-VNNI in the VEX encoding. Highway has the first one only in targets that need
// more than that; inline assembly needs no target of its own.
#undef CTXGEN_HAVE_VNNI
#if HWY_ARCH_X86 && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)
#define CTXGEN_HAVE_VNNI 1
/// Adds to each lane of 32 bits of `sum` the four products of its bytes. Vectors of any one length.
template <class Sum, class Words_>
HWY_INLINE void add_products(Sum& sum, Words_ unsigned_bytes, Sum signed_bytes) {
#if HWY_TARGET == HWY_AVX2
  __asm__("%{vex%} vpdpbusd %2, %1, %0"
          : "+x"(sum.raw)
          : "x"(unsigned_bytes.raw), "x"(signed_bytes.raw));
#else
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(unsigned_bytes.raw), "v"(signed_bytes.raw));
#endif
}

struct VnniDot {
  using Sum = hn::Vec<Ints>;
  using Four = hn::Vec<Ints>;
  static constexpr std::int64_t kMostTerms = 1 << 16;

  static HWY_INLINE Sum start(hn::Vec<Ints> first) { return first; }
  static HWY_INLINE Four four(std::int32_t bytes) { return hn::Set(Ints(), bytes); }
  static HWY_INLINE void add(Sum& sum, hn::Vec<Words> bytes, const Four& by) {
    add_products(sum, bytes, by);
  }
  static HWY_INLINE hn::Vec<Ints> end(Sum sum, hn::Vec<Ints> /*first*/) { return sum; }
};
#else
#define CTXGEN_HAVE_VNNI 0
#endif

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
