#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels_reduce.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// Own loops: oneDNN's reductions are reference kernels on some axes and layouts (docs/onednn.md,
// "Reduction and normalisation").
namespace ctxgen::onednn {

namespace {

Result<ShapeOutputs> reduce_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const auto params = CTXGEN_TRY(decode<ReduceParams>(op));
  std::vector<bool> reduced(src.size());
  for (const std::int64_t axis : params.axes)
    reduced[CTXGEN_TRY(normal_axis(op, axis, src.size()))] = true;
  Dims out;
  for (std::size_t i = 0; i < src.size(); ++i) {
    if (!reduced[i]) out.push_back(src[i]);
    if (reduced[i] && params.keepdims) out.push_back(1);
  }
  return one_shape(out);
}

Status build_reduce(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<ReduceParams>(builder.op()));
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const auto mode = reduce_mode(params.mode);
  if (!mode)
    return fail(ErrorCode::kUnsupported, "{}: mode \"{}\"", label(builder.op()), params.mode);
  std::vector<bool> reduced(src.dims.size());
  for (const std::int64_t axis : params.axes)
    reduced[CTXGEN_TRY(normal_axis(builder.op(), axis, src.dims.size()))] = true;
  const bool keep = dst.dims.size() == src.dims.size();
  Dims dst_strides(src.dims.size(), 0);
  std::size_t at = 0;
  for (std::size_t i = 0; i < src.dims.size(); ++i) {
    if (!reduced[i]) dst_strides[i] = dst.strides[at];
    if (!reduced[i] || keep) ++at;
  }
  builder.add_kernel("loop:reduce",
                     make_reduce_kernel(src.dims, src.strides, dst_strides, reduced, *mode),
                     {builder.slot_arg(src), builder.slot_arg(dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kReduceRow{
    .name = kind::kReduce,
    .number = 31,
    .inputs = {1, 1},
    .types = check_f32_types,
    .shape = reduce_shape,
    .place = place_index,
    .build = build_reduce,
};

}  // namespace ctxgen::onednn
