#include <algorithm>
#include <cmath>

#include "ctxgen/base/checked.h"
#include "kinds/shape_functions.h"
#include "plan/params.h"
#include "plan/shapes.h"

// Shapes of the kinds that move elements: pad, gather, tile, expand, resize, blocks.
namespace ctxgen::onednn {
namespace {

std::unexpected<Error> too_large(const ProgramOp& op, std::int64_t dim) {
  return fail(ErrorCode::kResourceLimit, "{}: a dim of {} is too large", label(op), dim);
}

/// floor(dim * scale), as ONNX computes it: in float32.
Result<std::int64_t> scaled_dim(const ProgramOp& op, std::int64_t dim, double scale) {
  const double size = std::floor(static_cast<float>(dim) * static_cast<float>(scale));
  if (!(scale > 0.0) || !(size <= static_cast<double>(kMaxParam)))
    return fail(ErrorCode::kInvalidGraph, "{}: scale {} of a dim of {}", label(op), scale, dim);
  return static_cast<std::int64_t>(size);
}

}  // namespace

Result<ShapeOutputs> pad_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const auto pads = CTXGEN_TRY(Params(op).integers("pads", 2 * src.size(), 0));
  Dims out = src;
  for (std::size_t i = 0; i < src.size(); ++i) {
    out[i] += pads[i] + pads[src.size() + i];
    if (out[i] < 0)
      return fail(ErrorCode::kInvalidGraph, "{}: pads [{}, {}] of a dim of {}", label(op), pads[i],
                  pads[src.size() + i], src[i]);
  }
  return one_shape(out);
}

Result<ShapeOutputs> gather_shape(const ProgramOp& op, ShapeInputs in) {
  const Params params(op);
  const Dims& src = in[0].dims;
  const std::size_t axis = CTXGEN_TRY(axis_param(op, 0, src.size()));
  const auto indices = CTXGEN_TRY(params.list("indices"));
  const auto index_dims = CTXGEN_TRY(params.list("index_dims"));
  const bool ranks = src.size() - 1 + index_dims.size() <= kMaxRank;
  if (!ranks || std::ranges::any_of(index_dims, [](std::int64_t d) { return d < 1; }) ||
      checked_element_count(Dims(std::span(index_dims))) != indices.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} indices in {} dims", label(op), indices.size(),
                index_dims.size());
  Dims out(src.span().first(axis));
  for (const std::int64_t dim : index_dims) out.push_back(dim);
  for (const std::int64_t dim : src.span().subspan(axis + 1)) out.push_back(dim);
  return one_shape(out);
}

Result<ShapeOutputs> tile_shape(const ProgramOp& op, ShapeInputs in) {
  Dims out = in[0].dims;
  const auto repeats = CTXGEN_TRY(Params(op).integers("repeats", out.size(), 1));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (repeats[i] < 0)
      return fail(ErrorCode::kInvalidGraph, "{}: {} repeats", label(op), repeats[i]);
    if (repeats[i] > 0 && out[i] > static_cast<std::int64_t>(kMaxTensorBytes) / repeats[i])
      return too_large(op, out[i]);
    out[i] *= repeats[i];
  }
  return one_shape(out);
}

Result<ShapeOutputs> expand_shape(const ProgramOp& op, ShapeInputs in) {
  const auto shape = CTXGEN_TRY(Params(op).list("shape"));
  const bool negative = std::ranges::any_of(shape, [](std::int64_t d) { return d < 0; });
  if (shape.size() > kMaxRank || negative)
    return fail(ErrorCode::kInvalidGraph, "{}: shape of {} dims", label(op), shape.size());
  return one_shape(CTXGEN_TRY(broadcast_dims(op, in[0].dims, Dims(std::span(shape)))));
}

Result<ShapeOutputs> resize_shape(const ProgramOp& op, ShapeInputs in) {
  const Params params(op);
  const Dims& src = in[0].dims;
  const auto scales = CTXGEN_TRY(params.reals("scales"));
  const auto sizes = CTXGEN_TRY(params.integers("sizes", src.size(), -1));
  if (!scales.empty() && scales.size() != src.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} scales for rank {}", label(op), scales.size(),
                src.size());
  for (const double scale : scales)
    if (!(static_cast<float>(scale) > 0) || !std::isfinite(scale))  // maps compute in float32
      return fail(ErrorCode::kInvalidGraph, "{}: scale {}", label(op), scale);
  Dims out = src;
  for (std::size_t i = 0; i < src.size(); ++i) {
    if (sizes[i] >= 0)
      out[i] = sizes[i];
    else if (!scales.empty())
      out[i] = CTXGEN_TRY(scaled_dim(op, src[i], scales[i]));
  }
  return one_shape(out);
}

Result<ShapeOutputs> blocks_shape(const ProgramOp& op, ShapeInputs in) {
  const Params params(op);
  const Dims& src = in[0].dims;
  const std::string form = CTXGEN_TRY(params.text("form", ""));
  const std::int64_t size = CTXGEN_TRY(params.integer("size", 0));
  const bool spreads = form == "depth_to_space_dcr" || form == "depth_to_space_crd";
  if (!spreads && form != "space_to_depth")
    return fail(ErrorCode::kUnsupported, "{}: form \"{}\"", label(op), form);
  if (src.size() != 4 || size < 1 || size > 1 << 15)
    return fail(ErrorCode::kInvalidGraph, "{}: source {}, block size {}", label(op),
                to_string(src), size);
  const bool fits = spreads ? src[1] % (size * size) == 0
                            : src[2] % size == 0 && src[3] % size == 0;
  if (!fits)
    return fail(ErrorCode::kInvalidGraph, "{}: blocks of {} do not fit {}", label(op), size,
                to_string(src));
  constexpr std::int64_t kMostDim = std::int64_t{1} << 40;
  if (std::ranges::any_of(src, [](std::int64_t d) { return d > kMostDim / (1 << 16); }))
    return too_large(op, src[1]);
  if (spreads)
    return one_shape(Dims{src[0], src[1] / (size * size), src[2] * size, src[3] * size});
  return one_shape(Dims{src[0], src[1] * size * size, src[2] / size, src[3] / size});
}

}  // namespace ctxgen::onednn
