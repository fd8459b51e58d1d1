#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/data_type.h"
#include "ctxgen/base/instruction_set.h"
#include "ctxgen/base/tensor.h"

namespace ctxgen::onednn {

/// What decides how a convolution's constant weights are stored, with the instruction set: nothing
/// that threads, caches or images change, so that one file serves all machines of the set.
struct ConvWeights {
  Dims dims;                // as oneDNN sees them: [G, M/G, C/G, K1..Kk], k in 2..3, or without G
  bool grouped = false;     // dims have G
  bool transposed = false;  // of a transposed convolution
  DataType type = DataType::kFloat;  // f32, bf16, f16, or s8
  /// Of the other operand: f32, bf16 or f16 as the weights, or u8 whose zero point is 0.
  DataType source = DataType::kFloat;
};

/// The form in which such weights are stored; nothing where no tag serves, and oneDNN is to choose.
/// Panels where kernels::multiply_panels() reads them, else what oneDNN takes at every number of
/// threads or at most of them (docs/onednn.md, "Packed weights").
[[nodiscard]] std::optional<dnnl::memory::format_tag> conv_packing(const ConvWeights& weights,
                                                                   InstructionSet usable);

/// Elements of a window (C/G x K1 x K2) below which oneDNN's kernels are faster with AVX2 than
/// kernels::multiply_panels(): a tile's start and end cost as much as its sums.
inline constexpr std::int64_t kShortDepth = 64;

/// Whether the results and channels of a group fill panels well enough.
[[nodiscard]] constexpr bool fills_panels(std::int64_t results, std::int64_t channels,
                                          bool grouped) {
  return grouped ? results >= 16 && channels >= 16 : results >= 8;
}

/// The packings of convolutions' weights in panels of so many results: of one group, of several.
struct WindowPacking {
  std::int64_t columns;
  dnnl::memory::format_tag one, grouped;
};
[[nodiscard]] std::span<const WindowPacking> window_packings();

}  // namespace ctxgen::onednn
