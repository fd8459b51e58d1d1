#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ctxgen/kernels/product.h"

#include "kinds/quantized/byte_form.h"

// Convolutions of bytes whose windows are multiplied where they lie in an image, not gathered before.
namespace ctxgen::onednn {

/// Whether windows are multiplied so. In short lines, rows that are multiplied at once are fewer than in gathered windows.
[[nodiscard]] bool takes_lines(const kernels::ByteMatrix& matrix, const kernels::Windows& windows,
                               bool is_signed);

/// How they are: some lines of results at a time, of which an image with padding has what they
/// see, in memory of a lane.
struct ByteLinesForm {
  kernels::Windows windows;
  std::int64_t part_lines = 1, parts_of_image = 1, lanes = 1;
  std::uint64_t lane_bytes =
      0;  // of scratch; 0: no window leaves the image, which is read where it is
};

/// Nothing where the sizes pass what a plan may hold. Requires  windows.rows() > 0.
[[nodiscard]] std::optional<ByteLinesForm> plan_lines(const kernels::Windows& windows, int threads);

/// Args: those of ByteForm, scratch: lane_bytes for each lane.
[[nodiscard]] std::shared_ptr<const Kernel> make_byte_lines_kernel(const ByteForm& form,
                                                                   const ByteLinesForm& lines);

}  // namespace ctxgen::onednn
