#include <algorithm>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "kinds/own/depthwise_conv.h"
#include "kinds/own/own_product.h"
#include "kinds/own/pointwise_conv.h"
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
#include "rules/window.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

double conv_flops(const Dims& weights, const Dims& dst) {
  double flops = 2.0 * static_cast<double>(volume(dst));
  for (std::size_t i = 1; i < weights.size(); ++i) flops *= static_cast<double>(weights[i]);
  return flops;
}

bool is_unsupported(const Status& status) {
  return !status && status.error().code == ErrorCode::kUnsupported;
}

Result<ShapeOutputs> conv_shape(const ProgramOp& op, ShapeInputs in) {
  const auto params = CTXGEN_TRY(decode<ConvParams>(op));
  CTXGEN_CHECK(check_conv_inputs(op, in, params.group));
  return conv_result(
      in[0].dims[0], in[1].dims[0],
      CTXGEN_TRY(resolve_window(op, in[0].dims, kernel_of(in[1].dims), params.window)));
}

Result<ShapeOutputs> qconv_shape(const ProgramOp& op, ShapeInputs in) {
  ShapeOutputs out = CTXGEN_TRY(conv_shape(op, in));
  CTXGEN_CHECK(check_scales(op, in, in[1].dims[0]));
  return out;
}

/// The form for this machine; nothing where oneDNN is to choose.
std::optional<memory::desc> form_of(const NodeBuilder& builder, const ConvOperands& conv,
                                    std::int64_t group) {
  const Dims dims = weight_dims(builder.weight_dims(), group);
  const bool quantised = traits_of(builder.op()).quantised;
  const auto steps = quantised ? decode<QuantisedParams>(builder.op()) : QuantisedParams{};
  if (!steps || steps->in_zero != 0) return std::nullopt;  // sums of the weights go with them
  const auto tag = conv_packing({.dims = dims,
                                 .grouped = group != 1,
                                 .type = builder.weight_type(),
                                 .source = builder.input(0).type},
                                usable_instruction_set());
  if (!tag) return std::nullopt;
  return memory::desc(to_dnnl(dims), conv.logical.get_data_type(), *tag);
}

Status build_conv(NodeBuilder& builder) {
  const ProgramOp& op = builder.op();
  const auto params = CTXGEN_TRY(decode<ConvParams>(op));
  const ConvOperands conv = conv_operands(builder, params.group);
  const Dims& onnx = builder.weight_dims();
  const Window window =
      CTXGEN_TRY(resolve_window(op, builder.input(0).dims, kernel_of(onnx), params.window));
  const auto describe = [&](const memory::desc& weights, const dnnl::primitive_attr& attr) {
    return dnnl::convolution_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        conv.src, weights, conv.bias, conv.dst, wide_window(window.strides, conv.rank, 1),
        wide_window(window.dilations, conv.rank, 0, 1), wide_window(window.pad_begin, conv.rank, 0),
        wide_window(window.pad_end, conv.rank, 0), attr);
  };
  const auto build_with = [&](const memory::desc& weights) {
    return add_conv<dnnl::convolution_forward>(builder, conv, weights, describe,
                                               conv_flops(onnx, builder.output().dims));
  };
  const kernels::Windows windows =
      conv.rank <= 4 ? along_lines(windows_of(builder.input(0).dims, window, params.group))
                     : kernels::Windows();
  const std::int64_t columns = builder.output().dims[1] / params.group;
  const auto build_own = [&](const memory::desc& panels) {
    return add_own_product(builder, {.windows = windows,
                                     .weight = {kNone, conv.weight, false, conv.logical, panels},
                                     .groups = params.group,
                                     .columns = columns,
                                     .column_axis = 1});
  };
  // oneDNN has a kernel for panels only if it would choose them for these threads, caches and pixels.
  const auto build_in = [&](const memory::desc& form) {
    const bool own = conv.rank <= 4 && takes_own_product(builder) && panel_columns(form);
    const bool own_depthwise =
        conv.rank <= 4 && takes_own_depthwise(builder) && depthwise_pitch(form);
    const auto build_ours = [&] {
      return own ? build_own(form) : build_depthwise_conv(builder, conv, windows, form);
    };
    if (widens_weight(builder))
      return own ? build_own(form)
                 : fail(ErrorCode::kUnsupported, "{}: not in panels", label(builder.op()));
    const bool own_first =
        (own || own_depthwise) &&
        builder.own_comes_first(own ? prefers_own_windows(builder, windows, params.group, columns)
                                    : prefers_own_depthwise());
    builder.refuse_narrow(!own_first && (own || own_depthwise));
    const Status first = own_first ? build_ours() : build_with(form);
    builder.refuse_narrow(false);
    if ((!own && !own_depthwise) || !is_unsupported(first)) return first;
    return own_first ? build_with(form) : build_ours();
  };
  // A stored form is tried as the plan chose it: that asks oneDNN for one kernel, not for all.
  if (const auto chosen = chosen_form(builder, conv.weight, conv.logical, false)) {
    const Status status = build_in(*chosen);
    if (!is_unsupported(status)) return status;
  }
  const Dims dims = weight_dims(onnx, params.group);
  if (const auto tuned = tuned_packing(builder, dims)) {
    const Status status = build_in(*tuned);
    if (!is_unsupported(status)) return status;
  }
  if (is_pointwise(builder, window, params.group)) {
    const Status status = build_pointwise_conv(builder, conv_flops(onnx, builder.output().dims));
    if (!is_unsupported(status)) return status;
  }
  const auto any_form = [](const memory::desc&) { return true; };
  const auto stored = stored_packing(builder, conv.weight, dims, false, any_form);
  const auto wanted = form_of(builder, conv, params.group);
  for (const auto& form : {stored, wanted}) {
    if (!form) continue;
    const Status status = build_in(*form);
    if (!is_unsupported(status)) return status;
  }
  if (widens_weight(builder))
    return fail(ErrorCode::kUnsupported, "{}: no kernel widens its weights", label(op));
  return build_with(conv.any);
}

}  // namespace

constinit const KindRow kConvRow{
    .name = kind::kConv,
    .number = 1,
    .inputs = {2, 3},
    .traits = {.product = true, .absorbs_eltwise = true, .absorbs_binary = true},
    .types = check_float_product_types,
    .shape = conv_shape,
    .terms = conv_terms,
    .place = place_conv,
    .build = build_conv,
};

constinit const KindRow kComputedConvRow{
    .name = kind::kComputedConv,
    .number = 37,
    .inputs = {2, 3},
    .traits = {.product = true, .absorbs_eltwise = true, .absorbs_binary = true},
    .types = check_f32_types,
    .shape = conv_shape,
    .terms = conv_terms,
    .place = place_computed_conv,
    .build = build_conv,
};

constinit const KindRow kQConvRow{
    .name = kind::kQConv,
    .number = 21,
    .inputs = {2, 4},
    .traits = {.product = true, .quantised = true, .absorbs_eltwise = true, .absorbs_binary = true},
    .types = check_product_types,
    .shape = qconv_shape,
    .terms = conv_terms,
    .place = place_conv,
    .build = build_conv,
};

}  // namespace ctxgen::onednn
