#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"
#include "kinds/kind_rows.h"
#include "kinds/placement_rules.h"
#include "kinds/rounding.h"
#include "kinds/shape_rules.h"
#include "kinds/spatial.h"
#include "kinds/type_rules.h"
#include "kinds/window.h"
#include "layout/weight_layout.h"
#include "plan/builder_fused.h"
#include "plan/params.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

double conv_flops(const Dims& weights, const Dims& dst) {
  double flops = 2.0 * static_cast<double>(volume(dst));
  for (std::size_t i = 1; i < weights.size(); ++i) flops *= static_cast<double>(weights[i]);
  return flops;
}

/// While packing: layouts of these weights that other shapes or programs need.
std::vector<memory::desc> preferred_forms(const NodeBuilder& builder, std::uint32_t weight,
                                          const memory::desc& logical) {
  std::vector<memory::desc> list;
  const BuildContext& context = builder.context();
  if (context.create_primitives || context.forms == nullptr) return list;
  for (const WeightForm& form : (*context.forms)[weight])
    if (!form.plain && !form.transposed && form.md.get_dims() == logical.get_dims())
      list.push_back(form.md);
  return list;
}

Result<ShapeOutputs> conv_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const Dims& weights = in[1].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  const auto params = CTXGEN_TRY(decode<ConvParams>(op));
  const std::int64_t group = params.group;
  if (weights.size() != src.size() || group < 1 || weights[0] < 1 || weights[0] % group != 0 ||
      weights[1] < 1 || src[1] != weights[1] * group)
    return fail(ErrorCode::kInvalidGraph, "{}: source {} does not fit weights {} in {} groups",
                label(op), to_string(src), to_string(weights), group);
  if (in.size() > 2 && in[2].present && in[2].dims != Dims{weights[0]})
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}, expected [{}]", label(op),
                to_string(in[2].dims), weights[0]);
  const Window w = CTXGEN_TRY(
      resolve_window(op, src, IntList(weights.begin() + 2, weights.end()), params.window));
  Dims out{src[0], weights[0]};
  for (const std::int64_t size : w.out) out.push_back(size);
  return one_shape(out);
}

Result<ShapeOutputs> qconv_shape(const ProgramOp& op, ShapeInputs in) {
  ShapeOutputs out = CTXGEN_TRY(conv_shape(op, in));
  CTXGEN_CHECK(check_scales(op, in, in[1].dims[0]));
  return out;
}

Status build_conv(NodeBuilder& builder) {
  const ProgramOp& op = builder.op();
  const std::uint32_t weight = builder.node().packed_weight;
  const Dims& onnx = builder.context().program.weights[weight].dims;
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const auto params = CTXGEN_TRY(decode<ConvParams>(op));
  const Window window = CTXGEN_TRY(
      resolve_window(op, src.dims, IntList(onnx.begin() + 2, onnx.end()), params.window));
  const std::size_t rank = src.dims.size();
  const Dims dims = weight_dims(onnx, params.group);

  const memory::desc src_md = channels_last_md(src.dims, src.type);
  const memory::desc dst_md = channels_last_md(dst.dims, dst.type);
  const DataType weight_type = builder.context().program.weights[weight].type;
  const memory::desc logical = make_md(dims, plain_strides(dims), weight_type);
  const memory::desc any(to_dnnl(dims), dnnl_type(weight_type), memory::format_tag::any);
  const memory::desc bias_md =
      builder.has_input(2) ? make_md(Dims{onnx[0]}, Dims{1}) : memory::desc();

  const auto describe = [&](const memory::desc& weights_md, const dnnl::primitive_attr& attr) {
    return dnnl::convolution_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        src_md, weights_md, bias_md, dst_md, wide_window(window.strides, rank, 1),
        wide_window(window.dilations, rank, 0, 1), wide_window(window.pad_begin, rank, 0),
        wide_window(window.pad_end, rank, 0), attr);
  };
  const auto build_with = [&](const memory::desc& weights_md) {
    const auto make = [&](const dnnl::primitive_attr& attr) { return describe(weights_md, attr); };
    const auto args = [&](const dnnl::convolution_forward::primitive_desc& pd) {
      std::vector<Arg> list{builder.slot_arg(DNNL_ARG_SRC, src_md, src),
                            builder.packed_arg(DNNL_ARG_WEIGHTS, {kNone, weight, false, logical,
                                                                  pd.weights_desc()}),
                            builder.slot_arg(DNNL_ARG_DST, dst_md, dst)};
      if (builder.has_input(2))
        list.push_back(builder.slot_arg(DNNL_ARG_BIAS, bias_md, builder.input(2)));
      return list;
    };
    return builder.add_fused<dnnl::convolution_forward>(
        make, args, [&](const Slot& operand) { return spatial_operand(operand, dst.dims); },
        conv_flops(onnx, dst.dims));
  };
  // A stored packing is tried as the plan chose it: that asks oneDNN for one kernel, not for all.
  if (const auto stored = chosen_form(builder, weight, logical, false)) {
    const Status status = build_with(*stored);
    if (status || status.error().code != ErrorCode::kUnsupported) return status;
  }
  for (const memory::desc& preferred : preferred_forms(builder, weight, logical)) {
    // Blockings of one kernel are within a few percent of each other; another kernel may be far off.
    const auto same_kernel = guarded(label(op), [&] {
      const dnnl::primitive_attr attr;
      return std::string_view(describe(preferred, attr).impl_info_str()) ==
             describe(any, attr).impl_info_str();
    });
    if (same_kernel && *same_kernel) return build_with(preferred);
  }
  return build_with(any);
}

}  // namespace

constinit const KindRow kConvRow{
    .name = kind::kConv,
    .number = 1,
    .inputs = {2, 3},
    .traits = {.product = true, .absorbs_eltwise = true, .absorbs_binary = true},
    .types = check_f32_types,
    .shape = conv_shape,
    .terms = conv_terms,
    .place = place_conv,
    .build = build_conv,
};

constinit const KindRow kQConvRow{
    .name = kind::kQConv,
    .number = 21,
    .inputs = {2, 4},
    .traits = {.product = true, .quantised = true, .absorbs_eltwise = true,
               .absorbs_binary = true},
    .types = check_product_types,
    .shape = qconv_shape,
    .terms = conv_terms,
    .place = place_conv,
    .build = build_conv,
};

}  // namespace ctxgen::onednn
