#include "rules/conv_rules.h"

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

ShapeOutputs conv_result(ShapeInputs in, const Window& window) {
  Dims out{in[0].dims[0], in[1].dims[0]};
  for (const std::int64_t size : window.out) out.push_back(size);
  return one_shape(out);
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
