#include <algorithm>
#include <cmath>
#include <limits>

#include "ctxgen/base/simd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels_reduce.h"

namespace ctxgen::onednn {
namespace {

// What is accumulated: a sum of f(x), or a maximum, minimum or product of x. In double: sums of
// thousands of floats keep all their digits, and the loops are bound by memory all the same. A NaN
// stays: `a != a` keeps one that a maximum or minimum has met, `a > x` takes one that comes.
enum class Fold : std::uint8_t { kSum, kAbs, kSquare, kMax, kMin, kProd };

Fold fold_of(ReduceMode mode) {
  switch (mode) {
    case ReduceMode::kMax: return Fold::kMax;
    case ReduceMode::kMin: return Fold::kMin;
    case ReduceMode::kProd: return Fold::kProd;
    case ReduceMode::kL1: return Fold::kAbs;
    case ReduceMode::kL2:
    case ReduceMode::kSumSquare: return Fold::kSquare;
    default: return Fold::kSum;
  }
}

double start_of(Fold fold) {
  if (fold == Fold::kMax) return -std::numeric_limits<double>::infinity();
  if (fold == Fold::kMin) return std::numeric_limits<double>::infinity();
  return fold == Fold::kProd ? 1.0 : 0.0;
}

double joined(Fold fold, double a, double b) {
  switch (fold) {
    case Fold::kMax: return a > b || a != a ? a : b;
    case Fold::kMin: return a < b || a != a ? a : b;
    case Fold::kProd: return a * b;
    default: return a + b;
  }
}

#define CTXGEN_FOLD(index)                                        \
  switch (fold) {                                                 \
    case Fold::kSum: CTXGEN_EACH(index, a + x);                   \
    case Fold::kAbs: CTXGEN_EACH(index, a + std::fabs(x));        \
    case Fold::kSquare: CTXGEN_EACH(index, a + x * x);            \
    case Fold::kMax: CTXGEN_EACH(index, a > x || a != a ? a : x); \
    case Fold::kMin: CTXGEN_EACH(index, a < x || a != a ? a : x); \
    case Fold::kProd: CTXGEN_EACH(index, a * x);                  \
  }

/// acc[i] = fold(acc[i], in[i]).
constexpr auto fold_rows =
    simd_loop([] CTXGEN_SIMD_LOOP(Fold fold, std::int64_t n, const float* in, double* acc) {
#define CTXGEN_EACH(index, expression)      \
  for (std::int64_t i = 0; i < n; ++i) {    \
    const double x = in[index], a = acc[i]; \
    acc[i] = (expression);                  \
  }                                         \
  break
      CTXGEN_FOLD(i)
#undef CTXGEN_EACH
    });

constexpr std::int64_t kLanes = 16;

/// The fold of a row, in sixteen lanes side by side.
constexpr auto fold_row =
    simd_loop([] CTXGEN_SIMD_LOOP(Fold fold, std::int64_t n, const float* in, double start) {
      double lanes[kLanes];
      for (double& lane : lanes) lane = start;
      const std::int64_t whole = n - n % kLanes;
#define CTXGEN_EACH(index, expression)                      \
  for (std::int64_t base = 0; base < whole; base += kLanes) \
    for (std::int64_t i = 0; i < kLanes; ++i) {             \
      const double x = in[base + i], a = lanes[i];          \
      lanes[i] = (expression);                              \
    }                                                       \
  for (std::int64_t i = whole; i < n; ++i) {                \
    const double x = in[i], a = lanes[0];                   \
    lanes[0] = (expression);                                \
  }                                                         \
  break
      CTXGEN_FOLD(i)
#undef CTXGEN_EACH
      double result = lanes[0];
      for (std::int64_t i = 1; i < kLanes; ++i) result = joined(fold, result, lanes[i]);
      return result;
    });
#undef CTXGEN_FOLD

struct ReduceAxis {
  std::int64_t size = 1, src = 0, dst = 0;
};

/// Neighbours that both tensors run through without a gap become one.
std::vector<ReduceAxis> merged(std::vector<ReduceAxis> axes) {
  std::ranges::stable_sort(axes, std::greater<>(), &ReduceAxis::src);
  std::vector<ReduceAxis> out;
  for (const ReduceAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!out.empty() && out.back().src == axis.src * axis.size &&
        out.back().dst == axis.dst * axis.size)
      out.back() = {out.back().size * axis.size, axis.src, axis.dst};
    else
      out.push_back(axis);
  }
  return out;
}

std::int64_t count_of(const std::vector<ReduceAxis>& axes) {
  std::int64_t count = 1;
  for (const ReduceAxis& axis : axes) count *= axis.size;
  return count;
}

std::int64_t src_offset(const std::vector<ReduceAxis>& axes, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t i = axes.size(); i-- > 0;) {
    offset += index % axes[i].size * axes[i].src;
    index /= axes[i].size;
  }
  return offset;
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(std::vector<ReduceAxis> kept, std::vector<ReduceAxis> reduced, ReduceMode mode)
      : kept_(std::move(kept)), reduced_(std::move(reduced)), mode_(mode), fold_(fold_of(mode)) {
    count_ = count_of(reduced_);
    // Either a row of results is accumulated at once, or a row of the source becomes one number.
    if (!kept_.empty() && kept_.back().src == 1 && kept_.back().dst == 1 &&
        mode != ReduceMode::kLogSumExp) {
      width_ = kept_.back().size;
      kept_.pop_back();
      by_rows_ = true;
    } else if (!reduced_.empty() && reduced_.back().src == 1) {
      row_ = reduced_.back().size;
      reduced_.pop_back();
    }
    outer_ = count_of(kept_);
    chunks_ = (width_ + kChunk - 1) / kChunk;
  }

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    auto* dst = reinterpret_cast<float*>(args[1]);
    parallel_for(workers, outer_ * chunks_, outer_ * width_ * count_, [&](std::int64_t job) {
      std::int64_t index = job / chunks_;
      const float* from = src;
      float* to = dst;
      for (std::size_t i = kept_.size(); i-- > 0;) {
        from += index % kept_[i].size * kept_[i].src;
        to += index % kept_[i].size * kept_[i].dst;
        index /= kept_[i].size;
      }
      const std::int64_t first = job % chunks_ * kChunk;
      if (by_rows_)
        reduce_rows(std::min(kChunk, width_ - first), from + first, to + first);
      else
        *to = mode_ == ReduceMode::kLogSumExp ? log_sum_exp(from) : finish(reduce_one(from));
    });
    return {};
  }

 private:
  static constexpr std::int64_t kChunk = 512;

  void reduce_rows(std::int64_t n, const float* src, float* dst) const {
    double acc[kChunk];
    std::fill_n(acc, n, start_of(fold_));
    const std::int64_t rows = count_of(reduced_);
    for (std::int64_t r = 0; r < rows; ++r) fold_rows(fold_, n, src + src_offset(reduced_, r), acc);
    for (std::int64_t i = 0; i < n; ++i) dst[i] = finish(acc[i]);
  }

  [[nodiscard]] double reduce_one(const float* src) const {
    double result = start_of(fold_);
    const std::int64_t rows = count_of(reduced_);
    for (std::int64_t r = 0; r < rows; ++r)
      result = joined(fold_, result,
                      fold_row(fold_, row_, src + src_offset(reduced_, r), start_of(fold_)));
    return result;
  }

  /// With the largest element taken out first, so that no exponential overflows.
  [[nodiscard]] float log_sum_exp(const float* src) const {
    const std::int64_t rows = count_of(reduced_);
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t r = 0; r < rows; ++r)
      most =
          joined(Fold::kMax, most, fold_row(Fold::kMax, row_, src + src_offset(reduced_, r), most));
    if (!std::isfinite(most)) return static_cast<float>(most);
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = src + src_offset(reduced_, r);
      for (std::int64_t i = 0; i < row_; ++i) sum += std::exp(double{row[i]} - most);
    }
    return static_cast<float>(std::log(sum) + most);
  }

  [[nodiscard]] float finish(double value) const {
    switch (mode_) {
      case ReduceMode::kMean: return static_cast<float>(value / static_cast<double>(count_));
      case ReduceMode::kL2: return static_cast<float>(std::sqrt(value));
      case ReduceMode::kLogSum: return static_cast<float>(std::log(value));
      default: return static_cast<float>(value);
    }
  }

  std::vector<ReduceAxis> kept_, reduced_;
  ReduceMode mode_;
  Fold fold_;
  std::int64_t count_ = 1;  // elements that become one
  std::int64_t width_ = 1, row_ = 1, outer_ = 1, chunks_ = 1;
  bool by_rows_ = false;
};

}  // namespace

std::optional<ReduceMode> reduce_mode(std::string_view word) {
  static constexpr std::pair<std::string_view, ReduceMode> kWords[] = {
      {"sum", ReduceMode::kSum},        {"mean", ReduceMode::kMean},
      {"max", ReduceMode::kMax},        {"min", ReduceMode::kMin},
      {"prod", ReduceMode::kProd},      {"l1", ReduceMode::kL1},
      {"l2", ReduceMode::kL2},          {"sum_square", ReduceMode::kSumSquare},
      {"log_sum", ReduceMode::kLogSum}, {"log_sum_exp", ReduceMode::kLogSumExp},
  };
  for (const auto& [name, mode] : kWords)
    if (name == word) return mode;
  return std::nullopt;
}

std::shared_ptr<const Kernel> make_reduce_kernel(const Dims& dims, const Dims& src_strides,
                                                 const Dims& dst_strides,
                                                 const std::vector<bool>& reduced,
                                                 ReduceMode mode) {
  std::vector<ReduceAxis> kept, folded;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (reduced[i])
      folded.push_back({dims[i], src_strides[i], 0});
    else
      kept.push_back({dims[i], src_strides[i], dst_strides[i]});
  }
  // Reduced dims have no place in dst: they merge by their source alone.
  for (ReduceAxis& axis : folded) axis.dst = axis.src;
  return std::make_shared<ReduceKernel>(merged(std::move(kept)), merged(std::move(folded)), mode);
}

}  // namespace ctxgen::onednn
