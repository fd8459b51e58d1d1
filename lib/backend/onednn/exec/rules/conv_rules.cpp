#include "rules/conv_rules.h"

#include <optional>
#include <utility>

#include "ctxgen/base/checked.h"

#include "plan/params.h"
#include "rules/shape_rules.h"

namespace ctxgen::onednn {

using dnnl::memory;

Status check_conv_inputs(const ProgramOp& op, ShapeInputs in, std::int64_t group) {
  const Dims& src = in[0].dims;
  const Dims& weights = in[1].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  if (weights.size() != src.size() || group < 1 || weights[0] < 1 || weights[0] % group != 0 ||
      weights[1] < 1 || src[1] % group != 0 || src[1] / group != weights[1])
    return fail(ErrorCode::kInvalidGraph, "{}: source {} does not fit weights {} in {} groups",
                label(op), to_string(src), to_string(weights), group);
  if (in.size() > 2 && in[2].present && in[2].dims != Dims{weights[0]})
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}, expected [{}]", label(op),
                to_string(in[2].dims), weights[0]);
  return {};
}

ShapeOutputs conv_result(std::int64_t images, std::int64_t results, const Window& window) {
  Dims out{images, results};
  for (const std::int64_t size : window.out) out.push_back(size);
  return one_shape(out);
}

Result<Window> window_of_matrix(const ProgramOp& op, const Dims& src, const IntList& kernel,
                                const WindowParams& params, std::int64_t depth) {
  CTXGEN_CHECK(require_spatial(op, src));
  constexpr std::size_t kMostSpatial = 2;
  if (kernel.size() + 2 != src.size() || kernel.size() > kMostSpatial)
    return fail(ErrorCode::kInvalidGraph, "{}: source {} with a kernel of {} dims", label(op),
                to_string(src), kernel.size());
  std::optional<std::uint64_t> elements = static_cast<std::uint64_t>(src[1]);
  for (const std::int64_t size : kernel)
    elements = size < 1 || !elements ? std::nullopt
                                     : checked_mul(*elements, static_cast<std::uint64_t>(size));
  if (!elements || std::cmp_not_equal(*elements, depth))
    return fail(ErrorCode::kInvalidGraph, "{}: source {} does not fit windows of {} elements",
                label(op), to_string(src), depth);
  return resolve_window(op, src, kernel, params);
}

namespace {

/// A number per spatial dim of a convolution of one or two as lines and columns.
kernels::Windows::Pair pair(const std::vector<std::int64_t>& values, std::int64_t fill) {
  if (values.size() == 1) return {fill, values[0]};
  return {values[0], values[1]};
}

}  // namespace

kernels::Windows windows_of(const Dims& src, const Window& window, std::int64_t group) {
  return {.images = src[0],
          .size = pair({src.begin() + 2, src.end()}, 1),
          .result = pair(window.out, 1),
          .kernel = pair(window.kernel, 1),
          .stride = pair(window.strides, 1),
          .dilation = pair(window.dilations, 1),
          .pad = pair(window.pad_begin, 0),
          .channels = src[1] / group,
          .pitch = src[1]};
}

kernels::Windows along_lines(kernels::Windows windows) {
  kernels::Windows& w = windows;
  if (w.size[1] != 1 || w.result[1] != 1 || w.kernel[1] != 1 || w.pad[1] != 0) return windows;
  for (auto* pair : {&w.size, &w.result, &w.kernel, &w.stride, &w.dilation, &w.pad})
    std::swap((*pair)[0], (*pair)[1]);
  return windows;
}

IntList kernel_of(const Dims& weights) { return {weights.begin() + 2, weights.end()}; }

ConvOperands conv_operands(const NodeBuilder& builder, std::int64_t group) {
  ConvOperands conv;
  conv.weight = builder.node().packed_weight;
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const Dims& onnx = builder.weight_dims();
  const DataType type = builder.weight_type();
  const Dims dims = weight_dims(onnx, group);
  conv.rank = src.dims.size();
  conv.src = channels_last_md(src.dims, src.type);
  conv.dst = channels_last_md(dst.dims, dst.type);
  if (builder.has_input(2)) conv.bias = make_md(Dims{onnx[0]}, Dims{1});
  conv.logical = make_md(dims, plain_strides(dims), type);
  conv.any = memory::desc(to_dnnl(dims), dnnl_type(type), memory::format_tag::any);
  return conv;
}

}  // namespace ctxgen::onednn
