#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "ctxgen/kernels/moments.h"
#include "ctxgen/kernels/normalize.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels_reduce.h"
#include "kernels/point_rows.h"

namespace ctxgen::onednn {
namespace {

using kernels::Affine;
using kernels::Moments;

float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

class NormKernel final : public Kernel {
 public:
  explicit NormKernel(const NormShape& shape) : shape_(shape) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::NormRows all{.width = shape_.width, .epsilon = shape_.epsilon};
    all.in = floats(args[0]);
    all.out = floats(args[1]);
    std::size_t next = 2;
    if (shape_.has_scale) all.scale = floats(args[next++]);
    if (shape_.has_shift) all.shift = floats(args[next++]);
    if (shape_.has_residual) all.residual = floats(args[next++]);
    if (shape_.has_bias) all.bias = floats(args[next++]);
    if (shape_.has_sum) all.sum = floats(args[next++]);
    const std::int64_t rows = rows_of_job(), jobs = parts_of(shape_.rows, rows);
    const std::int64_t work = work_of(work_of(shape_.rows, shape_.width), 2);  // two passes
    parallel_for(workers, jobs, work, [&](std::int64_t job) { run_rows(job * rows, rows, all); });
    return {};
  }

 private:
  /// Some thousand elements: a row may have two. Eight jobs or a multiple, if there are so many rows, so that few threads get
  /// as many each, those that products of lanes wrote.
  [[nodiscard]] std::int64_t rows_of_job() const {
    constexpr std::int64_t kJobElements = 4096, kJobs = 8;
    const std::int64_t most = std::max<std::int64_t>(1, kJobElements / shape_.width);
    const std::int64_t jobs = parts_of(parts_of(shape_.rows, most), kJobs) * kJobs;
    return std::max<std::int64_t>(parts_of(shape_.rows, std::max<std::int64_t>(jobs, 1)), 1);
  }

  void run_rows(std::int64_t first, std::int64_t rows, kernels::NormRows part) const {
    const std::int64_t at = first * shape_.width;
    part.rows = std::min(rows, shape_.rows - first);
    part.in += at;
    part.out += at;
    if (part.residual != nullptr) part.residual += at;
    if (part.sum != nullptr) part.sum += at;
    if (shape_.centred)
      kernels::layer_norm(part);
    else
      kernels::rms_norm(part);
  }

  NormShape shape_;
};

/// What a channel is multiplied with and what is added, from the moments of its group.
struct Normal {
  double mean, factor;
};

Normal normal_of(const Moments& m, float epsilon) {
  return {m.mean, 1 / std::sqrt(m.squares / m.count + double{epsilon})};
}

/// Groups are cut into chunks, whose sizes follow from the shape alone: first the moments of each are
/// found, then those of a group are merged in order, so that results do not depend on threads.
class GroupNormKernel final : public Kernel {
 public:
  GroupNormKernel(const GroupNormShape& shape, std::vector<PointStage> then)
      : shape_(shape), then_(std::move(then)) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    Arrays arrays{.src = floats(args[0]), .dst = floats(args[1])};
    std::size_t next = 2;
    if (shape_.has_scale) arrays.scale = floats(args[next++]);
    if (shape_.has_shift) arrays.shift = floats(args[next++]);
    if (shape_.scratch_bytes() > 0) {
      arrays.moments = reinterpret_cast<Moments*>(args[next]);
      arrays.affine = floats(args[next]) + shape_.moment_count() * kFloatsPerMoments;
    }
    if (shape_.channels_last)
      run_last(arrays, workers);
    else
      run_plain(arrays, workers);
    return {};
  }

 private:
  static constexpr std::int64_t kFloatsPerMoments = sizeof(Moments) / sizeof(float);
  static constexpr std::int64_t kBlock = 2048;  // elements that stay in the first cache

  struct Arrays {
    const float* src;
    float* dst;
    const float* scale = nullptr;
    const float* shift = nullptr;
    Moments* moments =
        nullptr;  // [images, groups, chunks], or [images, chunks, groups]: channels last
    float* affine = nullptr;  // [images, 3, channels]: mean, factor, offset; channels last
  };

  [[nodiscard]] Affine affine_of(const Normal& normal, std::int64_t channel,
                                 const Arrays& arrays) const {
    double factor = normal.factor;
    if (arrays.scale != nullptr) factor *= double{arrays.scale[channel]};
    const auto mean = static_cast<float>(normal.mean);
    double offset = (double{mean} - normal.mean) * factor;
    if (arrays.shift != nullptr) offset += double{arrays.shift[channel]};
    return {mean, static_cast<float>(factor), static_cast<float>(offset)};
  }

  void apply_stages(std::int64_t n, float* data) const {
    for (const PointStage& stage : then_)
      unary_row(stage.op, stage.alpha, stage.beta, n, data, data);
  }

  // Plain: a group is one run of memory.

  void run_plain(const Arrays& arrays, Workers& workers) const {
    const std::int64_t groups = shape_.images * shape_.groups;
    const std::int64_t elements = groups * shape_.group_elements();
    const std::int64_t chunks = shape_.chunks();
    if (chunks == 1) {  // a group stays in a cache between both passes
      parallel_for(workers, groups, elements, [&](std::int64_t group) {
        const std::int64_t at = group * shape_.group_elements();
        const Moments m = kernels::moments_of(shape_.group_elements(), arrays.src + at);
        normalize_part(group, 0, shape_.group_elements(), normal_of(m, shape_.epsilon), arrays);
      });
      return;
    }
    parallel_for(workers, groups * chunks, elements, [&](std::int64_t job) {
      const auto [first, last] = part_of(job % chunks);
      arrays.moments[job] = kernels::moments_of(
          last - first, arrays.src + job / chunks * shape_.group_elements() + first);
    });
    parallel_for(workers, groups * chunks, elements, [&](std::int64_t job) {
      const std::int64_t group = job / chunks;
      Moments all;
      for (std::int64_t i = 0; i < chunks; ++i)
        all = kernels::merge(all, arrays.moments[group * chunks + i]);
      const auto [first, last] = part_of(job % chunks);
      normalize_part(group, first, last, normal_of(all, shape_.epsilon), arrays);
    });
  }

  [[nodiscard]] std::pair<std::int64_t, std::int64_t> part_of(std::int64_t chunk) const {
    const std::int64_t first = chunk * GroupNormShape::kChunk;
    return {first, std::min(first + GroupNormShape::kChunk, shape_.group_elements())};
  }

  /// Elements [first, last) of a group.
  void normalize_part(std::int64_t group, std::int64_t first, std::int64_t last,
                      const Normal& normal, const Arrays& arrays) const {
    const std::int64_t base = group * shape_.group_elements();
    const std::int64_t channel = group % shape_.groups * shape_.group_size();
    for (std::int64_t at = first; at < last;) {
      const std::int64_t c = at / shape_.pixels;
      const std::int64_t end = std::min(last, (c + 1) * shape_.pixels);
      const Affine by = affine_of(normal, channel + c, arrays);
      for (std::int64_t n = 0; at < end; at += n) {
        n = std::min(kBlock, end - at);
        kernels::normalize_row(n, by, arrays.src + base + at, arrays.dst + base + at);
        apply_stages(n, arrays.dst + base + at);
      }
    }
  }

  // Channels last: rows of channels.

  void run_last(const Arrays& arrays, Workers& workers) const {
    const std::int64_t elements = shape_.images * shape_.pixels * shape_.channels;
    const std::int64_t chunks = shape_.chunks();
    const auto jobs = shape_.images * chunks;
    if (chunks == 1) {
      parallel_for(workers, jobs, elements, [&](std::int64_t image) {
        find_moments(image, 0, arrays);
        merge_image(image, arrays);
        normalize_rows(image, 0, arrays);
      });
      return;
    }
    parallel_for(workers, jobs, elements,
                 [&](std::int64_t job) { find_moments(job / chunks, job % chunks, arrays); });
    for (std::int64_t image = 0; image < shape_.images; ++image) merge_image(image, arrays);
    parallel_for(workers, jobs, elements,
                 [&](std::int64_t job) { normalize_rows(job / chunks, job % chunks, arrays); });
  }

  [[nodiscard]] std::pair<std::int64_t, std::int64_t> rows_of(std::int64_t chunk) const {
    const std::int64_t first = chunk * shape_.chunk_rows();
    return {first, std::min(first + shape_.chunk_rows(), shape_.pixels)};
  }

  void find_moments(std::int64_t image, std::int64_t chunk, const Arrays& arrays) const {
    const auto [first, last] = rows_of(chunk);
    const auto groups = static_cast<std::size_t>(shape_.groups);
    const std::span<Moments> out(arrays.moments + (image * shape_.chunks() + chunk) * shape_.groups,
                                 groups);
    std::ranges::fill(out, Moments{});
    kernels::add_moments(last - first, shape_.channels, shape_.group_size(),
                         arrays.src + (image * shape_.pixels + first) * shape_.channels, out);
  }

  void merge_image(std::int64_t image, const Arrays& arrays) const {
    const Moments* moments = arrays.moments + image * shape_.chunks() * shape_.groups;
    float* mean = arrays.affine + image * 3 * shape_.channels;
    float* factor = mean + shape_.channels;
    float* offset = factor + shape_.channels;
    for (std::int64_t g = 0; g < shape_.groups; ++g) {
      Moments all;
      for (std::int64_t i = 0; i < shape_.chunks(); ++i)
        all = kernels::merge(all, moments[i * shape_.groups + g]);
      const Normal normal = normal_of(all, shape_.epsilon);
      for (std::int64_t c = g * shape_.group_size(); c < (g + 1) * shape_.group_size(); ++c) {
        const Affine by = affine_of(normal, c, arrays);
        mean[c] = by.mean;
        factor[c] = by.factor;
        offset[c] = by.offset;
      }
    }
  }

  void normalize_rows(std::int64_t image, std::int64_t chunk, const Arrays& arrays) const {
    const auto [first, last] = rows_of(chunk);
    const std::int64_t channels = shape_.channels;
    const float* mean = arrays.affine + image * 3 * channels;
    const std::int64_t block = std::max<std::int64_t>(1, kBlock / channels);
    for (std::int64_t row = first; row < last; row += block) {
      const std::int64_t rows = std::min(block, last - row);
      const std::int64_t at = (image * shape_.pixels + row) * channels;
      for (std::int64_t i = 0; i < rows; ++i)
        kernels::normalize_channels(channels, mean, mean + channels, mean + 2 * channels,
                                    arrays.src + at + i * channels, arrays.dst + at + i * channels);
      apply_stages(rows * channels, arrays.dst + at);
    }
  }

  GroupNormShape shape_;
  std::vector<PointStage> then_;
};

}  // namespace

std::shared_ptr<const Kernel> make_norm_kernel(const NormShape& shape) {
  return std::make_shared<NormKernel>(shape);
}

std::int64_t GroupNormShape::chunk_rows() const {
  return std::max<std::int64_t>(1, kChunk / channels);
}

std::int64_t GroupNormShape::chunks() const {
  if (channels_last) return (pixels + chunk_rows() - 1) / chunk_rows();
  return (group_elements() + kChunk - 1) / kChunk;
}

std::int64_t GroupNormShape::moment_count() const {
  return channels_last || chunks() > 1 ? images * groups * chunks() : 0;
}

std::uint64_t GroupNormShape::scratch_bytes() const {
  const std::int64_t affine = channels_last ? images * 3 * channels : 0;
  return static_cast<std::uint64_t>(moment_count()) * sizeof(Moments) +
         static_cast<std::uint64_t>(affine) * sizeof(float);
}

std::shared_ptr<const Kernel> make_group_norm_kernel(const GroupNormShape& shape,
                                                     std::vector<PointStage> then) {
  return std::make_shared<GroupNormKernel>(shape, std::move(then));
}

}  // namespace ctxgen::onednn
