#pragma once

#include <cstdint>
#include <optional>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/tensor.h"

namespace ctxgen::onednn {

/// How a value is laid out in memory. Measured (Zen 5 and Sapphire Rapids, f32): channels-last is the
/// fastest or within 3 % for every dense convolution and pool of the usual networks, has no
/// condition on channel counts, and oneDNN's kernels for it agree between convolution, pool and
/// normalisation; nchw costs 1.1 to 15 times, nChw16c only wins 10 % on depthwise.
enum class Layout : std::uint8_t { kPlain, kChannelsLast };
inline constexpr std::size_t kLayouts = 2;

/// Row-major strides of `dims`, in elements.
[[nodiscard]] Dims plain_strides(const Dims& dims);
[[nodiscard]] Dims strides_of(Layout layout, const Dims& dims);

/// Whether both layouts of these dims are the same bytes (one channel, or one pixel, or rank < 3).
[[nodiscard]] bool layouts_coincide(const Dims& dims);

/// Whether `strides` describe the bytes of `layout` (strides of dims of size 1 do not matter).
[[nodiscard]] bool is_layout(const Dims& dims, const Dims& strides, Layout layout);

/// The layout that comes nearest to the order in which `strides` go through memory: channels-last where
/// neighbours along dim 1 are the closest.
[[nodiscard]] Layout nearest_layout(const Dims& dims, const Dims& strides);

/// Strides over `to` of the elements that `dims` and `strides` describe, if there are any: where dims
/// are merged, they must continue each other in memory. No dim is 0, and both shapes have as many
/// elements.
[[nodiscard]] std::optional<Dims> reshaped_strides(const Dims& dims, const Dims& strides,
                                                   const Dims& to);

/// oneDNN's name of an element type; undef for the types that programs do not hold.
[[nodiscard]] dnnl::memory::data_type dnnl_type(DataType type);

/// Bytes of one element of a type that dnnl_type() knows.
[[nodiscard]] std::uint64_t element_bytes(DataType type);

/// A memory descriptor. Rank 0 becomes {1}. Throws dnnl::error.
[[nodiscard]] dnnl::memory::desc make_md(const Dims& dims, const Dims& strides,
                                         DataType type = DataType::kFloat);
[[nodiscard]] dnnl::memory::dims to_dnnl(const Dims& dims);
/// Whether oneDNN is to choose the layout.
[[nodiscard]] bool is_any(const dnnl::memory::desc& md);

/// Product of dims as a signed number; the caller has checked that it fits.
[[nodiscard]] std::int64_t volume(const Dims& dims, std::size_t first = 0);

}  // namespace ctxgen::onednn
