#include <algorithm>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "kinds/own/own_product.h"
#include "layout/product_packing.h"
#include "layout/weight_layout.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "plan/shapes.h"
#include "rules/placement_rules.h"
#include "rules/rounding.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

using dnnl::memory;

/// The product as oneDNN is to see it. Where b is one matrix for the whole batch, rows of all
/// batches form one tall matrix.
struct Product {
  bool tall = false;
  Dims a, b, dst;  // dims after the trans flags, equal ranks
  bool trans_a = false, trans_b = false;
};

Dims widen(const Dims& dims, std::size_t rank) {
  Dims wide(rank - dims.size(), 1);
  for (const std::int64_t dim : dims) wide.push_back(dim);
  return wide;
}

std::int64_t batch_volume(const Dims& dims) {
  return volume(Dims(dims.span().first(dims.size() - 2)));
}

Result<Product> describe(const NodeBuilder& builder, const Dims& a_stored, const Dims& b_stored) {
  const auto params = CTXGEN_TRY(decode<MatmulParams>(builder.op()));
  Product p;
  p.trans_a = params.trans_a;
  p.trans_b = params.trans_b;
  const Dims a = matmul_operand_dims(a_stored, p.trans_a);
  const Dims b = matmul_operand_dims(b_stored, p.trans_b);
  const Dims& dst = builder.output().dims;
  p.tall = batch_volume(b) == 1 && (!p.trans_a || batch_volume(a) == 1);
  if (p.tall) {
    const std::int64_t rows = volume(Dims(dst.span().first(dst.size() - 1)));
    p.a = Dims{rows, a.back()};
    p.b = Dims{b[b.size() - 2], b.back()};
    p.dst = Dims{rows, dst.back()};
  } else {
    p.a = widen(a, dst.size());
    p.b = widen(b, dst.size());
    p.dst = dst;
  }
  return p;
}

/// The descriptor of an operand: in its slot's layout, seen with the dims after its trans flag. Requires
/// that a slot that is not dense has as many dims as it is seen with, but for batches of 1.
memory::desc operand_md(const Slot& slot, const Dims& seen, bool transposed) {
  if (is_layout(slot.dims, slot.strides, Layout::kPlain))
    return logical_md(seen, transposed, slot.type);
  const std::size_t extra = seen.size() > slot.dims.size() ? seen.size() - slot.dims.size() : 0;
  const std::size_t skip = slot.dims.size() > seen.size() ? slot.dims.size() - seen.size() : 0;
  Dims strides(extra, volume(slot.dims));
  for (std::size_t i = skip; i < slot.dims.size(); ++i) strides.push_back(slot.strides[i]);
  if (transposed) std::swap(strides[seen.size() - 1], strides[seen.size() - 2]);
  return make_md(seen, strides, slot.type);
}

/// Right-aligned dims of an operand over a dense plain dst.
std::optional<memory::desc> matmul_operand(const Slot& operand, const Dims& op_dst,
                                           const Product& p) {
  if (!is_layout(operand.dims, operand.strides, Layout::kPlain)) return std::nullopt;
  const Dims wide = widen(operand.dims, op_dst.size());
  if (!p.tall) return make_md(wide, plain_strides(wide), operand.type);
  const Dims rows(wide.span().first(wide.size() - 1));
  const Dims op_rows(op_dst.span().first(op_dst.size() - 1));
  if (volume(rows) != 1 && rows != op_rows) return std::nullopt;
  const Dims seen{volume(rows), wide.back()};
  return make_md(seen, plain_strides(seen), operand.type);
}

/// Whether a packing of product_packings() may hold the weight: other 8-bit sources need sums of the
/// weights next to them, which no tag describes.
bool takes_packings(const NodeBuilder& builder, const Product& p) {
  if (p.b.size() != 2) return false;
  if (!traits_of(builder.op()).quantised) return true;
  const auto steps = decode<QuantisedParams>(builder.op());
  return builder.input(0).type == DataType::kUint8 && steps && steps->in_zero == 0;
}

/// Weight layouts to try in order; the last one leaves the choice to oneDNN, and is for what no table
/// names and for files of other machines only.
std::vector<memory::desc> weight_candidates(const NodeBuilder& builder, const Product& p,
                                            std::uint32_t weight, const memory::desc& logical) {
  std::vector<memory::desc> list;
  if (const auto stored = chosen_form(builder, weight, logical, p.trans_b)) list.push_back(*stored);
  if (takes_packings(builder, p)) {
    if (const auto tuned = tuned_packing(builder, p.b)) list.push_back(*tuned);
    if (const auto stored = stored_packing(builder, weight, p.b, p.trans_b, is_product_packing))
      list.push_back(*stored);
    const DataType type = builder.context().program.weights[weight].type;
    if (const auto tag = product_packing(p.b[0], p.b[1], {type, builder.input(0).type},
                                         usable_instruction_set()))
      list.emplace_back(to_dnnl(p.b), logical.get_data_type(), *tag);
    else if (type == DataType::kFloat)
      list.push_back(logical_md(p.b, false));  // small: read as it is
  }
  list.emplace_back(to_dnnl(p.b), logical.get_data_type(), memory::format_tag::any);
  return list;
}

/// By the own kernel, where it comes first.
Status build_own(NodeBuilder& builder, const Product& p, const PackedUse& weight) {
  const Slot& a = builder.input(0);
  const std::size_t rank = a.strides.size();
  const bool rows_first =
      is_layout(a.dims, a.strides, Layout::kPlain) || (p.tall && rank == 2 && a.strides[1] == 1);
  const bool fits = p.tall && !p.trans_a && rank >= 2 && rows_first && p.a[1] > 0 &&
                    takes_own_product(builder) &&
                    builder.own_comes_first(prefers_own_rows(p.a[0], p.a[1], p.dst[1])) &&
                    panel_columns(weight.wanted).has_value();
  if (!fits) return fail(ErrorCode::kUnsupported, "{}: oneDNN comes first", label(builder.op()));
  const std::int64_t pitch = rank == 2 ? a.strides[0] : p.a[1];
  return add_own_product(builder, {.windows = kernels::matrix_rows(p.a[0], p.a[1], pitch),
                                   .weight = weight,
                                   .columns = p.dst[1],
                                   .column_axis = builder.output().dims.size() - 1});
}

/// The product of f32 rows by a weight that is widened. Requires widens_weight().
Status build_widened(NodeBuilder& builder, const Product& p, const memory::desc& logical) {
  const std::uint32_t weight = builder.node().packed_weight;
  const Slot& a = builder.input(0);
  if (weight == kNone || !p.tall || p.trans_a || !is_layout(a.dims, a.strides, Layout::kPlain))
    return fail(ErrorCode::kUnsupported, "{}: no kernel widens its weights", label(builder.op()));
  const auto in_panels = [](const memory::desc& md) { return panel_columns(md).has_value(); };
  auto panels = chosen_form(builder, weight, logical, p.trans_b);
  if (!panels || !in_panels(*panels))
    panels = stored_packing(builder, weight, p.b, p.trans_b, in_panels);
  if (!panels) panels = tuned_packing(builder, p.b);
  if (!panels) {
    const ProductTypes types{builder.weight_type(), DataType::kFloat};
    const auto tag = product_packing(p.b[0], p.b[1], types, usable_instruction_set());
    panels = memory::desc(to_dnnl(p.b), logical.get_data_type(),
                          tag.value_or(memory::format_tag::BA16a16b));
  }
  return add_own_product(builder, {.windows = kernels::matrix_rows(p.a[0], p.a[1], p.a[1]),
                                   .weight = {kNone, weight, p.trans_b, logical, *panels},
                                   .columns = p.b[1],
                                   .column_axis = builder.output().dims.size() - 1});
}

Result<ShapeOutputs> matmul_shape(const ProgramOp& op, ShapeInputs in) {
  const auto params = CTXGEN_TRY(decode<MatmulParams>(op));
  if (in[0].dims.size() < 2 || in[1].dims.size() < 2)
    return fail(ErrorCode::kUnsupported, "{}: operands {} and {}, expected ranks of at least 2",
                label(op), to_string(in[0].dims), to_string(in[1].dims));
  const Dims a = matmul_operand_dims(in[0].dims, params.trans_a);
  const Dims b = matmul_operand_dims(in[1].dims, params.trans_b);
  if (a.back() != b[b.size() - 2])
    return fail(ErrorCode::kInvalidGraph, "{}: {} times {}: inner dims differ", label(op),
                to_string(a), to_string(b));
  const Dims batch = CTXGEN_TRY(
      broadcast_dims(op, Dims(a.span().first(a.size() - 2)), Dims(b.span().first(b.size() - 2))));
  Dims out = batch;
  if (out.size() + 2 > kMaxRank)
    return fail(ErrorCode::kUnsupported, "{}: rank {}", label(op), out.size() + 2);
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  if (in.size() > 2 && in[2].present && in[2].dims != Dims{b.back()})
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}, expected [{}]", label(op),
                to_string(in[2].dims), b.back());
  return one_shape(out);
}

Result<ShapeOutputs> qmatmul_shape(const ProgramOp& op, ShapeInputs in) {
  ShapeOutputs out = CTXGEN_TRY(matmul_shape(op, in));
  CTXGEN_CHECK(check_scales(op, in, out[0].back()));
  return out;
}

std::int64_t matmul_terms(const Program& program, const ProgramOp& op) {
  const bool transposed = decode<MatmulParams>(op).value_or(MatmulParams()).trans_b;
  return dim_from_back(program, op, 1, transposed ? 0 : 1);
}

/// One operand of a product: in place, if `strided` and if rows or columns are contiguous.
SlotId product_operand(Placement& pass, const Operand& operand, bool strided, std::uint32_t op) {
  if (strided && pass.options().strided_products) {
    const SlotId slot = pass.need(operand, Layout::kPlain, Placement::Density::kStrided, op);
    const Slot& place = pass.graph().slots[slot];
    const std::size_t rank = place.dims.size();
    if (place.strides[rank - 1] == 1 || place.strides[rank - 2] == 1) return slot;
  }
  return pass.need(operand, Layout::kPlain, Placement::Density::kDense, op);
}

Status place_matmul(Placement& pass, std::uint32_t op) {
  const ProgramOp& matmul = pass.program().ops[op];
  const auto params = CTXGEN_TRY(decode<MatmulParams>(matmul));
  // Rows of several batches form one tall matrix only if they are dense.
  const Dims& right = pass.dims_of(matmul.inputs[1]);
  const bool batches = volume(Dims(right.span().first(right.size() - 2))) != 1;
  const DataType stored = pass.type_of(matmul.inputs[1]);
  const bool widened = (stored == DataType::kBfloat16 || stored == DataType::kFloat16) &&
                       pass.type_of(matmul.inputs[0]) == DataType::kFloat;
  const SlotId a =
      product_operand(pass, matmul.inputs[0],
                      !widened && (batches || pass.dims_of(matmul.inputs[0]).size() == 2), op);
  // A constant of more than two dims, or after a transposed batch, is read as it is.
  const bool batch_of_transposed = pass.dims_of(matmul.inputs[0]).size() > 2 && params.trans_a;
  const bool packs = matmul.inputs[1].kind == Operand::Kind::kWeight &&
                     pass.dims_of(matmul.inputs[1]).size() == 2 && !batch_of_transposed;
  const SlotId b = packs ? kNone : product_operand(pass, matmul.inputs[1], true, op);
  if (traits_of(matmul).quantised && !packs)
    return fail(ErrorCode::kUnsupported, "{}: the second operand must be a constant matrix",
                label(matmul));
  const SlotId bias = place_vector(pass, op, 2), scales = place_vector(pass, op, 3);
  Node& node = pass.add_product(op, Layout::kPlain, {a, b, bias, scales});
  if (packs) node.packed_weight = matmul.inputs[1].index;
  return {};
}

Status build_matmul(NodeBuilder& builder) {
  const std::uint32_t weight = builder.node().packed_weight;
  const Slot& a = builder.input(0);
  const Slot& dst = builder.output();
  const Dims b_stored =
      weight != kNone ? builder.context().program.weights[weight].dims : builder.input(1).dims;
  const Product p = CTXGEN_TRY(describe(builder, a.dims, b_stored));
  const DataType b_type =
      weight != kNone ? builder.context().program.weights[weight].type : builder.input(1).type;
  const memory::desc a_md = operand_md(a, p.a, p.trans_a);
  const memory::desc b_logical = weight != kNone ? logical_md(p.b, p.trans_b, b_type)
                                                 : operand_md(builder.input(1), p.b, p.trans_b);
  if (widens_weight(builder)) return build_widened(builder, p, b_logical);
  const memory::desc dst_md = make_md(p.dst, plain_strides(p.dst), dst.type);
  memory::desc bias_md;
  if (builder.has_input(2)) {
    Dims bias(p.dst.size(), 1);
    bias[bias.size() - 1] = p.dst.back();
    bias_md = make_md(bias, plain_strides(bias));
  }
  const double flops =
      2.0 * static_cast<double>(volume(dst.dims)) * static_cast<double>(p.a.back());

  const auto build_with = [&](const memory::desc& b_md) {
    const auto make = [&](const dnnl::primitive_attr& attr) {
      return builder.has_input(2)
                 ? dnnl::matmul::primitive_desc(cpu_engine(), a_md, b_md, bias_md, dst_md, attr)
                 : dnnl::matmul::primitive_desc(cpu_engine(), a_md, b_md, dst_md, attr);
    };
    const auto args = [&](const dnnl::matmul::primitive_desc& pd) {
      std::vector<Arg> list{builder.slot_arg(DNNL_ARG_SRC, a_md, a),
                            builder.slot_arg(DNNL_ARG_DST, dst_md, dst)};
      if (weight != kNone)
        list.push_back(builder.packed_arg(DNNL_ARG_WEIGHTS, {kNone, weight, p.trans_b, b_logical,
                                                             pd.weights_desc(), is_any(b_md)}));
      else
        list.push_back(builder.slot_arg(DNNL_ARG_WEIGHTS, b_md, builder.input(1)));
      if (builder.has_input(2))
        list.push_back(builder.slot_arg(DNNL_ARG_BIAS, bias_md, builder.input(2)));
      return list;
    };
    return builder.add_fused<dnnl::matmul>(
        make, args, [&](const Slot& operand) { return matmul_operand(operand, dst.dims, p); },
        flops);
  };
  if (weight == kNone) return build_with(b_logical);
  Status status;
  for (const memory::desc& candidate : weight_candidates(builder, p, weight, b_logical)) {
    status = build_own(builder, p, {kNone, weight, p.trans_b, b_logical, candidate});
    if (!status && status.error().code == ErrorCode::kUnsupported) status = build_with(candidate);
    if (status || status.error().code != ErrorCode::kUnsupported) return status;
  }
  return status;
}

}  // namespace

constinit const KindRow kMatmulRow{
    .name = kind::kMatmul,
    .number = 2,
    .inputs = {2, 3},
    .traits = {.product = true,
               .matrix = true,
               .absorbs_eltwise = true,
               .absorbs_binary = true,
               .strided_operands = 2},
    .types = check_float_product_types,
    .shape = matmul_shape,
    .terms = matmul_terms,
    .place = place_matmul,
    .build = build_matmul,
};

constinit const KindRow kQMatmulRow{
    .name = kind::kQMatmul,
    .number = 22,
    .inputs = {2, 4},
    .traits = {.product = true,
               .matrix = true,
               .quantised = true,
               .absorbs_eltwise = true,
               .absorbs_binary = true},
    .types = check_product_types,
    .shape = qmatmul_shape,
    .terms = matmul_terms,
    .place = place_matmul,
    .build = build_matmul,
};

}  // namespace ctxgen::onednn
