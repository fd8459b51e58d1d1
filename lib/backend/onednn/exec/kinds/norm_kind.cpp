#include "kernels/kernels.h"
#include "plan/builder_fused.h"

namespace ctxgen::onednn {

using dnnl::memory;

Status build_softmax(NodeBuilder& builder) {
  const Params params(builder.op());
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t axis = CTXGEN_TRY(axis_param(builder.op(), -1, src.dims.size()));
  const bool log = CTXGEN_TRY(params.integer("log", 0)) != 0;
  // [outer, axis, inner]; over the channels of a channels-last tensor inner is 1.
  std::int64_t outer = volume(Dims(src.dims.span().first(axis)));
  std::int64_t inner = volume(src.dims, axis + 1);
  if (!is_layout(src.dims, src.strides, Layout::kPlain)) {
    outer *= inner;
    inner = 1;
  }
  Dims dims{outer, src.dims[axis]};
  if (inner != 1) dims.push_back(inner);
  const memory::desc md = make_md(dims, plain_strides(dims));
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::softmax_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference,
        log ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate, md, md, 1, attr);
  };
  CTXGEN_CHECK(builder.add_primitive<dnnl::softmax_forward>(
      make,
      {builder.slot_arg(DNNL_ARG_SRC, md, src), builder.slot_arg(DNNL_ARG_DST, md, dst)}));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_layer_norm(NodeBuilder& builder) {
  const Params params(builder.op());
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t axis = CTXGEN_TRY(axis_param(builder.op(), -1, src.dims.size()));
  const auto epsilon = static_cast<float>(CTXGEN_TRY(params.real("epsilon", 1e-5)));
  const Dims dims{volume(Dims(src.dims.span().first(axis))), volume(src.dims, axis)};
  const memory::desc md = make_md(dims, plain_strides(dims));
  const memory::desc vector = make_md(Dims{dims[1]}, Dims{1});
  auto flags = dnnl::normalization_flags::none;
  std::vector<Arg> args{builder.slot_arg(DNNL_ARG_SRC, md, src),
                        builder.slot_arg(DNNL_ARG_DST, md, dst)};
  if (builder.has_input(1)) {
    flags = flags | dnnl::normalization_flags::use_scale;
    args.push_back(builder.slot_arg(DNNL_ARG_SCALE, vector, builder.input(1)));
  }
  if (builder.has_input(2)) {
    flags = flags | dnnl::normalization_flags::use_shift;
    args.push_back(builder.slot_arg(DNNL_ARG_SHIFT, vector, builder.input(2)));
  }
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::layer_normalization_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference, md, md, epsilon, flags, attr);
  };
  CTXGEN_CHECK(builder.add_primitive<dnnl::layer_normalization_forward>(make, args));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_lrn(NodeBuilder& builder) {
  const Params params(builder.op());
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const LrnParams lrn{CTXGEN_TRY(params.integer("size", 1)),
                      static_cast<float>(CTXGEN_TRY(params.real("alpha", 1e-4))),
                      static_cast<float>(CTXGEN_TRY(params.real("beta", 0.75))),
                      static_cast<float>(CTXGEN_TRY(params.real("bias", 1.0)))};
  const std::int64_t pixels = src.dims[0] * volume(src.dims, 2);
  const Dims dims{src.dims[0], src.dims[1], volume(src.dims, 2), 1};
  const memory::desc md = make_md(dims, strides_of(Layout::kChannelsLast, dims));
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::lrn_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, md,
        md, lrn.size, lrn.alpha, lrn.beta, lrn.bias, attr);
  };
  // An even window is not centred; oneDNN and ONNX put the odd channel on different sides.
  Status status = fail(ErrorCode::kUnsupported, "own loop");
  if (lrn.size % 2 == 1)
    status = builder.add_primitive<dnnl::lrn_forward>(
        make, {builder.slot_arg(DNNL_ARG_SRC, md, src), builder.slot_arg(DNNL_ARG_DST, md, dst)});
  if (!status && status.error().code != ErrorCode::kUnsupported) return status;
  if (!status)
    builder.add_kernel("loop:lrn", make_lrn_kernel(pixels, src.dims[1], lrn),
                       {builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace ctxgen::onednn
