#include <algorithm>
#include <array>
#include <utility>

#include "ctxgen/base/simd.h"
#include "ctxgen/kernels/move.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels.h"
#include "kernels/kernels_move.h"

namespace ctxgen::onednn {
namespace {

std::int64_t magnitude(std::int64_t stride) { return stride < 0 ? -stride : stride; }

/// Elements that are side by side in src, or that are all filled.
struct Run {
  std::int64_t dst = 0, length = 0, src = 0;  // src: kFill for padding
};

/// The runs of an axis whose entries are `unit` contiguous elements each.
std::vector<Run> find_runs(const std::vector<std::int64_t>& offsets, std::int64_t unit) {
  std::vector<Run> runs;
  std::int64_t dst = 0;
  for (const std::int64_t offset : offsets) {
    const bool joins =
        !runs.empty() && (offset == kFill ? runs.back().src == kFill
                                          : runs.back().src != kFill &&
                                                offset == runs.back().src + runs.back().length);
    if (joins)
      runs.back().length += unit;
    else
      runs.push_back({dst, unit, offset});
    dst += unit;
  }
  return runs;
}

/// Replaces a table of equal steps by a stride; returns the offset of its first entry.
std::int64_t take_stride(MoveAxis& axis) {
  if (axis.offsets.empty() || std::ranges::contains(axis.offsets, kFill)) return 0;
  const std::int64_t first = axis.offsets[0];
  const std::int64_t step = axis.size > 1 ? axis.offsets[1] - first : 0;
  for (std::size_t i = 1; i < axis.offsets.size(); ++i)
    if (axis.offsets[i] - axis.offsets[i - 1] != step) return 0;
  axis.src = step;
  axis.offsets = {};
  return first;
}

/// The axes in order of dst, those of one element dropped, neighbours merged where both sides run
/// through them without a gap. Returns where src begins.
std::int64_t put_in_order(std::vector<MoveAxis>& axes) {
  std::int64_t begin = 0;
  for (MoveAxis& axis : axes) begin += take_stride(axis);
  std::erase_if(axes, [](const MoveAxis& axis) { return axis.size == 1 && axis.offsets.empty(); });
  std::ranges::stable_sort(axes, std::greater<>(),
                           [](const MoveAxis& axis) { return magnitude(axis.dst); });
  std::vector<MoveAxis> merged;
  for (MoveAxis& axis : axes) {
    if (!merged.empty() && axis.offsets.empty() && merged.back().offsets.empty() &&
        merged.back().src == axis.src * axis.size && merged.back().dst == axis.dst * axis.size)
      merged.back() = {merged.back().size * axis.size, axis.src, axis.dst, {}};
    else
      merged.push_back(std::move(axis));
  }
  axes = std::move(merged);
  return begin;
}

/// The type of unsigned integers as wide as an element, by a value of it.
template <class Use>
void with_element(std::uint64_t bytes, const Use& use) {
  switch (bytes) {
    case 1: return use(std::uint8_t{});
    case 2: return use(std::uint16_t{});
    case 4: return use(std::uint32_t{});
    default: return use(std::uint64_t{});
  }
}

constexpr auto gather_elements = simd_loop(
    [] CTXGEN_SIMD_LOOP(std::int64_t n, const auto* src, const std::int64_t* offsets, auto* dst) {
      for (std::int64_t i = 0; i < n; ++i) dst[i] = src[offsets[i]];
    });
constexpr auto scatter_elements =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const auto* src, std::int64_t src_stride,
                                  auto* dst, std::int64_t dst_stride) {
      for (std::int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
    });

class MoveKernel final : public Kernel {
 public:
  MoveKernel(std::vector<MoveAxis> axes, std::uint64_t element_bytes, std::uint64_t fill)
      : bytes_(static_cast<std::int64_t>(element_bytes)), fill_(fill) {
    begin_ = put_in_order(axes);
    if (axes.empty()) axes.push_back({1, 1, 1, {}});
    inner_ = std::move(axes.back());
    axes.pop_back();
    axes_ = std::move(axes);
    choose_form();
    choose_parts();
  }

  Status run(std::byte* const* args, Workers& workers) const override {
    const std::int64_t jobs = rows_ * strips_;
    // Threads find in their caches what they wrote, so half of the usual elements are worth their start.
    parallel_for(workers, parts_of(jobs, jobs_per_part_), work_of(elements_, 2),
                 [&](std::int64_t part) {
                   run_part(part * jobs_per_part_, std::min(jobs, (part + 1) * jobs_per_part_),
                            args[0] + begin_ * bytes_, args[1]);
                 });
    return {};
  }

 private:
  enum class Form : std::uint8_t { kRow, kRuns, kTranspose, kEvery, kGather, kScatter };

  /// Rows next to each other: `src` and `dst` in elements from the start of each side.
  struct Place {
    std::int64_t src = 0, dst = 0;
    std::int64_t rows = 1, src_pitch = 0, dst_pitch = 0;
    bool filled = false;
  };
  /// A part of each row: of the inner axis, or of the tile's.
  struct Strip {
    std::int64_t first, size;
  };

  /// Walks through the outer axes.
  class Cursor {
   public:
    Cursor(const std::vector<MoveAxis>& axes, std::int64_t row) : axes_(axes) {
      for (std::size_t i = axes.size(); i-- > 0; row /= axes[i].size) {
        at_[i] = row % axes[i].size;
        count(i, 1);
      }
    }

    /// At most `most` rows that follow each other on the last axis at one pitch.
    [[nodiscard]] Place rows(std::int64_t most) const {
      Place place{src_, dst_, 1, 0, 0, fills_ > 0};
      if (axes_.empty()) return place;
      const MoveAxis& axis = axes_.back();
      const std::int64_t at = at_[axes_.size() - 1];
      most = std::min(most, axis.size - at);
      place.src_pitch = axis.src;
      place.dst_pitch = axis.dst;
      if (axis.offsets.empty()) {
        place.rows = most;
        return place;
      }
      const auto offset = [&](std::int64_t i) {
        return axis.offsets[static_cast<std::size_t>(at + i)];
      };
      if (most < 2 || offset(0) == kFill || offset(1) == kFill) return place;
      place.src_pitch = offset(1) - offset(0);
      while (place.rows < most && offset(place.rows) != kFill &&
             offset(place.rows) - offset(place.rows - 1) == place.src_pitch)
        ++place.rows;
      return place;
    }

    /// `rows` of the last axis on, which end where it ends at the latest.
    void advance(std::int64_t rows) {
      for (std::size_t i = axes_.size(); i-- > 0; rows = 1) {
        count(i, -1);
        at_[i] += rows;
        const bool ends = at_[i] >= axes_[i].size;
        if (ends) at_[i] = 0;
        count(i, 1);
        if (!ends) return;
      }
    }

   private:
    /// Adds an axis at its present index (sign 1), or takes it out (-1).
    void count(std::size_t i, int sign) {
      const MoveAxis& axis = axes_[i];
      dst_ += sign * at_[i] * axis.dst;
      const std::int64_t from =
          axis.offsets.empty() ? at_[i] * axis.src : axis.offsets[static_cast<std::size_t>(at_[i])];
      if (from == kFill)
        fills_ += sign;
      else
        src_ += sign * from;
    }

    const std::vector<MoveAxis>& axes_;
    std::array<std::int64_t, kMaxRank> at_{};
    std::int64_t src_ = 0, dst_ = 0;
    int fills_ = 0;
  };

  void choose_form() {
    if (inner_.dst != 1) {
      form_ = inner_.offsets.empty() ? Form::kScatter : Form::kGather;
    } else if (!inner_.offsets.empty()) {
      runs_ = find_runs(inner_.offsets, 1);
      const bool long_runs =
          runs_.size() * 4 <= inner_.offsets.size() || std::ranges::contains(inner_.offsets, kFill);
      form_ = long_runs ? Form::kRuns : Form::kGather;
    } else if (inner_.src == 1) {
      form_ = join_rows() ? Form::kRuns : Form::kRow;
    } else {
      form_ = find_tile() ? Form::kTranspose : Form::kEvery;
    }
    if (form_ != Form::kRuns) runs_ = {};
  }

  /// Where the next axis has a table whose entries continue each other: one row of long runs.
  bool join_rows() {
    if (axes_.empty() || axes_.back().offsets.empty() || axes_.back().dst != inner_.size)
      return false;
    std::vector<Run> runs = find_runs(axes_.back().offsets, inner_.size);
    if (runs.size() * 2 > axes_.back().offsets.size()) return false;
    runs_ = std::move(runs);
    inner_.size *= axes_.back().size;
    axes_.pop_back();
    return true;
  }

  /// An axis that is dense in src while the inner one is dense in dst makes this a transpose.
  bool find_tile() {
    if (std::ranges::any_of(
            axes_, [](const MoveAxis& axis) { return std::ranges::contains(axis.offsets, kFill); }))
      return false;
    for (std::size_t i = axes_.size(); i-- > 0;) {
      if (axes_[i].src != 1 || !axes_[i].offsets.empty()) continue;
      tile_ = std::move(axes_[i]);
      axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  /// Long rows are cut into strips, short ones are moved many at a time.
  void choose_parts() {
    constexpr std::int64_t kPartBytes = 32 * 1024, kLine = 64;
    for (const MoveAxis& axis : axes_) rows_ *= axis.size;
    elements_ = rows_ * inner_.size * tile_.size;
    const std::int64_t line = kLine / bytes_;
    std::int64_t length = inner_.size, across = 1;
    if (form_ == Form::kTranspose) {
      cuts_tile_ = tile_.size >= inner_.size || tile_.size >= 4 * line;
      length = cuts_tile_ ? tile_.size : inner_.size;
      across = cuts_tile_ ? inner_.size : tile_.size;
    }
    strip_ = length;
    if (form_ == Form::kRow || form_ == Form::kEvery || form_ == Form::kTranspose)
      strip_ = std::min(length, parts_of(parts_of(kPartBytes, across * bytes_), line) * line);
    strips_ = parts_of(length, strip_);
    jobs_per_part_ = parts_of(kPartBytes, strip_ * across * bytes_);
  }

  void run_part(std::int64_t first, std::int64_t last, const std::byte* src, std::byte* dst) const {
    const std::int64_t length = cuts_tile_ ? tile_.size : inner_.size;
    Cursor cursor(axes_, first / strips_);
    std::int64_t strip = first % strips_;
    for (std::int64_t job = first; job < last;) {
      const Place place = cursor.rows(strips_ > 1 ? 1 : last - job);
      const std::int64_t begin = strip * strip_;
      move(place, {begin, std::min(strip_, length - begin)}, src, dst);
      job += place.rows;
      if (strips_ > 1 && ++strip < strips_) continue;
      strip = 0;
      cursor.advance(place.rows);
    }
  }

  void move(const Place& place, Strip strip, const std::byte* src, std::byte* dst) const {
    if (form_ == Form::kTranspose) return move_transposed(place, strip, src, dst);
    if (form_ == Form::kRow && !place.filled)
      return kernels::copy_rows(
          {place.rows, strip.size * bytes_, place.src_pitch * bytes_, place.dst_pitch * bytes_},
          src + (place.src + strip.first) * bytes_, dst + (place.dst + strip.first) * bytes_);
    if (form_ == Form::kRuns && !place.filled) {
      for (const Run& run : runs_) move_run(place, run, src, dst);
      return;
    }
    for (std::int64_t r = 0; r < place.rows; ++r) {
      const std::byte* row = src + (place.src + r * place.src_pitch) * bytes_;
      std::byte* out = dst + (place.dst + r * place.dst_pitch) * bytes_;
      if (place.filled)
        fill(strip, out);
      else
        move_row(strip, row, out);
    }
  }

  void move_run(const Place& place, const Run& run, const std::byte* src, std::byte* dst) const {
    std::byte* out = dst + (place.dst + run.dst) * bytes_;
    if (run.src != kFill)
      return kernels::copy_rows(
          {place.rows, run.length * bytes_, place.src_pitch * bytes_, place.dst_pitch * bytes_},
          src + (place.src + run.src) * bytes_, out);
    for (std::int64_t r = 0; r < place.rows; ++r)
      fill({0, run.length}, out + r * place.dst_pitch * bytes_);
  }

  void move_transposed(const Place& place, Strip strip, const std::byte* src,
                       std::byte* dst) const {
    kernels::Transpose shape{tile_.size, inner_.size, inner_.src, tile_.dst};
    (cuts_tile_ ? shape.rows : shape.columns) = strip.size;
    const std::int64_t from = strip.first * (cuts_tile_ ? 1 : inner_.src);
    const std::int64_t to = strip.first * (cuts_tile_ ? tile_.dst : 1);
    for (std::int64_t r = 0; r < place.rows; ++r)
      kernels::transpose(shape, bytes_, src + (place.src + r * place.src_pitch + from) * bytes_,
                         dst + (place.dst + r * place.dst_pitch + to) * bytes_);
  }

  void fill(Strip strip, std::byte* dst) const {
    const auto* value = reinterpret_cast<const std::byte*>(&fill_);  // little-endian
    if (inner_.dst == 1)
      return kernels::take_every(strip.size, 0, bytes_, value, dst + strip.first * bytes_);
    with_element(static_cast<std::uint64_t>(bytes_), [&](auto element) {
      scatter_elements(strip.size, reinterpret_cast<const decltype(element)*>(value),
                       std::int64_t{0}, reinterpret_cast<decltype(element)*>(dst), inner_.dst);
    });
  }

  void move_row(Strip strip, const std::byte* src, std::byte* dst) const {
    if (form_ == Form::kEvery)
      return kernels::take_every(strip.size, inner_.src, bytes_,
                                 src + strip.first * inner_.src * bytes_,
                                 dst + strip.first * bytes_);
    with_element(static_cast<std::uint64_t>(bytes_), [&](auto element) {
      const auto* from = reinterpret_cast<const decltype(element)*>(src);
      auto* to = reinterpret_cast<decltype(element)*>(dst);
      if (form_ == Form::kScatter)
        return scatter_elements(inner_.size, from, inner_.src, to, inner_.dst);
      if (inner_.dst == 1) return gather_elements(inner_.size, from, inner_.offsets.data(), to);
      const auto filler = static_cast<decltype(element)>(fill_);
      for (std::int64_t i = 0; i < inner_.size; ++i) {
        const std::int64_t offset = inner_.offsets[static_cast<std::size_t>(i)];
        to[i * inner_.dst] = offset == kFill ? filler : from[offset];
      }
    });
  }

  std::vector<MoveAxis> axes_;  // outer ones, from the largest stride of dst to the smallest
  MoveAxis inner_;
  MoveAxis tile_;  // kTranspose: the rows of dst; inner_ are its columns
  std::vector<Run> runs_;
  Form form_ = Form::kRow;
  bool cuts_tile_ = false;  // strips are parts of the tile's axis, not of the inner one
  std::int64_t bytes_;      // of an element
  std::uint64_t fill_;
  std::int64_t begin_ = 0;  // of src, in elements
  std::int64_t rows_ = 1, strips_ = 1, strip_ = 1, jobs_per_part_ = 1, elements_ = 1;
};

}  // namespace

std::shared_ptr<const Kernel> make_move_kernel(std::vector<MoveAxis> axes,
                                               std::uint64_t element_bytes, std::uint64_t fill) {
  return std::make_shared<MoveKernel>(std::move(axes), element_bytes, fill);
}

std::shared_ptr<const Kernel> make_copy_kernel(const Dims& dims, const Dims& src_strides,
                                               const Dims& dst_strides,
                                               std::uint64_t element_bytes) {
  std::vector<MoveAxis> axes;
  for (std::size_t i = 0; i < dims.size(); ++i)
    axes.push_back({dims[i], src_strides[i], dst_strides[i], {}});
  return make_move_kernel(std::move(axes), element_bytes);
}

}  // namespace ctxgen::onednn
