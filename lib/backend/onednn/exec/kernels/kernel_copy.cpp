#include <algorithm>
#include <cstring>

#include "ctxgen/base/simd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels.h"

namespace ctxgen::onednn {
namespace {

struct Axis {
  std::int64_t size, src, dst;
};

std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

/// The dims in order of dst strides, those of size 1 dropped, neighbours merged where both sides
/// run through them without a gap.
std::vector<Axis> collapse(const Dims& dims, const Dims& src, const Dims& dst) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1) axes.push_back({dims[i], src[i], dst[i]});
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return magnitude(a.dst) > magnitude(b.dst);
  });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty() && merged.back().src == axis.src * axis.size &&
        merged.back().dst == axis.dst * axis.size)
      merged.back() = {merged.back().size * axis.size, axis.src, axis.dst};
    else
      merged.push_back(axis);
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  return merged;
}

constexpr auto copy_row =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const auto* src, auto* dst) {
      for (std::int64_t i = 0; i < n; ++i) dst[i] = src[i];
    });

constexpr auto gather_row =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const auto* src, std::int64_t src_stride,
                                  auto* dst, std::int64_t dst_stride) {
      for (std::int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
    });

/// dst[r * dst_row + c] = src[c * src_column + r]: a tile of a 2-D transpose, dense dst rows.
constexpr auto transpose_tile =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t rows, std::int64_t columns, const auto* src,
                                  std::int64_t src_column, auto* dst, std::int64_t dst_row) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) dst[r * dst_row + c] = src[c * src_column + r];
    });

/// T: an unsigned integer as wide as an element.
template <class T>
class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(std::vector<Axis> axes) : axes_(std::move(axes)) {
    inner_ = axes_.back();
    axes_.pop_back();
    // A dim that is dense in src while the inner one is dense in dst makes this a transpose.
    if (inner_.dst == 1 && inner_.src != 1) {
      for (std::size_t i = axes_.size(); i-- > 0;) {
        if (axes_[i].src != 1) continue;
        tile_ = axes_[i];
        axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(i));
        transposes_ = true;
        break;
      }
    }
    for (const Axis& axis : axes_) outer_ *= axis.size;
  }

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const T*>(args[0]);
    auto* dst = reinterpret_cast<T*>(args[1]);
    const std::int64_t strips = transposes_ ? (tile_.size + kTile - 1) / kTile : 1;
    parallel_for(workers, outer_ * strips, outer_ * inner_.size * (transposes_ ? tile_.size : 1),
                 [&](std::int64_t job) { run_one(job / strips, job % strips, src, dst); });
    return {};
  }

 private:
  static constexpr std::int64_t kTile = 16;

  void run_one(std::int64_t index, std::int64_t strip, const T* src, T* dst) const {
    for (std::size_t i = axes_.size(); i-- > 0;) {
      const std::int64_t at = index % axes_[i].size;
      index /= axes_[i].size;
      src += at * axes_[i].src;
      dst += at * axes_[i].dst;
    }
    if (transposes_) {
      const std::int64_t first = strip * kTile;
      const std::int64_t rows = std::min(kTile, tile_.size - first);
      src += first;
      dst += first * tile_.dst;
      for (std::int64_t c = 0; c < inner_.size; c += kTile)
        transpose_tile(rows, std::min(kTile, inner_.size - c), src + c * inner_.src, inner_.src,
                       dst + c, tile_.dst);
    } else if (inner_.src == 1 && inner_.dst == 1) {
      if (inner_.size >= 512)
        std::memcpy(dst, src, static_cast<std::size_t>(inner_.size) * sizeof(T));
      else
        copy_row(inner_.size, src, dst);
    } else {
      gather_row(inner_.size, src, inner_.src, dst, inner_.dst);
    }
  }

  std::vector<Axis> axes_;
  Axis inner_{1, 1, 1};
  Axis tile_{1, 1, 1};
  std::int64_t outer_ = 1;
  bool transposes_ = false;
};

}  // namespace

std::shared_ptr<const Kernel> make_copy_kernel(const Dims& dims, const Dims& src_strides,
                                               const Dims& dst_strides,
                                               std::uint64_t element_bytes) {
  std::vector<Axis> axes = collapse(dims, src_strides, dst_strides);
  if (element_bytes == 1) return std::make_shared<CopyKernel<std::uint8_t>>(std::move(axes));
  if (element_bytes == 2) return std::make_shared<CopyKernel<std::uint16_t>>(std::move(axes));
  if (element_bytes == 8) return std::make_shared<CopyKernel<std::uint64_t>>(std::move(axes));
  return std::make_shared<CopyKernel<std::uint32_t>>(std::move(axes));
}

}  // namespace ctxgen::onednn
