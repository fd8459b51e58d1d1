#include "ctxgen/onednn/op_kinds.h"
#include "kernels/kernels.h"
#include "kinds/kind_rows.h"
#include "kinds/placement_rules.h"
#include "kinds/rounding.h"
#include "kinds/shape_rules.h"
#include "kinds/spatial.h"
#include "kinds/type_rules.h"
#include "layout/weight_layout.h"
#include "plan/builder_fused.h"
#include "plan/params.h"

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
  builder.add_kernel("loop:deconv",
                     make_deconv_kernel(src.dims, window, builder.has_input(2)), std::move(args));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Result<Window> resolve_deconv_window(const ProgramOp& op, const Dims& src,
                                     IntList kernel, const DeconvParams& params) {
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
                      w.pad_end[i] <= kMost && w.extra_end[i] >= 0 &&
                      w.extra_end[i] <= kMost && src[i + 2] <= kMaxParam;
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
  const Dims& src = in[0].dims;
  const Dims& weights = in[1].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  const auto params = CTXGEN_TRY(decode<DeconvParams>(op));
  const std::int64_t group = params.conv.group;
  if (weights.size() != src.size() || group < 1 || weights[0] < 1 || weights[0] % group != 0 ||
      weights[1] < 1 || src[1] % group != 0 || src[1] / group != weights[1])
    return fail(ErrorCode::kInvalidGraph, "{}: source {} does not fit weights {} in {} groups",
                label(op), to_string(src), to_string(weights), group);
  if (in.size() > 2 && in[2].present && in[2].dims != Dims{weights[0]})
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}, expected [{}]", label(op),
                to_string(in[2].dims), weights[0]);
  const Window w = CTXGEN_TRY(
      resolve_deconv_window(op, src, IntList(weights.begin() + 2, weights.end()), params));
  Dims out{src[0], weights[0]};
  for (const std::int64_t size : w.out) out.push_back(size);
  return one_shape(out);
}

Status build_deconv(NodeBuilder& builder) {
  const ProgramOp& op = builder.op();
  const std::uint32_t weight = builder.node().packed_weight;
  const Dims& onnx = builder.context().program.weights[weight].dims;
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const auto params = CTXGEN_TRY(decode<DeconvParams>(op));
  const std::int64_t group = params.conv.group;
  const Window window = CTXGEN_TRY(
      resolve_deconv_window(op, src.dims, IntList(onnx.begin() + 2, onnx.end()), params));
  if (group > 1 && group == src.dims[1] && group == onnx[0])
    return build_depthwise(builder, window);

  const std::size_t rank = src.dims.size();
  const Dims dims = weight_dims(onnx, group);
  const memory::desc src_md = channels_last_md(src.dims);
  const memory::desc dst_md = channels_last_md(dst.dims);
  const memory::desc logical = make_md(dims, plain_strides(dims));
  const memory::desc any(to_dnnl(dims), memory::data_type::f32, memory::format_tag::any);
  const memory::desc bias_md =
      builder.has_input(2) ? make_md(Dims{onnx[0]}, Dims{1}) : memory::desc();
  std::vector<std::int64_t> dilations = window.dilations, pad_end = window.pad_end;
  for (std::size_t i = 0; i < dilations.size(); ++i) {
    dilations[i] -= 1;
    pad_end[i] -= window.extra_end[i];
  }
  const auto build_with = [&](const memory::desc& weights_md) {
    const auto make = [&](const dnnl::primitive_attr& attr) {
      return dnnl::deconvolution_forward::primitive_desc(
          cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct,
          src_md, weights_md, bias_md, dst_md, wide_window(window.strides, rank, 1),
          wide_window(dilations, rank, 0), wide_window(window.pad_begin, rank, 0),
          wide_window(pad_end, rank, 0), attr);
    };
    const auto args = [&](const dnnl::deconvolution_forward::primitive_desc& pd) {
      std::vector<Arg> list{builder.slot_arg(DNNL_ARG_SRC, src_md, src),
                            builder.packed_arg(DNNL_ARG_WEIGHTS, {kNone, weight, false, logical,
                                                                  pd.weights_desc()}),
                            builder.slot_arg(DNNL_ARG_DST, dst_md, dst)};
      if (builder.has_input(2))
        list.push_back(builder.slot_arg(DNNL_ARG_BIAS, bias_md, builder.input(2)));
      return list;
    };
    double flops = 2.0 * static_cast<double>(volume(src.dims)) * static_cast<double>(onnx[0]) /
                   static_cast<double>(group) * static_cast<double>(volume(onnx, 2));
    return builder.add_fused<dnnl::deconvolution_forward>(
        make, args, [&](const Slot& operand) { return spatial_operand(operand, dst.dims); }, flops);
  };
  if (const auto stored = chosen_form(builder, weight, logical, false)) {
    const Status status = build_with(*stored);
    if (status || status.error().code != ErrorCode::kUnsupported) return status;
  }
  return build_with(any);
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
