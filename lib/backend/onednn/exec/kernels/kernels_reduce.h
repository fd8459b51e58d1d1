#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "plan/plan.h"

namespace ctxgen::onednn {

enum class ReduceMode : std::uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kSumSquare,
  kLogSum,
  kLogSumExp
};
[[nodiscard]] std::optional<ReduceMode> reduce_mode(std::string_view word);

/// Reduces `src` over the dims of `reduced`; dst has strides over all dims of src (those of reduced
/// ones are ignored). Sums are kept in double. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_reduce_kernel(const Dims& dims,
                                                               const Dims& src_strides,
                                                               const Dims& dst_strides,
                                                               const std::vector<bool>& reduced,
                                                               ReduceMode mode);

/// The mean of each channel over all pixels of an image: [images, pixels, channels] to [images, channels].
struct MeanShape {
  std::int64_t images, pixels, channels;

  /// Pixels that are summed up on their own by any team: so the result is the same for any number of threads, and a
  /// thread reads the pixels that it has most likely written.
  [[nodiscard]] std::int64_t part_rows() const;
  [[nodiscard]] std::int64_t parts() const;  // of an image
  /// What make_mean_kernel()'s last argument has to hold.
  [[nodiscard]] std::uint64_t scratch_bytes() const {
    return static_cast<std::uint64_t>(images * parts() * channels) * sizeof(float);
  }
};
/// Requires  no size is 0. Parts are summed in float, and their sums in double. Args: src, dst, scratch.
[[nodiscard]] std::shared_ptr<const Kernel> make_mean_kernel(const MeanShape& shape);

/// Rows that are normalised on their own: layer normalisation where `centred`, else RMS. Before that a
/// residual of the same dims and a bias of one row may be added to the source; has_sum: the sum is
/// wanted, too.
struct NormShape {
  std::int64_t rows, width;
  float epsilon;
  bool centred, has_scale, has_shift;
  bool has_residual = false, has_bias = false, has_sum = false;
};
/// Args: src, dst, then those of scale, shift, residual, bias and sum that there are. dst and sum may be
/// src or the residual.
[[nodiscard]] std::shared_ptr<const Kernel> make_norm_kernel(const NormShape& shape);

/// Where the elements of a group are: [images, channels, pixels], channels last or not.
struct GroupNormShape {
  static constexpr std::int64_t kChunk = 64 * 1024;  // elements of a job: 256 KiB

  std::int64_t images, channels, pixels, groups;
  float epsilon;
  bool channels_last, has_scale, has_shift;

  [[nodiscard]] std::int64_t group_size() const { return channels / groups; }
  [[nodiscard]] std::int64_t group_elements() const { return group_size() * pixels; }
  /// Channels last: pixels of a job.
  [[nodiscard]] std::int64_t chunk_rows() const;
  /// Jobs of a group, or of an image where channels are last.
  [[nodiscard]] std::int64_t chunks() const;
  [[nodiscard]] std::int64_t moment_count() const;
  /// What make_group_norm_kernel()'s last argument has to hold, aligned to 8 bytes. 0: there is none.
  [[nodiscard]] std::uint64_t scratch_bytes() const;
};
/// Normalises groups, then scales and shifts channels; then come `then`, which take no operands, on
/// what is in cache. Args: src, dst, then scale and shift where they are given, scratch.
[[nodiscard]] std::shared_ptr<const Kernel> make_group_norm_kernel(const GroupNormShape& shape,
                                                                   std::vector<PointStage> then);

}  // namespace ctxgen::onednn
