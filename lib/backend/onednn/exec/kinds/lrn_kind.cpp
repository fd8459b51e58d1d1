#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

Result<ShapeOutputs> lrn_shape(const ProgramOp& op, ShapeInputs in) {
  CTXGEN_CHECK(require_spatial(op, in[0].dims));
  const std::int64_t size = CTXGEN_TRY(decode<LrnParams>(op)).size;
  if (size < 1) return fail(ErrorCode::kInvalidGraph, "{}: size is {}", label(op), size);
  return one_shape(in[0].dims);
}

Status build_lrn(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<LrnParams>(builder.op()));
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const LrnWindow lrn{params.size, static_cast<float>(params.alpha),
                      static_cast<float>(params.beta), static_cast<float>(params.bias)};
  const std::int64_t pixels = src.dims[0] * volume(src.dims, 2);
  const Dims dims{src.dims[0], src.dims[1], volume(src.dims, 2), 1};
  const memory::desc md = make_md(dims, strides_of(Layout::kChannelsLast, dims));
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::lrn_forward::primitive_desc(cpu_engine(), dnnl::prop_kind::forward_inference,
                                             dnnl::algorithm::lrn_across_channels, md, md, lrn.size,
                                             lrn.alpha, lrn.beta, lrn.bias, attr);
  };
  // An even window is not centred; oneDNN and ONNX put the odd channel on different sides.
  Status status = fail(ErrorCode::kUnsupported, "own loop");
  if (lrn.size % 2 == 1)
    status = builder.add_primitive<dnnl::lrn_forward>(
        make, {builder.slot_arg(DNNL_ARG_SRC, md, src), builder.slot_arg(DNNL_ARG_DST, md, dst)});
  if (!status && status.error().code != ErrorCode::kUnsupported) return status;
  if (!status)
    builder.add_kernel("loop:lrn", make_lrn_kernel(pixels, src.dims[1], lrn),
                       {builder.slot_arg(src), builder.slot_arg(dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kLrnRow{
    .name = kind::kLrn,
    .number = 10,
    .inputs = {1, 1},
    .traits = {.keeps_dims = true},
    .types = check_f32_types,
    .shape = lrn_shape,
    .place = place_spatial,
    .build = build_lrn,
};

}  // namespace ctxgen::onednn
