#include <algorithm>
#include <numeric>
#include <utility>

#include "families.h"
#include "kernel/attributes.h"
#include "tensors/broadcast.h"
#include "tensors/strided_copy.h"

namespace ctxgen::cpu {
namespace {

// ---- Concat, Split ----

// Exporters begin lists with an empty tensor, whose other dims are those of nothing in particular:
// [0], or [0, 5] before [2, 3]. It adds nothing.
bool is_nothing(const Tensor& input, std::int64_t axis) {
  const auto at = normalize_axis(axis, input.rank());
  return (at && input.dims()[*at] == 0) || input.dims() == Dims{0};
}

Status run_concat(KernelContext& context, std::int64_t axis) {
  const Tensor* first = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(require_whole_bytes(*first));
  // The first input that has a say about the other dims.
  for (std::size_t i = 1; is_nothing(*first, axis) && i < context.input_count(); ++i)
    first = CTXGEN_TRY(required(context, i, first->type()));
  const std::size_t at = CTXGEN_TRY(normalize_axis(axis, first->rank()));
  Dims dims = first->dims();
  dims[at] = 0;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const Tensor* input = CTXGEN_TRY(required(context, i, first->type()));
    if (is_nothing(*input, axis)) continue;
    Dims expected = first->dims();
    if (input->rank() == expected.size()) expected[at] = input->dims()[at];
    CTXGEN_CHECK(expect_dims(*input, "an input", expected));
    dims[at] += input->dims()[at];
  }
  Tensor* output = CTXGEN_TRY(context.make_output(0, first->type(), dims));
  const std::int64_t outer = product(dims, 0, at);
  const std::int64_t row = product(dims, at, dims.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const Tensor& input = *context.input(i);
    if (is_nothing(input, axis)) continue;
    const std::int64_t piece = product(input.dims(), at, dims.size());
    for (std::int64_t o = 0; o < outer; ++o)
      copy_elements(input, o * piece, *output, o * row + start, piece);
    start += piece;
  }
  return {};
}

KernelResult make_concat(const Node& node) {
  const std::int64_t axis = node.int_or("axis", node.opset < 4 ? 1 : 0);
  if (node.inputs.size() == 1)  // a past, as exporters write it: it is not copied in each step
    return kernel([axis](KernelContext& context) -> Status {
      const Tensor* input = CTXGEN_TRY(required(context, 0));
      (void)CTXGEN_TRY(normalize_axis(axis, input->rank()));
      context.set_output(0, *input);
      return {};
    });
  return kernel([axis](KernelContext& context) { return run_concat(context, axis); });
}

// Without sizes: equal pieces; the last one may be smaller (num_outputs, opset 18).
Result<ScratchVector<std::int64_t>> split_sizes(
    std::int64_t extent, std::size_t count,
    const std::optional<ScratchVector<std::int64_t>>& given) {
  if (given) {
    std::int64_t sum = 0;
    for (std::int64_t size : *given) {
      if (size < 0 || size > extent - sum)
        return fail(ErrorCode::kInvalidGraph, "split sizes do not fit into {}", extent);
      sum += size;
    }
    if (sum != extent || given->size() != count)
      return fail(ErrorCode::kInvalidGraph, "{} split sizes of sum {}, expected {} of sum {}",
                  given->size(), sum, count, extent);
    return *given;
  }
  const auto pieces = static_cast<std::int64_t>(count);
  const std::int64_t size = (extent + pieces - 1) / pieces;
  ScratchVector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < pieces; ++i)
    sizes.push_back(std::clamp<std::int64_t>(extent - i * size, 0, size));
  return sizes;
}

Status run_split(KernelContext& context, std::int64_t axis, const IntsParam& param) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(require_whole_bytes(*input));
  const std::size_t at = CTXGEN_TRY(normalize_axis(axis, input->rank()));
  const auto given = CTXGEN_TRY(param.get(context));
  const auto sizes = CTXGEN_TRY(split_sizes(input->dims()[at], context.output_count(), given));
  const std::int64_t outer = product(input->dims(), 0, at);
  const std::int64_t inner = product(input->dims(), at + 1, input->rank());
  const std::int64_t row = input->dims()[at] * inner;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Dims dims = input->dims();
    dims[at] = sizes[i];
    const std::int64_t piece = sizes[i] * inner;
    if (context.output_wanted(i)) {
      Tensor* output = CTXGEN_TRY(context.make_output(i, input->type(), dims));
      for (std::int64_t o = 0; o < outer; ++o)
        copy_elements(*input, o * row + start, *output, o * piece, piece);
    }
    start += piece;
  }
  return {};
}

KernelResult make_split(const Node& node) {
  if (node.outputs.empty())
    return fail(ErrorCode::kInvalidGraph, "{}: no outputs", node.describe());
  const auto outputs = static_cast<std::int64_t>(node.outputs.size());
  if (node.int_or("num_outputs", outputs) != outputs)
    return fail(ErrorCode::kInvalidGraph, "{}: num_outputs is {}, but it has {} outputs",
                node.describe(), node.int_or("num_outputs", 0), outputs);
  return kernel([axis = node.int_or("axis", 0), param = ints_param(node, "split", 1)](
                    KernelContext& context) { return run_split(context, axis, param); });
}

// ---- Slice ----

struct SliceParams {
  IntsParam starts, ends, axes, steps;
};

// One axis of a Slice: Python's rules, with ends clamped for both directions.
struct AxisRange {
  std::int64_t start = 0, step = 1, count = 0;
};

AxisRange range_of(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t extent) {
  if (start < 0) start = start < -extent ? -1 : start + extent;
  if (end < 0) end = end < -extent ? -1 : end + extent;
  AxisRange range{.start = 0, .step = step, .count = 0};
  if (step > 0) {
    range.start = std::clamp<std::int64_t>(start, 0, extent);
    end = std::clamp<std::int64_t>(end, 0, extent);
    if (end > range.start) range.count = (end - range.start - 1) / step + 1;
  } else {
    range.start = std::clamp<std::int64_t>(start, -1, extent - 1);
    end = std::clamp<std::int64_t>(end, -1, extent - 1);
    // Without a sign the least integer has an opposite, too.
    const auto size = std::uint64_t{0} - static_cast<std::uint64_t>(step);
    const auto rest = static_cast<std::uint64_t>(range.start - end - 1);
    if (range.start > end) range.count = static_cast<std::int64_t>(rest / size) + 1;
  }
  if (range.count <= 1) range.step = 1;  // the step no longer matters; it may be huge
  return range;
}

Status run_slice(KernelContext& context, const SliceParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const auto starts = CTXGEN_TRY(params.starts.get(context));
  const auto ends = CTXGEN_TRY(params.ends.get(context));
  const auto axes = CTXGEN_TRY(params.axes.get(context));
  const auto steps = CTXGEN_TRY(params.steps.get(context));
  if (!starts || !ends || starts->size() != ends->size() ||
      (axes ? axes->size() != starts->size() : starts->size() > input->rank()) ||
      (steps && steps->size() != starts->size()))
    return fail(ErrorCode::kInvalidGraph, "starts, ends, axes and steps have different sizes");
  StridedCopy copy{.extents = input->dims(), .from_strides = strides_of(input->dims())};
  ScratchVector<bool> seen(input->rank());
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::int64_t axis = axes ? (*axes)[i] : static_cast<std::int64_t>(i);
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, input->rank()));
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0 || seen[at])
      return fail(ErrorCode::kInvalidGraph, "axis {} has step {} or is there twice", axis, step);
    seen[at] = true;
    const AxisRange range = range_of((*starts)[i], (*ends)[i], step, input->dims()[at]);
    if (range.count > 0) copy.from_start += range.start * copy.from_strides[at];
    copy.extents[at] = range.count;
    copy.from_strides[at] *= range.step;
  }
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), copy.extents));
  copy.to_strides = strides_of(copy.extents);
  return copy_strided(*input, *output, copy);
}

KernelResult make_slice(const Node& node) {
  const SliceParams params{ints_param(node, "starts", 1), ints_param(node, "ends", 2),
                           ints_param(node, "axes", 3), ints_param(node, "steps", 4)};
  return kernel([params](KernelContext& context) { return run_slice(context, params); });
}

// ---- Transpose, Expand, Tile, Where ----

KernelResult make_transpose(const Node& node) {
  const auto given = node.ints("perm");
  ScratchVector<std::int64_t> perm;
  if (given) perm.assign(given->begin(), given->end());
  return kernel([perm, reverse = !given](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    ScratchVector<std::size_t> axes(input->rank());
    std::iota(axes.rbegin(), axes.rend(), std::size_t{0});
    if (!reverse) {
      if (CTXGEN_TRY(normalize_axes(perm, input->rank())).size() != input->rank())
        return fail(ErrorCode::kInvalidGraph, "perm has {} axes, expected {}", perm.size(),
                    input->rank());
      for (std::size_t i = 0; i < perm.size(); ++i)
        axes[i] = CTXGEN_TRY(normalize_axis(perm[i], input->rank()));
    }
    Tensor* output =
        CTXGEN_TRY(context.make_output(0, input->type(), permuted(input->dims(), axes)));
    return transpose_into(*input, axes, *output);
  });
}

Result<Dims> dims_of(std::span<const std::int64_t> values) {
  if (values.size() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "rank {} is above {}", values.size(), kMaxRank);
  const Dims dims(values);
  if (!checked_element_count(dims))
    return fail(ErrorCode::kInvalidGraph, "{} is not a shape", to_string(dims));
  return dims;
}

Status expand_into(const Tensor& input, const BroadcastPlan& plan, Tensor& output) {
  StridedCopy copy;
  for (std::size_t i = 0; i < plan.loops; ++i) {
    copy.extents.push_back(plan.extent[i]);
    copy.from_strides.push_back(plan.stride[i][0]);
  }
  copy.to_strides = strides_of(copy.extents);
  return copy_strided(input, output, copy);
}

KernelResult make_expand(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const Tensor* shape = CTXGEN_TRY(required(context, 1, DataType::kInt64));
    const Dims dims = CTXGEN_TRY(dims_of(shape->elements<std::int64_t>()));
    const auto plan = CTXGEN_TRY(plan_broadcast({&input->dims(), &dims}));
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), plan.dims));
    return expand_into(*input, plan, *output);
  });
}

// Opset 1: one `tiles` along one `axis`; since 6 a count per axis.
Result<ScratchVector<std::int64_t>> tile_repeats(KernelContext& context, bool one_axis,
                                                 std::size_t rank) {
  const Tensor* counts = CTXGEN_TRY(required(context, 1));
  if (!one_axis) return ints_of(*counts);
  const Tensor* axis_input = CTXGEN_TRY(required(context, 2));
  const double tiles = CTXGEN_TRY(scalar_of(*counts));
  const double axis = CTXGEN_TRY(scalar_of(*axis_input));
  if (!(tiles >= 0 && tiles < 9e15 && axis >= 0 && axis < static_cast<double>(rank)))
    return fail(ErrorCode::kInvalidGraph, "cannot tile axis {} {} times", axis, tiles);
  ScratchVector<std::int64_t> repeats(rank, 1);
  repeats[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(tiles);
  return repeats;
}

// Each axis becomes two: the repetition (stride 0) and the axis itself.
KernelResult make_tile(const Node& node) {
  return kernel([one_axis = node.opset < 6](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const auto repeats = CTXGEN_TRY(tile_repeats(context, one_axis, input->rank()));
    if (repeats.size() != input->rank() || input->rank() * 2 > kMaxRank)
      return fail(ErrorCode::kInvalidGraph, "{} repeats for rank {}", repeats.size(),
                  input->rank());
    Dims dims = input->dims();
    StridedCopy copy;
    const Dims strides = strides_of(input->dims());
    for (std::size_t i = 0; i < repeats.size(); ++i) {
      if (repeats[i] < 0 || __builtin_mul_overflow(dims[i], repeats[i], &dims[i]))
        return fail(ErrorCode::kInvalidGraph, "repeats has {}", repeats[i]);
      copy.extents.push_back(repeats[i]);
      copy.extents.push_back(input->dims()[i]);
      copy.from_strides.push_back(0);
      copy.from_strides.push_back(strides[i]);
    }
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
    copy.to_strides = strides_of(copy.extents);
    return copy_strided(*input, *output, copy);
  });
}

KernelResult make_where(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* condition = CTXGEN_TRY(required(context, 0, DataType::kBool));
    const Tensor* x = CTXGEN_TRY(required(context, 1));
    const Tensor* y = CTXGEN_TRY(required(context, 2, x->type()));
    const auto plan = CTXGEN_TRY(plan_broadcast({&condition->dims(), &x->dims(), &y->dims()}));
    Tensor* output = CTXGEN_TRY(context.make_output(0, x->type(), plan.dims));
    return dispatch_storage(x->type(), [&]<class T>() -> Status {
      for_each_row(plan, [&](const auto& offset, std::int64_t out) {
        const Bit* c = data_of<Bit>(*condition) + offset[0];
        const T* a = data_of<T>(*x) + offset[1];
        const T* b = data_of<T>(*y) + offset[2];
        T* to = mutable_data_of<T>(*output) + out;
        for (std::int64_t i = 0; i < plan.row_length(); ++i)
          to[i] = c[i * plan.row_stride(0)] ? a[i * plan.row_stride(1)] : b[i * plan.row_stride(2)];
      });
      return {};
    });
  });
}

// ---- DepthToSpace, SpaceToDepth: a transpose of six axes ----

Status shuffle_blocks(KernelContext& context, const Dims& split, std::array<std::size_t, 6> perm,
                      const Dims& result) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), result));
  const Dims extents = permuted(split, perm);
  return copy_strided(*input, *output,
                      {.extents = extents,
                       .from_strides = permuted(strides_of(split), perm),
                       .to_strides = strides_of(extents)});
}

Result<std::int64_t> block_size(const Node& node) {
  const std::int64_t block = node.int_or("blocksize", 0);
  if (block < 1 || block > 65536)
    return fail(ErrorCode::kInvalidGraph, "{}: blocksize is {}", node.describe(), block);
  return block;
}

KernelResult make_depth_to_space(const Node& node) {
  const std::int64_t b = CTXGEN_TRY(block_size(node));
  const std::string mode = CTXGEN_TRY(one_of(node, "mode", "DCR", {"DCR", "CRD"}));
  return kernel([b, depth_first = mode == "DCR"](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "input", 4, 4));
    const Dims& d = input->dims();
    if (d[1] % (b * b) != 0)
      return fail(ErrorCode::kInvalidGraph, "{} channels do not divide by {}", d[1], b * b);
    const std::int64_t depth = d[1] / (b * b);
    const Dims result{d[0], depth, d[2] * b, d[3] * b};
    if (depth_first)
      return shuffle_blocks(context, {d[0], b, b, depth, d[2], d[3]}, {0, 3, 4, 1, 5, 2}, result);
    return shuffle_blocks(context, {d[0], depth, b, b, d[2], d[3]}, {0, 1, 4, 2, 5, 3}, result);
  });
}

KernelResult make_space_to_depth(const Node& node) {
  const std::int64_t b = CTXGEN_TRY(block_size(node));
  return kernel([b](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "input", 4, 4));
    const Dims& d = input->dims();
    if (d[2] % b != 0 || d[3] % b != 0 || b > std::max({d[2], d[3], std::int64_t{1}}))
      return fail(ErrorCode::kInvalidGraph, "{} does not divide by blocks of {}", to_string(d), b);
    return shuffle_blocks(context, {d[0], d[1], d[2] / b, b, d[3] / b, b}, {0, 3, 5, 1, 2, 4},
                          {d[0], d[1] * b * b, d[2] / b, d[3] / b});
  });
}

constexpr std::string_view kAll = "all types of a byte and more";

constexpr OpRow kDataMovementRows[] = {
    {kOnnx, "Concat", 1, 13, make_concat, kAll},
    {kOnnx, "DepthToSpace", 1, 13, make_depth_to_space, kAll},
    {kOnnx, "Expand", 8, 13, make_expand, kAll},
    {kOnnx, "Slice", 1, 13, make_slice, kAll},
    {kOnnx, "SpaceToDepth", 1, 13, make_space_to_depth, kAll},
    {kOnnx, "Split", 1, 18, make_split, kAll},
    {kOnnx, "Tile", 1, 13, make_tile, "all types of a byte and more; rank up to 6"},
    {kOnnx, "Transpose", 1, 25, make_transpose, kAll},
    {kOnnx, "Where", 9, 16, make_where, kAll},
};

}  // namespace

constinit const std::span<const OpRow> kDataMovementOps = kDataMovementRows;

}  // namespace ctxgen::cpu
