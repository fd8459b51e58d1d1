#include <algorithm>
#include <memory>

#include "ctxgen/kernels/softmax.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernel_loops.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

Result<ShapeOutputs> softmax_shape(const ProgramOp& op, ShapeInputs in) {
  (void)CTXGEN_TRY(axis_param<SoftmaxParams>(op, in[0].dims.size()));
  return one_shape(in[0].dims);
}

/// Over the channels of a channels-last tensor the axis is the contiguous one: no copy is needed.
Status place_softmax(Placement& pass, std::uint32_t op) {
  const ProgramOp& softmax = pass.program().ops[op];
  const std::size_t axis =
      CTXGEN_TRY(axis_param<SoftmaxParams>(softmax, pass.dims_of(softmax.inputs[0]).size()));
  const bool keeps = axis == 1 && pass.primary_of(softmax.inputs[0]) == Layout::kChannelsLast;
  const Layout layout = keeps ? Layout::kChannelsLast : Layout::kPlain;
  const SlotId src = pass.need(softmax.inputs[0], layout, Placement::Density::kDense, op);
  pass.add_placed(op, layout, {src});
  return {};
}

/// Args: src, dst, both dense rows of `width`.
class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(std::int64_t rows, std::int64_t width) : rows_(rows), width_(width) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    auto* dst = reinterpret_cast<float*>(args[1]);
    // Jobs of some thousand elements: a row may have two.
    const std::int64_t rows = std::max<std::int64_t>(1, kJobElements / width_);
    const std::int64_t jobs = (rows_ + rows - 1) / rows;
    parallel_for(workers, jobs, work_of(rows_, width_), [&](std::int64_t job) {
      const std::int64_t last = std::min(rows_, (job + 1) * rows);
      for (std::int64_t row = job * rows; row < last; ++row)
        kernels::softmax_row(width_, src + row * width_, dst + row * width_);
    });
    return {};
  }

 private:
  static constexpr std::int64_t kJobElements = 4096;

  std::int64_t rows_, width_;
};

Status build_softmax(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<SoftmaxParams>(builder.op()));
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t axis = CTXGEN_TRY(normal_axis(builder.op(), params.axis, src.dims.size()));
  // [outer, axis, inner]; over the channels of a channels-last tensor inner is 1.
  std::int64_t outer = volume(Dims(src.dims.span().first(axis)));
  std::int64_t inner = volume(src.dims, axis + 1);
  if (!is_layout(src.dims, src.strides, Layout::kPlain)) {
    outer *= inner;
    inner = 1;
  }
  if (inner == 1 && !params.log) {
    builder.add_kernel("loop:softmax", std::make_shared<const SoftmaxKernel>(outer, src.dims[axis]),
                       {builder.slot_arg(src), builder.slot_arg(dst)});
    return builder.add_chain(dst, dst, builder.node().post_ops);
  }
  Dims dims{outer, src.dims[axis]};
  if (inner != 1) dims.push_back(inner);
  const memory::desc md = make_md(dims, plain_strides(dims));
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::softmax_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference,
        params.log ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate, md, md, 1,
        attr);
  };
  CTXGEN_CHECK(builder.add_primitive<dnnl::softmax_forward>(
      make, {builder.slot_arg(DNNL_ARG_SRC, md, src), builder.slot_arg(DNNL_ARG_DST, md, dst)}));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kSoftmaxRow{
    .name = kind::kSoftmax,
    .number = 8,
    .inputs = {1, 1},
    .traits = {.keeps_dims = true},
    .types = check_f32_types,
    .shape = softmax_shape,
    .place = place_softmax,
    .build = build_softmax,
};

}  // namespace ctxgen::onednn
