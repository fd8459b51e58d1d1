#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels.h"
#include "kinds/kind_rows.h"
#include "layout/conv_packing.h"
#include "layout/weight_layout.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/conv_rules.h"
#include "rules/placement_rules.h"
#include "rules/rounding.h"
#include "rules/shape_rules.h"
#include "rules/spatial.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

/// One weight per channel and tap: a loop over channels, because oneDNN has no fast kernel
/// (docs/onednn.md, "Transposed convolution").
Status build_depthwise(NodeBuilder& builder, const Window& window) {
  for (const NodePostOp& post : builder.node().post_ops)
    if (post.in_place_sum) return fail(ErrorCode::kUnsupported, "own loop");
  const std::uint32_t weight = builder.node().packed_weight;
  const Dims& onnx = builder.context().program.weights[weight].dims;
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  // [C, taps] becomes [taps, C], so that neighbours in memory are channels.
  const Dims dims{onnx[0], volume(onnx, 2)};
  const memory::desc logical = make_md(dims, plain_strides(dims));
  const memory::desc wanted = make_md(dims, Dims{1, dims[0]});
  std::vector<Arg> args{builder.slot_arg(src),
                        builder.packed_arg(0, {kNone, weight, false, logical, wanted}),
                        builder.slot_arg(dst)};
  if (builder.has_input(2)) args.push_back(builder.slot_arg(builder.input(2)));
  builder.add_kernel("loop:deconv", make_deconv_kernel(src.dims, window, builder.has_input(2)),
                     std::move(args));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Result<Window> resolve_deconv_window(const ProgramOp& op, const Dims& src, IntList kernel,
                                     const DeconvParams& params) {
  const std::size_t k = kernel.size();
  Window w;
  w.kernel = std::move(kernel);
  const WindowParams& window = params.conv.window;
  w.strides = CTXGEN_TRY(per_dim(op, "strides", window.strides, k, 1));
  w.dilations = CTXGEN_TRY(per_dim(op, "dilations", window.dilations, k, 1));
  const IntList pads = CTXGEN_TRY(per_dim(op, "pads", window.pads, 2 * k, 0));
  w.extra_end = CTXGEN_TRY(per_dim(op, "output_padding", params.output_padding, k, 0));
  w.pad_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(k));
  w.pad_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(k), pads.end());
  constexpr std::int64_t kMost = std::int64_t{1} << 20;  // products of three stay in 64 bits
  for (std::size_t i = 0; i < k; ++i) {
    const bool sane = w.kernel[i] >= 1 && w.kernel[i] <= kMost && w.strides[i] >= 1 &&
                      w.strides[i] <= kMost && w.dilations[i] >= 1 && w.dilations[i] <= kMost &&
                      w.pad_begin[i] >= 0 && w.pad_begin[i] <= kMost && w.pad_end[i] >= 0 &&
                      w.pad_end[i] <= kMost && w.extra_end[i] >= 0 && w.extra_end[i] <= kMost &&
                      src[i + 2] <= kMaxParam;
    if (!sane)
      return fail(ErrorCode::kInvalidGraph,
                  "{}: kernel {}, stride {}, dilation {}, pads [{}, {}] on spatial axis {}",
                  label(op), w.kernel[i], w.strides[i], w.dilations[i], w.pad_begin[i],
                  w.pad_end[i], i);
    const std::int64_t out = (src[i + 2] - 1) * w.strides[i] + w.extra_end[i] +
                             (w.kernel[i] - 1) * w.dilations[i] + 1 - w.pad_begin[i] - w.pad_end[i];
    if (out < 1 && src[i + 2] > 0)
      return fail(ErrorCode::kInvalidGraph, "{}: spatial axis {} would have {} elements", label(op),
                  i, out);
    w.out.push_back(std::max<std::int64_t>(out, 0));
  }
  return w;
}

Result<ShapeOutputs> deconv_shape(const ProgramOp& op, ShapeInputs in) {
  const auto params = CTXGEN_TRY(decode<DeconvParams>(op));
  CTXGEN_CHECK(check_conv_inputs(op, in, params.conv.group));
  return conv_result(
      in[0].dims[0], in[1].dims[0],
      CTXGEN_TRY(resolve_deconv_window(op, in[0].dims, kernel_of(in[1].dims), params)));
}

Status build_deconv(NodeBuilder& builder) {
  const ProgramOp& op = builder.op();
  const auto params = CTXGEN_TRY(decode<DeconvParams>(op));
  const std::int64_t group = params.conv.group;
  const ConvOperands conv = conv_operands(builder, group);
  const Dims& onnx = builder.context().program.weights[conv.weight].dims;
  const Dims& src = builder.input(0).dims;
  const Window window = CTXGEN_TRY(resolve_deconv_window(op, src, kernel_of(onnx), params));
  if (group > 1 && group == src[1] && group == onnx[0]) return build_depthwise(builder, window);

  IntList dilations = window.dilations, pad_end = window.pad_end;
  for (std::size_t i = 0; i < dilations.size(); ++i) {
    dilations[i] -= 1;
    pad_end[i] -= window.extra_end[i];
  }
  const auto describe = [&](const memory::desc& weights, const dnnl::primitive_attr& attr) {
    return dnnl::deconvolution_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct,
        conv.src, weights, conv.bias, conv.dst, wide_window(window.strides, conv.rank, 1),
        wide_window(dilations, conv.rank, 0), wide_window(window.pad_begin, conv.rank, 0),
        wide_window(pad_end, conv.rank, 0), attr);
  };
  const double flops = 2.0 * static_cast<double>(volume(src)) * static_cast<double>(onnx[0]) /
                       static_cast<double>(group) * static_cast<double>(volume(onnx, 2));
  const auto build_with = [&](const memory::desc& weights) {
    return add_conv<dnnl::deconvolution_forward>(builder, conv, weights, describe, flops);
  };
  if (const auto stored = chosen_form(builder, conv.weight, conv.logical, false)) {
    const Status status = build_with(*stored);
    if (status || status.error().code != ErrorCode::kUnsupported) return status;
  }
  const Dims dims = weight_dims(onnx, group);
  const auto tag = conv_packing({.dims = dims, .grouped = group != 1, .transposed = true},
                                usable_instruction_set());
  if (tag) {
    const Status status = build_with(memory::desc(to_dnnl(dims), memory::data_type::f32, *tag));
    if (status || status.error().code != ErrorCode::kUnsupported) return status;
  }
  return build_with(conv.any);
}

}  // namespace

constinit const KindRow kDeconvRow{
    .name = kind::kDeconv,
    .number = 23,
    .inputs = {2, 3},
    .traits = {.product = true, .absorbs_eltwise = true, .absorbs_binary = true},
    .types = check_f32_types,
    .shape = deconv_shape,
    .terms = conv_terms,
    .place = place_conv,
    .build = build_deconv,
};

}  // namespace ctxgen::onednn
