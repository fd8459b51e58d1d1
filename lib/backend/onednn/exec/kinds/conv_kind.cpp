#include <algorithm>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "kinds/own_product.h"
#include "kinds/pointwise_conv.h"
#include "layout/product_packing.h"
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

/// While packing: layouts of these weights that other shapes or programs need.
std::vector<memory::desc> preferred_forms(const NodeBuilder& builder, std::uint32_t weight,
                                          const memory::desc& logical) {
  std::vector<memory::desc> list;
  const BuildContext& context = builder.context();
  if (weight == kNone || context.create_primitives || context.forms == nullptr) return list;
  for (const WeightForm& form : (*context.forms)[weight])
    if (!form.plain && !form.transposed && form.md.get_dims() == logical.get_dims())
      list.push_back(form.md);
  return list;
}

Result<ShapeOutputs> conv_shape(const ProgramOp& op, ShapeInputs in) {
  const auto params = CTXGEN_TRY(decode<ConvParams>(op));
  CTXGEN_CHECK(check_conv_inputs(op, in, params.group));
  return conv_result(
      in, CTXGEN_TRY(resolve_window(op, in[0].dims, kernel_of(in[1].dims), params.window)));
}

Result<ShapeOutputs> qconv_shape(const ProgramOp& op, ShapeInputs in) {
  ShapeOutputs out = CTXGEN_TRY(conv_shape(op, in));
  CTXGEN_CHECK(check_scales(op, in, in[1].dims[0]));
  return out;
}

/// Whether the weights are stored in panels: a function of what the form may depend on.
bool takes_panels(const Dims& weights, std::int64_t group) {
  constexpr std::int64_t kLeastResults = 8, kLeastOfGroup = 16;
  if (group == 1) return weights[0] >= kLeastResults;
  return weights[1] >= kLeastOfGroup && weights[0] / group >= kLeastOfGroup;
}

/// The panels in which the file has the weights, else those that they are to be packed in; nothing
/// where they have another form.
std::optional<memory::desc> panels_of(const NodeBuilder& builder, const ConvOperands& conv,
                                      std::int64_t group) {
  if (conv.rank > 4 || !takes_own_product(builder)) return std::nullopt;
  const Dims& onnx = builder.weight_dims();
  const Dims wide = weight_dims(onnx, group);
  if (const auto stored = own_panels(builder, wide)) return stored;
  if (is_stored_packed(builder, conv.weight) || !takes_panels(onnx, group)) return std::nullopt;
  const auto tag = window_packing(onnx[0] / group, group, usable_instruction_set());
  if (!tag) return std::nullopt;
  return memory::desc(to_dnnl(wide), memory::data_type::f32, *tag);
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
  const auto unsupported = [](const Status& status) {
    return !status && status.error().code == ErrorCode::kUnsupported;
  };
  // A stored packing is tried as the plan chose it: that asks oneDNN for one kernel, not for all.
  const auto stored = chosen_form(builder, conv.weight, conv.logical, false);
  if (stored) {
    const Status status = build_with(*stored);
    if (!unsupported(status)) return status;
  }
  if (is_pointwise(builder, window, params.group)) {
    const Status status = build_pointwise_conv(builder, conv_flops(onnx, builder.output().dims));
    if (!unsupported(status)) return status;
  }
  if (const auto panels = panels_of(builder, conv, params.group)) {
    // oneDNN has a kernel for them if it would choose them for these threads, caches and pixels.
    const Status theirs =
        stored == panels ? fail(ErrorCode::kUnsupported, "as stored") : build_with(*panels);
    if (!unsupported(theirs)) return theirs;
    const Status own = add_own_product(
        builder, {.windows = windows_of(builder.input(0).dims, window, params.group),
                  .weight = {kNone, conv.weight, false, conv.logical, *panels},
                  .groups = params.group,
                  .columns = builder.output().dims[1] / params.group,
                  .column_axis = 1});
    if (!unsupported(own)) return own;
  }
  for (const memory::desc& preferred : preferred_forms(builder, conv.weight, conv.logical)) {
    // Blockings of one kernel are within a few percent of each other; another kernel may be far off.
    const auto same_kernel = guarded(label(op), [&] {
      const dnnl::primitive_attr attr;
      return std::string_view(describe(preferred, attr).impl_info_str()) ==
             describe(conv.any, attr).impl_info_str();
    });
    if (same_kernel && *same_kernel) return build_with(preferred);
  }
  return build_with(conv.any);
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
