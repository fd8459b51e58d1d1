#include "run/peak_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/amx.h"

namespace ctxgen::onednn {
namespace {

// Units take up to two instructions a cycle, which are done four or five cycles later: twelve that do
// not wait for each other keep them busy, and fit sixteen registers beside two operands.
#define CTXGEN_TWELVE(each) \
  each(0) each(1) each(2) each(3) each(4) each(5) each(6) each(7) each(8) each(9) each(10) each(11)
constexpr double kChains = 12;

/// Where a result goes, so that what made it is not left out.
template <class T>
void keep(const T& value) {
  volatile T kept = value;
  (void)kept;
}

template <int kBytes>
using Floats [[gnu::vector_size(kBytes)]] = float;
template <int kBytes>
using Words [[gnu::vector_size(kBytes), gnu::may_alias]] = std::uint64_t;

template <int kBytes>
[[gnu::always_inline]] inline double f32_chains(std::int64_t steps) {
  using Vector = Floats<kBytes>;
  const Vector factor = Vector{} + 0.999F, term = Vector{} + 0.5F;
#define CTXGEN_START(i) Vector x##i = Vector{} + float(i);
  CTXGEN_TWELVE(CTXGEN_START)
#undef CTXGEN_START
  for (std::int64_t step = 0; step < steps; ++step) {
#define CTXGEN_STEP(i) x##i = x##i * factor + term;
    CTXGEN_TWELVE(CTXGEN_STEP)
#undef CTXGEN_STEP
  }
  Vector sum{};
#define CTXGEN_SUM(i) sum += x##i;
  CTXGEN_TWELVE(CTXGEN_SUM)
#undef CTXGEN_SUM
  keep<float>(sum[0]);
  return 2 * kChains * kBytes / sizeof(float) * static_cast<double>(steps);
}

template <int kBytes>
[[gnu::always_inline]] inline std::uint64_t read_chains(std::span<const std::byte> bytes) {
  using Vector = Words<kBytes>;
  const auto* at = reinterpret_cast<const Vector*>(bytes.data());
  Vector a{}, b{}, c{}, d{};
  for (std::size_t i = 0; i < bytes.size() / kBytes; i += 4) {
    a += at[i];
    b += at[i + 1];
    c += at[i + 2];
    d += at[i + 3];
  }
  const Vector sum = a + b + c + d;
  return sum[0];
}

#if defined(__x86_64__)
[[gnu::target("arch=x86-64-v4")]] double f32_avx512(std::int64_t steps) {
  return f32_chains<64>(steps);
}
[[gnu::target("arch=x86-64-v3")]] double f32_avx2(std::int64_t steps) {
  return f32_chains<32>(steps);
}
[[gnu::target("arch=x86-64-v4")]] std::uint64_t read_avx512(std::span<const std::byte> bytes) {
  return read_chains<64>(bytes);
}
[[gnu::target("arch=x86-64-v3")]] std::uint64_t read_avx2(std::span<const std::byte> bytes) {
  return read_chains<32>(bytes);
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]] double int8_avx512(std::int64_t steps) {
  const __m512i u = _mm512_set1_epi8(3), s = _mm512_set1_epi8(-2);
#define CTXGEN_START(i) __m512i x##i = _mm512_set1_epi32(i);
  CTXGEN_TWELVE(CTXGEN_START)
#undef CTXGEN_START
  for (std::int64_t step = 0; step < steps; ++step) {
#define CTXGEN_STEP(i) x##i = _mm512_dpbusd_epi32(x##i, u, s);
    CTXGEN_TWELVE(CTXGEN_STEP)
#undef CTXGEN_STEP
  }
  __m512i sum = _mm512_setzero_si512();
#define CTXGEN_SUM(i) sum = _mm512_add_epi32(sum, x##i);
  CTXGEN_TWELVE(CTXGEN_SUM)
#undef CTXGEN_SUM
  keep(_mm512_reduce_add_epi32(sum));
  return 2 * kChains * 64 * static_cast<double>(steps);
}

[[gnu::target("avx2,avxvnni")]] double int8_avx2(std::int64_t steps) {
  const __m256i u = _mm256_set1_epi8(3), s = _mm256_set1_epi8(-2);
#define CTXGEN_START(i) __m256i x##i = _mm256_set1_epi32(i);
  CTXGEN_TWELVE(CTXGEN_START)
#undef CTXGEN_START
  for (std::int64_t step = 0; step < steps; ++step) {
#define CTXGEN_STEP(i) x##i = _mm256_dpbusd_avx_epi32(x##i, u, s);
    CTXGEN_TWELVE(CTXGEN_STEP)
#undef CTXGEN_STEP
  }
  __m256i sum = _mm256_setzero_si256();
#define CTXGEN_SUM(i) sum = _mm256_add_epi32(sum, x##i);
  CTXGEN_TWELVE(CTXGEN_SUM)
#undef CTXGEN_SUM
  keep(_mm256_extract_epi32(sum, 0));
  return 2 * kChains * 32 * static_cast<double>(steps);
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] double bf16_avx512(std::int64_t steps) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5F), _mm512_set1_ps(0.25F));
#define CTXGEN_START(i) __m512 x##i = _mm512_set1_ps(i);
  CTXGEN_TWELVE(CTXGEN_START)
#undef CTXGEN_START
  for (std::int64_t step = 0; step < steps; ++step) {
#define CTXGEN_STEP(i) x##i = _mm512_dpbf16_ps(x##i, a, a);
    CTXGEN_TWELVE(CTXGEN_STEP)
#undef CTXGEN_STEP
  }
  __m512 sum = _mm512_setzero_ps();
#define CTXGEN_SUM(i) sum = _mm512_add_ps(sum, x##i);
  CTXGEN_TWELVE(CTXGEN_SUM)
#undef CTXGEN_SUM
  keep(_mm512_reduce_add_ps(sum));
  return 2 * kChains * 32 * static_cast<double>(steps);
}

/// Runs add() `steps` times, each four products of tiles of rows and columns: 16 x 16 sums of 64 bytes each.
template <class Add>
double tile_products(std::int64_t steps, std::int64_t elements, const Add& add) {
  using kernels::kAmxBytes, kernels::kAmxRows;
  kernels::set_amx_shapes(kAmxRows, kAmxRows, kAmxBytes);
  for (std::int64_t step = 0; step < steps; ++step) add();
  kernels::release_amx();
  return 2.0 * 4 * 16 * 16 * static_cast<double>(elements) * static_cast<double>(steps);
}

#define CTXGEN_FOUR_TILES(product)  \
  CTXGEN_AMX_ADD(product, 0, 4, 6); \
  CTXGEN_AMX_ADD(product, 1, 4, 7); \
  CTXGEN_AMX_ADD(product, 2, 5, 6); \
  CTXGEN_AMX_ADD(product, 3, 5, 7)

double int8_tiles(std::int64_t steps) {
  return tile_products(steps, 64, [] { CTXGEN_FOUR_TILES(tdpbusd); });
}

double bf16_tiles(std::int64_t steps) {
  return tile_products(steps, 32, [] { CTXGEN_FOUR_TILES(tdpbf16ps); });
}
#endif

}  // namespace

double multiply_add_f32(std::int64_t steps) {
#if defined(__x86_64__)
  switch (simd_level()) {
    case SimdLevel::kAvx512: return f32_avx512(steps);
    case SimdLevel::kAvx2: return f32_avx2(steps);
    default: break;
  }
#endif
  return f32_chains<16>(steps);
}

double multiply_add_int8([[maybe_unused]] std::int64_t steps) {
#if defined(__x86_64__)
  const InstructionSet usable = usable_instruction_set();
  if (may_use_tiles()) return int8_tiles(steps);
  if (includes(usable, InstructionSet::kAvx512CoreVnni)) return int8_avx512(steps);
  if (includes(usable, InstructionSet::kAvx2Vnni)) return int8_avx2(steps);
#endif
  return 0;
}

double multiply_add_bf16([[maybe_unused]] std::int64_t steps) {
#if defined(__x86_64__)
  if (may_use_tiles()) return bf16_tiles(steps);
  if (includes(usable_instruction_set(), InstructionSet::kAvx512CoreBf16))
    return bf16_avx512(steps);
#endif
  return 0;
}

std::uint64_t read_all(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  switch (simd_level()) {
    case SimdLevel::kAvx512: return read_avx512(bytes);
    case SimdLevel::kAvx2: return read_avx2(bytes);
    default: break;
  }
#endif
  return read_chains<16>(bytes);
}

#undef CTXGEN_TWELVE

}  // namespace ctxgen::onednn
