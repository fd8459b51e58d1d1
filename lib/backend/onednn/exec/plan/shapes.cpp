#include "plan/shapes.h"

#include <algorithm>
#include <array>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/op_kinds.h"
#include "kinds/shape_functions.h"
#include "kinds/window.h"
#include "plan/dim_params.h"
#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

using Inputs = ShapeInputs;
using Outputs = ShapeOutputs;

Result<Outputs> conv_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  const Dims& weights = in[1].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  const std::int64_t group = CTXGEN_TRY(Params(op).integer("group", 1));
  if (weights.size() != src.size() || group < 1 || weights[0] < 1 || weights[0] % group != 0 ||
      weights[1] < 1 || src[1] != weights[1] * group)
    return fail(ErrorCode::kInvalidGraph, "{}: source {} does not fit weights {} in {} groups",
                label(op), to_string(src), to_string(weights), group);
  if (in.size() > 2 && in[2].present && in[2].dims != Dims{weights[0]})
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}, expected [{}]", label(op),
                to_string(in[2].dims), weights[0]);
  const Window w = CTXGEN_TRY(
      resolve_window(op, src, std::vector<std::int64_t>(weights.begin() + 2, weights.end())));
  Dims out{src[0], weights[0]};
  for (const std::int64_t size : w.out) out.push_back(size);
  return one_shape(out);
}

/// Scales of a quantised product: one, or one per output channel.
Status check_scales(const ProgramOp& op, Inputs in, std::int64_t channels) {
  if (in.size() < 4 || !in[3].present) return {};
  if (in[3].dims == Dims{1} || in[3].dims == Dims{channels}) return {};
  return fail(ErrorCode::kInvalidGraph, "{}: scales {}, expected [1] or [{}]", label(op),
              to_string(in[3].dims), channels);
}

Result<Outputs> qconv_shape(const ProgramOp& op, Inputs in) {
  Outputs out = CTXGEN_TRY(conv_shape(op, in));
  CTXGEN_CHECK(check_scales(op, in, in[1].dims[0]));
  return out;
}

Result<Outputs> pool_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  const std::string mode = CTXGEN_TRY(Params(op).text("mode", ""));
  if (mode != "max" && mode != "avg_include" && mode != "avg_exclude")
    return fail(ErrorCode::kUnsupported, "{}: mode \"{}\"", label(op), mode);
  const auto kernel = CTXGEN_TRY(Params(op).integers("kernel", src.size() - 2, 1));
  const Window w = CTXGEN_TRY(resolve_window(op, src, kernel));
  Dims out{src[0], src[1]};
  for (const std::int64_t size : w.out) out.push_back(size);
  return one_shape(out);
}

Result<Outputs> global_pool_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  const std::string mode = CTXGEN_TRY(Params(op).text("mode", ""));
  if (mode != "max" && mode != "avg")
    return fail(ErrorCode::kUnsupported, "{}: mode \"{}\"", label(op), mode);
  Dims out(src.size(), 1);
  out[0] = src[0];
  out[1] = src[1];
  return one_shape(out);
}

Result<Outputs> matmul_shape(const ProgramOp& op, Inputs in) {
  const Params params(op);
  if (in[0].dims.size() < 2 || in[1].dims.size() < 2)
    return fail(ErrorCode::kUnsupported, "{}: operands {} and {}, expected ranks of at least 2",
                label(op), to_string(in[0].dims), to_string(in[1].dims));
  const Dims a = matmul_operand_dims(in[0].dims, CTXGEN_TRY(params.integer("trans_a", 0)) != 0);
  const Dims b = matmul_operand_dims(in[1].dims, CTXGEN_TRY(params.integer("trans_b", 0)) != 0);
  if (a.back() != b[b.size() - 2])
    return fail(ErrorCode::kInvalidGraph, "{}: {} times {}: inner dims differ", label(op),
                to_string(a), to_string(b));
  const Dims batch = CTXGEN_TRY(broadcast_dims(op, Dims(a.span().first(a.size() - 2)),
                                               Dims(b.span().first(b.size() - 2))));
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

Result<Outputs> qmatmul_shape(const ProgramOp& op, Inputs in) {
  Outputs out = CTXGEN_TRY(matmul_shape(op, in));
  CTXGEN_CHECK(check_scales(op, in, out[0].back()));
  return out;
}

Result<Outputs> same_shape(const ProgramOp&, Inputs in) { return one_shape(in[0].dims); }

Result<Outputs> binary_shape(const ProgramOp& op, Inputs in) {
  return one_shape(CTXGEN_TRY(broadcast_dims(op, in[0].dims, in[1].dims)));
}

Result<Outputs> select_shape(const ProgramOp& op, Inputs in) {
  const Dims both = CTXGEN_TRY(broadcast_dims(op, in[1].dims, in[2].dims));
  return one_shape(CTXGEN_TRY(broadcast_dims(op, in[0].dims, both)));
}

Result<Outputs> scale_shift_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  if (src.size() < 2 || in[1].dims != Dims{src[1]} || in[2].dims != Dims{src[1]})
    return fail(ErrorCode::kInvalidGraph, "{}: source {}, scale {}, shift {}", label(op),
                to_string(src), to_string(in[1].dims), to_string(in[2].dims));
  return one_shape(src);
}

Result<Outputs> lrn_shape(const ProgramOp& op, Inputs in) {
  CTXGEN_CHECK(require_spatial(op, in[0].dims));
  const std::int64_t size = CTXGEN_TRY(Params(op).integer("size", 0));
  if (size < 1) return fail(ErrorCode::kInvalidGraph, "{}: size is {}", label(op), size);
  return one_shape(in[0].dims);
}

Result<Outputs> softmax_shape(const ProgramOp& op, Inputs in) {
  (void)CTXGEN_TRY(axis_param(op, -1, in[0].dims.size()));
  return one_shape(in[0].dims);
}

Result<Outputs> layer_norm_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  const std::size_t axis =
      CTXGEN_TRY(axis_param(op, -1, src.size()));
  const Dims normalised(src.span().subspan(axis));
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i].present && in[i].dims != normalised)
      return fail(ErrorCode::kUnsupported, "{}: scale or shift {}, expected {}", label(op),
                  to_string(in[i].dims), to_string(normalised));
  return one_shape(src);
}

Result<Outputs> concat_shape(const ProgramOp& op, Inputs in) {
  Dims out = in[0].dims;
  const std::size_t axis =
      CTXGEN_TRY(axis_param(op, 0, out.size()));
  for (const ShapeInput& input : in.subspan(1)) {
    bool fits = input.present && input.dims.size() == out.size();
    for (std::size_t i = 0; fits && i < out.size(); ++i)
      fits = i == axis || input.dims[i] == out[i];
    if (!fits)
      return fail(ErrorCode::kInvalidGraph, "{}: input {} does not fit {} on axis {}", label(op),
                  to_string(input.dims), to_string(in[0].dims), axis);
    out[axis] += input.dims[axis];
    if (out[axis] > static_cast<std::int64_t>(kMaxTensorBytes))
      return fail(ErrorCode::kResourceLimit, "{}: axis {} grows to {}", label(op), axis, out[axis]);
  }
  return one_shape(out);
}

Result<Outputs> transpose_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  std::vector<std::int64_t> perm = CTXGEN_TRY(Params(op).list("perm"));
  if (perm.empty())
    for (std::size_t i = src.size(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  std::vector<bool> seen(src.size());
  bool valid = perm.size() == src.size();
  for (std::size_t i = 0; valid && i < perm.size(); ++i) {
    valid = perm[i] >= 0 && perm[i] < static_cast<std::int64_t>(src.size()) &&
            !seen[static_cast<std::size_t>(perm[i])];
    if (valid) seen[static_cast<std::size_t>(perm[i])] = true;
  }
  if (!valid)
    return fail(ErrorCode::kInvalidGraph, "{}: perm is no permutation of {} axes", label(op),
                src.size());
  Dims out;
  for (const std::int64_t axis : perm) out.push_back(src[static_cast<std::size_t>(axis)]);
  return one_shape(out);
}

Result<std::uint64_t> count_elements(const ProgramOp& op, const Dims& dims) {
  const auto count = checked_element_count(dims);
  if (!count)
    return fail(ErrorCode::kResourceLimit, "{}: shape {} is too large", label(op), to_string(dims));
  return *count;
}

Result<Outputs> reshape_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  const std::vector<std::int64_t> shape = CTXGEN_TRY(Params(op).list("shape"));
  const bool allow_zero = CTXGEN_TRY(Params(op).integer("allowzero", 0)) != 0;
  const auto misfit = [&] {
    return fail(ErrorCode::kInvalidGraph, "{}: source {} does not fit the shape of {} dims",
                label(op), to_string(src), shape.size());
  };
  if (shape.size() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "{}: rank {}", label(op), shape.size());
  Dims out;
  std::size_t open = kMaxRank;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t dim = shape[i];
    if (dim == 0 && !allow_zero) {
      if (i >= src.size()) return misfit();
      dim = src[i];
    }
    if (dim < -1 || (dim == -1 && open != kMaxRank)) return misfit();
    if (dim == -1) open = i;
    out.push_back(dim == -1 ? 1 : dim);
  }
  const std::uint64_t have = CTXGEN_TRY(count_elements(op, src));
  const std::uint64_t known = CTXGEN_TRY(count_elements(op, out));
  if (open != kMaxRank) {
    if (known == 0 || have % known != 0) return misfit();
    out[open] = static_cast<std::int64_t>(have / known);
  } else if (known != have) {
    return misfit();
  }
  return one_shape(out);
}

Result<Outputs> flatten_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  std::int64_t axis = CTXGEN_TRY(Params(op).integer("axis", 1));
  const auto rank = static_cast<std::int64_t>(src.size());
  if (axis < -rank || axis > rank)
    return fail(ErrorCode::kInvalidGraph, "{}: axis {} outside rank {}", label(op), axis, rank);
  if (axis < 0) axis += rank;
  const auto split = static_cast<std::size_t>(axis);
  (void)CTXGEN_TRY(count_elements(op, src));
  Dims out{1, 1};
  for (std::size_t i = 0; i < src.size(); ++i) out[i < split ? 0 : 1] *= src[i];
  return one_shape(out);
}

Result<Outputs> squeeze_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  const std::vector<std::int64_t> axes = CTXGEN_TRY(Params(op).list("axes"));
  std::array<bool, kMaxRank> drop{};
  for (const std::int64_t axis : axes) {
    const std::size_t at = CTXGEN_TRY(normal_axis(op, axis, src.size()));
    drop[at] = true;
  }
  Dims out;
  for (std::size_t i = 0; i < src.size(); ++i) {
    if (drop[i] && src[i] != 1)
      return fail(ErrorCode::kInvalidGraph, "{}: axis {} of {} is not 1", label(op), i,
                  to_string(src));
    if (!(drop[i] || (axes.empty() && src[i] == 1))) out.push_back(src[i]);
  }
  return one_shape(out);
}

Result<Outputs> unsqueeze_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  const std::vector<std::int64_t> axes = CTXGEN_TRY(Params(op).list("axes"));
  const std::size_t rank = src.size() + axes.size();
  if (rank > kMaxRank) return fail(ErrorCode::kUnsupported, "{}: rank {}", label(op), rank);
  std::array<bool, kMaxRank> added{};
  for (const std::int64_t axis : axes) {
    const std::size_t at = CTXGEN_TRY(normal_axis(op, axis, rank));
    if (added[at]) return fail(ErrorCode::kInvalidGraph, "{}: axis {} twice", label(op), axis);
    added[at] = true;
  }
  Dims out;
  for (std::size_t i = 0, from = 0; i < rank; ++i) out.push_back(added[i] ? 1 : src[from++]);
  return one_shape(out);
}

Result<Outputs> slice_shape(const ProgramOp& op, Inputs in) {
  return one_shape(CTXGEN_TRY(resolve_slice(op, in[0].dims)).dims);
}

Result<Outputs> split_shape(const ProgramOp& op, Inputs in) {
  const Dims& src = in[0].dims;
  const std::size_t axis =
      CTXGEN_TRY(axis_param(op, 0, src.size()));
  Outputs outputs;
  for (const std::int64_t size : CTXGEN_TRY(resolve_split(op, src[axis]))) {
    outputs.push_back(src);
    outputs.back()[axis] = size;
  }
  return outputs;
}

struct KindRow {
  std::string_view kind;
  std::size_t least_inputs, most_inputs;
  bool takes_post_ops;
  ShapeFunction* shape;
};

constexpr std::size_t kMany = 4096;
constexpr KindRow kKinds[] = {
    {kind::kConv, 2, 3, true, conv_shape},
    {kind::kMatmul, 2, 3, true, matmul_shape},
    {kind::kPool, 1, 1, true, pool_shape},
    {kind::kGlobalPool, 1, 1, true, global_pool_shape},
    {kind::kEltwise, 1, 1, true, same_shape},
    {kind::kBinary, 2, 2, true, binary_shape},
    {kind::kScaleShift, 3, 3, true, scale_shift_shape},
    {kind::kSoftmax, 1, 1, true, softmax_shape},
    {kind::kLayerNorm, 1, 3, true, layer_norm_shape},
    {kind::kLrn, 1, 1, true, lrn_shape},
    {kind::kConcat, 1, kMany, true, concat_shape},
    {kind::kTranspose, 1, 1, false, transpose_shape},
    {kind::kReshape, 1, 1, false, reshape_shape},
    {kind::kFlatten, 1, 1, false, flatten_shape},
    {kind::kSqueeze, 1, 1, false, squeeze_shape},
    {kind::kUnsqueeze, 1, 1, false, unsqueeze_shape},
    {kind::kIdentity, 1, 1, false, same_shape},
    {kind::kSlice, 1, 1, false, slice_shape},
    {kind::kSplit, 1, 1, false, split_shape},
    {kind::kPoint, 1, 1, true, same_shape},
    {kind::kQConv, 2, 4, true, qconv_shape},
    {kind::kQMatmul, 2, 4, true, qmatmul_shape},
    {kind::kDeconv, 2, 3, true, deconv_shape},
    {kind::kPad, 1, 1, false, pad_shape},
    {kind::kGather, 1, 1, false, gather_shape},
    {kind::kTile, 1, 1, false, tile_shape},
    {kind::kExpand, 1, 1, false, expand_shape},
    {kind::kSelect, 3, 3, false, select_shape},
    {kind::kResize, 1, 1, true, resize_shape},
    {kind::kBlocks, 1, 1, false, blocks_shape},
    {kind::kReduce, 1, 1, true, reduce_shape},
    {kind::kRmsNorm, 2, 2, true, layer_norm_shape},
    {kind::kGroupNorm, 1, 3, true, group_norm_shape},
    {kind::kRnn, 4, 6, false, rnn_shape},
};

Result<const KindRow*> find_kind(const ProgramOp& op) {
  for (const KindRow& row : kKinds)
    if (row.kind == op.kind) return &row;
  return fail(ErrorCode::kUnsupported, "{}: unknown kind", label(op));
}

Status check_post_ops(const Program& program, const ProgramOp& op, const KindRow& row,
                      const Outputs& outputs, std::span<const Dims> values) {
  if (!op.post_ops.empty() && !row.takes_post_ops)
    return fail(ErrorCode::kCorruptContext, "{}: kind takes no post-ops", label(op));
  for (const PostOp& post : op.post_ops) {
    if (post.operand.kind == Operand::Kind::kNone) continue;
    const Dims operand = operand_dims(program, post.operand, values);
    const Dims joint = CTXGEN_TRY(broadcast_dims(op, outputs[0], operand));
    if (joint != outputs[0])
      return fail(ErrorCode::kInvalidGraph, "{}: post-op {} operand {} does not broadcast to {}",
                  label(op), post.kind, to_string(operand), to_string(outputs[0]));
  }
  return {};
}

Status check_size(const ProgramOp& op, const Dims& dims) {
  const auto bytes = checked_size_bytes(DataType::kFloat, dims);
  if (!bytes || *bytes > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: output {} is too large", label(op),
                to_string(dims));
  return {};
}

Status infer_op(const Program& program, const ProgramOp& given, std::vector<Dims>& values) {
  const ProgramOp op = CTXGEN_TRY(without_dim_code(program, given, values));
  const KindRow* row = CTXGEN_TRY(find_kind(op));
  if (op.inputs.size() < row->least_inputs || op.inputs.size() > row->most_inputs)
    return fail(ErrorCode::kCorruptContext, "{}: {} inputs, expected {} to {}", label(op),
                op.inputs.size(), row->least_inputs, row->most_inputs);
  std::vector<ShapeInput> inputs;
  for (const Operand& operand : op.inputs)
    inputs.push_back(
        {operand_dims(program, operand, values), operand.kind != Operand::Kind::kNone});
  // Of the fixed-arity kinds only bias, scale and shift may be absent.
  for (std::size_t i = 0; i < std::min(inputs.size(), row->least_inputs); ++i)
    if (!inputs[i].present)
      return fail(ErrorCode::kCorruptContext, "{}: input {} is absent", label(op), i);
  const Outputs outputs = CTXGEN_TRY(row->shape(op, inputs));
  if (outputs.size() != op.outputs.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} outputs, expected {}", label(op),
                op.outputs.size(), outputs.size());
  CTXGEN_CHECK(check_post_ops(program, op, *row, outputs, values));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CTXGEN_CHECK(check_size(op, outputs[i]));
    values[op.outputs[i]] = outputs[i];
  }
  return {};
}

Status check_input(const Program& program, std::size_t input, const Dims& dims,
                   std::vector<std::int64_t>& symbols) {
  const ProgramValue& value = program.values[program.inputs[input]];
  const auto misfit = [&] {
    return fail(ErrorCode::kInvalidArgument, "input \"{}\": shape {} does not fit the program",
                value.name, to_string(dims));
  };
  const auto bytes = checked_size_bytes(DataType::kFloat, dims);
  if (!bytes || *bytes > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "input \"{}\": {} is too large", value.name,
                to_string(dims));
  if (!value.has_rank) return {};
  if (value.dims.size() != dims.size()) return misfit();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const ProgramDim& dim = value.dims[i];
    if (dim.value >= 0 && dim.value != dims[i]) return misfit();
    if (dim.value >= 0 || dim.symbol < 0) continue;
    const auto symbol = static_cast<std::size_t>(dim.symbol);
    if (symbol >= symbols.size()) return misfit();
    if (symbols[symbol] >= 0 && symbols[symbol] != dims[i]) return misfit();
    symbols[symbol] = dims[i];
  }
  return {};
}

}  // namespace

ShapeOutputs one_shape(const Dims& dims) {
  ShapeOutputs outputs;
  outputs.push_back(dims);
  return outputs;
}

Status require_spatial(const ProgramOp& op, const Dims& src) {
  if (src.size() < 3 || src.size() > 5)
    return fail(ErrorCode::kUnsupported, "{}: source {} has rank {}, expected 3 to 5", label(op),
                to_string(src), src.size());
  return {};
}

Dims matmul_operand_dims(Dims stored, bool transposed) {
  if (transposed) std::swap(stored[stored.size() - 1], stored[stored.size() - 2]);
  return stored;
}

Dims operand_dims(const Program& program, const Operand& operand,
                  std::span<const Dims> value_dims) {
  if (operand.kind == Operand::Kind::kValue) return value_dims[operand.index];
  if (operand.kind == Operand::Kind::kWeight) return program.weights[operand.index].dims;
  return {};
}

Result<Dims> broadcast_dims(const ProgramOp& op, const Dims& a, const Dims& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Dims out(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t from_a = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const std::int64_t from_b = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (from_a != from_b && from_a != 1 && from_b != 1)
      return fail(ErrorCode::kInvalidGraph, "{}: {} and {} do not broadcast", label(op),
                  to_string(a), to_string(b));
    out[i] = from_a == 1 ? from_b : from_a;
  }
  return out;
}

Result<SliceRange> resolve_slice(const ProgramOp& op, const Dims& src) {
  const Params params(op);
  const std::vector<std::int64_t> starts = CTXGEN_TRY(params.list("starts"));
  const std::vector<std::int64_t> ends = CTXGEN_TRY(params.list("ends"));
  std::vector<std::int64_t> axes = CTXGEN_TRY(params.list("axes"));
  std::vector<std::int64_t> steps = CTXGEN_TRY(params.list("steps"));
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} starts, {} ends, {} axes, {} steps", label(op),
                starts.size(), ends.size(), axes.size(), steps.size());
  SliceRange range{std::vector<std::int64_t>(src.size(), 0),
                   std::vector<std::int64_t>(src.size(), 1), src};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = CTXGEN_TRY(normal_axis(op, axes[i], src.size()));
    const std::int64_t dim = src[axis];
    if (steps[i] == 0) return fail(ErrorCode::kInvalidGraph, "{}: step 0", label(op));
    if (dim == 0) continue;  // nothing, whatever the direction
    // From a dim's length on only the direction matters: clamped there, the sums below stay in
    // range, and so do products with strides.
    const std::int64_t step = std::clamp(steps[i], -dim, dim);
    const auto place = [&](std::int64_t index, std::int64_t low, std::int64_t high) {
      if (index < 0) index = index < -dim ? -1 : index + dim;
      return std::clamp(index, low, high);
    };
    const std::int64_t first = place(starts[i], 0, step > 0 ? dim : dim - 1);
    const std::int64_t last = step > 0 ? place(ends[i], 0, dim) : place(ends[i], -1, dim - 1);
    const std::int64_t span = step > 0 ? last - first : first - last;
    const std::int64_t size = step > 0 ? step : -step;
    range.start[axis] = first;
    range.step[axis] = step;
    range.dims[axis] = span > 0 ? (span + size - 1) / size : 0;
  }
  return range;
}

Result<std::vector<std::int64_t>> resolve_split(const ProgramOp& op, std::int64_t length) {
  std::vector<std::int64_t> sizes = CTXGEN_TRY(Params(op).list("sizes"));
  const auto parts = static_cast<std::int64_t>(op.outputs.size());
  if (sizes.empty()) {
    // ONNX (num_outputs): equal parts, the last one smaller where the length does not divide.
    const std::int64_t part = (length + parts - 1) / parts;
    for (std::int64_t i = 0, left = length; i < parts; ++i, left -= part)
      sizes.push_back(std::clamp<std::int64_t>(left, 0, part));
  }
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > length - sum)
      return fail(ErrorCode::kInvalidGraph, "{}: sizes do not add up to {}", label(op), length);
    sum += size;
  }
  if (sum != length || sizes.size() != op.outputs.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} sizes add up to {}, expected {} and {}",
                label(op), sizes.size(), sum, parts, length);
  return sizes;
}

Result<std::vector<Dims>> infer_value_dims(const Program& program,
                                           std::span<const Dims> input_dims) {
  if (input_dims.size() != program.inputs.size())
    return fail(ErrorCode::kInvalidArgument, "program \"{}\": {} inputs, expected {}",
                program.name, input_dims.size(), program.inputs.size());
  std::vector<std::int64_t> symbols(program.symbols.size(), -1);
  std::vector<Dims> values(program.values.size());
  for (std::size_t i = 0; i < input_dims.size(); ++i) {
    CTXGEN_CHECK(check_input(program, i, input_dims[i], symbols));
    values[program.inputs[i]] = input_dims[i];
  }
  for (const ProgramOp& op : program.ops) CTXGEN_CHECK(infer_op(program, op, values));
  return values;
}

}  // namespace ctxgen::onednn
