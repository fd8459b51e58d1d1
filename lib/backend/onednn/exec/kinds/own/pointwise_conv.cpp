#include "kinds/own/pointwise_conv.h"

#include <algorithm>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/kind_traits.h"

#include "kinds/own/own_product.h"
#include "layout/product_packing.h"
#include "layout/weight_layout.h"
#include "plan/builder_fused.h"
#include "rules/spatial.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

bool all_are(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::ranges::all_of(values, [&](std::int64_t each) { return each == value; });
}

/// A dense channels-last tensor [N, C, D1..Dk] as rows of channels.
Dims as_rows(const Dims& dims) { return Dims{volume(dims) / dims[1], dims[1]}; }

/// What spatial_operand() takes, seen over rows of channels.
std::optional<memory::desc> row_operand(const Slot& operand, const Dims& dst) {
  const auto seen = spatial_operand(operand, dst);
  if (!seen) return std::nullopt;
  const memory::dims dims = seen->get_dims();
  const Dims rows = volume(operand.dims) == volume(dst) ? as_rows(dst) : Dims{1, dims[1]};
  return make_md(rows, plain_strides(rows), operand.type);
}

/// The packing that the file has, else the one for this machine; nothing where the file has the
/// weight as a convolution's kernel wants it.
std::optional<memory::desc> packing_of_weight(const NodeBuilder& builder, const Dims& matrix) {
  const std::uint32_t weight = builder.node().packed_weight;
  if (const auto tuned = tuned_packing(builder, matrix)) return tuned;
  if (const auto stored = stored_packing(builder, weight, matrix, true, is_product_packing))
    return stored;
  if (is_stored_packed(builder, weight)) return std::nullopt;
  const auto tag =
      product_packing(matrix[0], matrix[1], {builder.weight_type(), builder.input(0).type},
                      usable_instruction_set());
  if (!tag) return std::nullopt;
  return memory::desc(to_dnnl(matrix), dnnl_type(builder.weight_type()), *tag);
}

}  // namespace

bool is_pointwise(const NodeBuilder& builder, const Window& window, std::int64_t group) {
  return group == 1 && all_are(window.kernel, 1) && all_are(window.strides, 1) &&
         all_are(window.pad_begin, 0) && all_are(window.pad_end, 0) &&
         !traits_of(builder.op()).quantised;
}

Status build_pointwise_conv(NodeBuilder& builder, double flops) {
  const std::uint32_t weight = builder.node().packed_weight;
  const Dims& stored = builder.weight_dims();
  const Dims matrix{stored[1], stored[0]};
  const memory::desc logical = logical_md(matrix, true, builder.weight_type());
  const auto packed = packing_of_weight(builder, matrix);
  if (!packed) return fail(ErrorCode::kUnsupported, "{}: no packing", label(builder.op()));

  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const Dims src_rows = as_rows(src.dims), dst_rows = as_rows(dst.dims);
  const bool own_first =
      takes_own_product(builder) && panel_columns(*packed) &&
      builder.own_comes_first(prefers_own_pixels(builder, src_rows[0], matrix[0], matrix[1]));
  if (widens_weight(builder) || own_first) {
    const Status own = add_own_product(
        builder, {.windows = kernels::matrix_rows(src_rows[0], matrix[0], matrix[0]),
                  .weight = {kNone, weight, true, logical, *packed},
                  .columns = matrix[1],
                  .column_axis = 1});
    if (own || widens_weight(builder) || own.error().code != ErrorCode::kUnsupported) return own;
  }
  const memory::desc src_md = make_md(src_rows, plain_strides(src_rows), src.type);
  const memory::desc dst_md = make_md(dst_rows, plain_strides(dst_rows), dst.type);
  const Dims bias{1, matrix[1]};
  const bool has_bias = builder.has_input(2);
  const memory::desc bias_md = has_bias ? make_md(bias, plain_strides(bias)) : memory::desc();
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::matmul::primitive_desc(cpu_engine(), src_md, *packed, bias_md, dst_md, attr);
  };
  const auto args = [&](const dnnl::matmul::primitive_desc& pd) {
    std::vector<Arg> list{
        builder.slot_arg(DNNL_ARG_SRC, src_md, src),
        builder.packed_arg(DNNL_ARG_WEIGHTS, {kNone, weight, true, logical, pd.weights_desc()}),
        builder.slot_arg(DNNL_ARG_DST, dst_md, dst)};
    if (has_bias) list.push_back(builder.slot_arg(DNNL_ARG_BIAS, bias_md, builder.input(2)));
    return list;
  };
  return builder.add_fused<dnnl::matmul>(
      make, args, [&](const Slot& operand) { return row_operand(operand, dst.dims); }, flops);
}

}  // namespace ctxgen::onednn
