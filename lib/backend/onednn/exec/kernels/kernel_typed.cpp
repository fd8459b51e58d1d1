#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "ctxgen/base/half.h"
#include "ctxgen/base/simd.h"
#include "ctxgen/kernels/byte_points.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels.h"
#include "kernels/point_rows.h"
#include "layout/layout.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Element-wise work over u8, s8, s32, f16 and bf16: rows are brought to f32, changed there, and stored.
namespace ctxgen::onednn {
namespace {

/// How real numbers become bytes from `low` on.
kernels::ByteSteps steps_from(const Stored& to, std::int32_t low) {
  const auto zero = static_cast<std::int32_t>(to.zero);
  return {.scale = to.scale, .zero = zero, .least = low - zero, .most = low + 255 - zero};
}

constexpr auto load_integers = simd_loop(
    [] CTXGEN_SIMD_LOOP(std::int64_t n, const auto* in, float scale, float zero, float* out) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = (static_cast<float>(in[i]) - zero) * scale;
    });

/// As integers of 8 bits from `low` on. Bounds are integers, so that saturating before rounding is the same.
void store_integers(const Stored& to, std::int64_t n, const float* in, std::int32_t low,
                    std::byte* out) {
  kernels::round_to_bytes(steps_from(to, low), n, in, reinterpret_cast<std::uint8_t*>(out));
}

// Compilers make a scalar loop of half conversions.
#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) std::int64_t load_halves_f16c(std::int64_t n,
                                                                  const std::uint16_t* in,
                                                                  float* out) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  return i;
}
__attribute__((target("avx,f16c"))) std::int64_t store_halves_f16c(std::int64_t n, const float* in,
                                                                   std::uint16_t* out) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
bool has_f16c() { return simd_level() >= SimdLevel::kAvx2; }
#else
std::int64_t load_halves_f16c(std::int64_t, const std::uint16_t*, float*) { return 0; }
std::int64_t store_halves_f16c(std::int64_t, const float*, std::uint16_t*) { return 0; }
bool has_f16c() { return false; }
#endif

void load_halves(std::int64_t n, const std::uint16_t* in, float* out) {
  for (std::int64_t i = has_f16c() ? load_halves_f16c(n, in, out) : 0; i < n; ++i)
    out[i] = float16_to_float(in[i]);
}
void store_halves(std::int64_t n, const float* in, std::uint16_t* out) {
  for (std::int64_t i = has_f16c() ? store_halves_f16c(n, in, out) : 0; i < n; ++i)
    out[i] = float_to_float16(in[i]);
}

constexpr auto load_bfloats =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const std::uint16_t* in, float* out) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = bfloat16_to_float(in[i]);
    });
constexpr auto store_bfloats =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* in, std::uint16_t* out) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = float_to_bfloat16(in[i]);
    });

/// One element, wherever it is.
float load_one(const Stored& from, const std::byte* at) {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (from.type) {
    case DataType::kUint8:
      return (static_cast<float>(read(std::uint8_t{})) - from.zero) * from.scale;
    case DataType::kInt8: return (static_cast<float>(read(std::int8_t{})) - from.zero) * from.scale;
    case DataType::kInt32:
      return (static_cast<float>(read(std::int32_t{})) - from.zero) * from.scale;
    case DataType::kFloat16: return float16_to_float(read(std::uint16_t{}));
    case DataType::kBfloat16: return bfloat16_to_float(read(std::uint16_t{}));
    default: return read(0.0F);
  }
}

class TypedKernel final : public Kernel {
 public:
  TypedKernel(std::vector<PointAxis> axes, std::vector<PointStage> stages, Stored src, Stored dst,
              std::vector<Stored> operands)
      : walk_(std::move(axes), kChunk),
        stages_(std::move(stages)),
        dst_(dst),
        read_(std::move(operands)) {
    read_.insert(read_.begin(), src);
  }

  Status run(std::byte* const* args, Workers& workers) const override {
    parallel_for(workers, walk_.jobs(), walk_.elements(),
                 [&](std::int64_t job) { run_job(job, args); });
    return {};
  }

 private:
  static constexpr std::int64_t kChunk = 2048;  // two rows of f32 stay in the first cache
  static constexpr std::size_t kMaxPointers = 34;

  static std::byte* address(std::byte* base, std::int64_t at, DataType type) {
    return base + at * static_cast<std::int64_t>(element_bytes(type));
  }

  void run_job(std::int64_t job, std::byte* const* args) const {
    alignas(64) float x[kChunk];
    alignas(64) float y[kChunk];
    std::int64_t at[kMaxPointers];
    const std::int64_t n = walk_.place(job, at);
    load_row(read_[0], n, address(args[0], at[1], read_[0].type), walk_.step(1), x);
    std::size_t operand = 1;
    for (const PointStage& stage : stages_) {
      if (!takes_operand(stage.op)) {
        unary_row(stage.op, stage.alpha, stage.beta, n, x, x);
        continue;
      }
      const Stored& from = read_[operand];
      load_row(from, n, address(args[operand + 1], at[operand + 1], from.type),
               walk_.step(operand + 1), y);
      binary_row(stage.op, n, x, y, x);
      ++operand;
    }
    store_row(dst_, n, x, address(args[1], at[0], dst_.type));
  }

  PointWalk walk_;
  std::vector<PointStage> stages_;
  Stored dst_;
  std::vector<Stored> read_;  // src, then operands
};

/// A sum of two tensors of bytes, as bytes, within bounds.
class ByteSumKernel final : public Kernel {
 public:
  ByteSumKernel(std::int64_t count, const Stored& a, const Stored& b,
                const kernels::ByteSteps& steps)
      : count_(count), a_(term(a)), b_(term(b)), steps_(steps) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    constexpr std::int64_t kBlock = 8192;
    const auto bytes = [&](std::size_t i) { return reinterpret_cast<std::uint8_t*>(args[i]); };
    parallel_for(workers, (count_ + kBlock - 1) / kBlock, count_, [&](std::int64_t block) {
      const std::int64_t first = block * kBlock;
      kernels::ByteTerm a = a_, b = b_;
      a.bytes = bytes(0) + first;
      b.bytes = bytes(2) + first;
      kernels::add_to_bytes(a, b, steps_, std::min(kBlock, count_ - first), bytes(1) + first);
    });
    return {};
  }

 private:
  static kernels::ByteTerm term(const Stored& stored) {
    return {.is_signed = stored.type == DataType::kInt8,
            .zero = static_cast<std::int32_t>(stored.zero),
            .scale = stored.scale};
  }
  std::int64_t count_;
  kernels::ByteTerm a_, b_;
  kernels::ByteSteps steps_;
};

bool is_byte_type(const Stored& stored) {
  return stored.type == DataType::kUint8 || stored.type == DataType::kInt8;
}

/// The bounds of one stage, in steps; nothing where it is not a stage of bounds. Holding a number and then rounding it is the
/// same as rounding number and bounds: both never fall where the number rises.
std::optional<kernels::ByteSteps> within(const PointStage& stage, kernels::ByteSteps steps) {
  const bool relu = stage.op == PointOp::kRelu && stage.alpha == 0;
  if (!relu && (stage.op != PointOp::kClip || !(stage.alpha <= stage.beta))) return std::nullopt;
  const auto bound = [&](float real) {
    return static_cast<std::int32_t>(std::nearbyint(std::clamp(
        real / steps.scale, static_cast<float>(steps.least), static_cast<float>(steps.most))));
  };
  const std::int32_t least = bound(relu ? 0.0F : stage.alpha);
  if (!relu) steps.most = bound(stage.beta);
  steps.least = least;
  return steps;
}

template <class T>
class TableKernel final : public Kernel {
 public:
  TableKernel(std::int64_t count, const std::vector<std::byte>& table) : count_(count) {
    std::memcpy(table_, table.data(), sizeof table_);
  }
  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const std::uint8_t*>(args[0]);
    auto* dst = reinterpret_cast<T*>(args[1]);
    constexpr std::int64_t kBlock = 4096;
    parallel_for(workers, (count_ + kBlock - 1) / kBlock, count_, [&](std::int64_t block) {
      const std::int64_t end = std::min(count_, (block + 1) * kBlock);
      for (std::int64_t i = block * kBlock; i < end; ++i) dst[i] = table_[src[i]];
    });
    return {};
  }

 private:
  std::int64_t count_;
  T table_[256];
};

}  // namespace

void load_row(const Stored& from, std::int64_t n, const std::byte* in, std::int64_t stride,
              float* out) {
  if (stride == 0) return (void)std::fill_n(out, n, load_one(from, in));
  if (stride != 1) {
    const auto step = stride * static_cast<std::int64_t>(element_bytes(from.type));
    for (std::int64_t i = 0; i < n; ++i) out[i] = load_one(from, in + i * step);
    return;
  }
  switch (from.type) {
    case DataType::kUint8:
      return load_integers(n, reinterpret_cast<const std::uint8_t*>(in), from.scale, from.zero,
                           out);
    case DataType::kInt8:
      return load_integers(n, reinterpret_cast<const std::int8_t*>(in), from.scale, from.zero, out);
    case DataType::kInt32:
      return load_integers(n, reinterpret_cast<const std::int32_t*>(in), from.scale, from.zero,
                           out);
    case DataType::kFloat16: return load_halves(n, reinterpret_cast<const std::uint16_t*>(in), out);
    case DataType::kBfloat16:
      return load_bfloats(n, reinterpret_cast<const std::uint16_t*>(in), out);
    default: std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
  }
}

void store_row(const Stored& to, std::int64_t n, const float* in, std::byte* out) {
  switch (to.type) {
    case DataType::kUint8: return store_integers(to, n, in, 0, out);
    case DataType::kInt8: return store_integers(to, n, in, -128, out);
    case DataType::kFloat16: return store_halves(n, in, reinterpret_cast<std::uint16_t*>(out));
    case DataType::kBfloat16: return store_bfloats(n, in, reinterpret_cast<std::uint16_t*>(out));
    default: std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
  }
}

std::shared_ptr<const Kernel> make_byte_sum_kernel(std::int64_t count,
                                                   std::span<const PointStage> stages,
                                                   const Stored& src, const Stored& dst,
                                                   std::span<const Stored> operands) {
  if (stages.empty() || stages[0].op != PointOp::kAdd || operands.size() != 1) return nullptr;
  if (!is_byte_type(src) || !is_byte_type(dst) || !is_byte_type(operands[0])) return nullptr;
  kernels::ByteSteps steps = steps_from(dst, dst.type == DataType::kInt8 ? -128 : 0);
  for (const PointStage& stage : stages.subspan(1)) {
    const auto held = within(stage, steps);
    if (!held) return nullptr;
    steps = *held;
  }
  return std::make_shared<ByteSumKernel>(count, src, operands[0], steps);
}

std::shared_ptr<const Kernel> make_typed_kernel(const Dims& dims, const Dims& src_strides,
                                                const Dims& dst_strides,
                                                std::vector<PointStage> stages, Stored src,
                                                Stored dst, std::vector<Stored> operands) {
  std::vector<const Dims*> strides{&dst_strides, &src_strides};
  for (const PointStage& stage : stages)
    if (takes_operand(stage.op)) strides.push_back(&stage.strides);
  return std::make_shared<TypedKernel>(collapse_points(dims, strides), std::move(stages), src, dst,
                                       std::move(operands));
}

std::shared_ptr<const Kernel> make_table_kernel(std::int64_t count, std::uint64_t dst_element_bytes,
                                                const std::vector<std::byte>& table) {
  if (dst_element_bytes == 1) return std::make_shared<TableKernel<std::uint8_t>>(count, table);
  return std::make_shared<TableKernel<std::uint32_t>>(count, table);
}

}  // namespace ctxgen::onednn
