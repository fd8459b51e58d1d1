#include <algorithm>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "kernel/value_kernel.h"

// Operators that only give a tensor another shape, or ask for its shape.

namespace ctxgen::cpu {
namespace {

KernelResult make_identity(const Node&) {
  return value_kernel([](KernelContext& context) -> Status {
    context.set_value(0, *CTXGEN_TRY(required_value(context, 0)));
    return {};
  });
}

Status set_reshaped(KernelContext& context, const Dims& dims) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const auto count = checked_element_count(dims);
  if (!count || static_cast<std::int64_t>(*count) != input->element_count())
    return fail(ErrorCode::kInvalidGraph, "cannot reshape {} to {}", to_string(input->dims()),
                to_string(dims));
  context.set_output(0, input->with_dims(dims));
  return {};
}

// 0 copies the input's dim unless allowzero; one -1 takes what is left.
Result<Dims> reshaped_dims(const Dims& from, std::span<const std::int64_t> shape, bool allow_zero) {
  if (shape.size() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "rank {} is above {}", shape.size(), kMaxRank);
  Dims dims;
  std::optional<std::size_t> rest;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t dim = shape[i];
    if (dim == 0 && !allow_zero) {
      if (i >= from.size())
        return fail(ErrorCode::kInvalidGraph, "shape copies dim {} of rank {}", i, from.size());
      dim = from[i];
    }
    if (dim == -1 && !rest) {
      rest = i;
      dim = 1;
    }
    if (dim < 0) return fail(ErrorCode::kInvalidGraph, "shape has dim {}", dim);
    dims.push_back(dim);
  }
  if (!rest) return dims;
  const auto known = checked_element_count(dims);
  const std::int64_t count = element_count(from);
  if (!known || (*known == 0 && count != 0) ||
      (*known != 0 && count % static_cast<std::int64_t>(*known) != 0))
    return fail(ErrorCode::kInvalidGraph, "cannot reshape {} to {}", to_string(from),
                to_string(dims));
  dims[*rest] = *known == 0 ? 0 : count / static_cast<std::int64_t>(*known);
  return dims;
}

KernelResult make_reshape(const Node& node) {
  return kernel([shape = ints_param(node, "shape", 1),
                 allow_zero = node.int_or("allowzero", 0) != 0](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const auto values = CTXGEN_TRY(shape.get(context));
    if (!values) return fail(ErrorCode::kInvalidGraph, "has no shape");
    return set_reshaped(context, CTXGEN_TRY(reshaped_dims(input->dims(), *values, allow_zero)));
  });
}

KernelResult make_flatten(const Node& node) {
  return kernel([axis = node.int_or("axis", 1)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const auto rank = static_cast<std::int64_t>(input->rank());
    if (axis < -rank || axis > rank)
      return fail(ErrorCode::kInvalidGraph, "axis {} is outside of rank {}", axis, rank);
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    return set_reshaped(context,
                        {product(input->dims(), 0, at), product(input->dims(), at, input->rank())});
  });
}

KernelResult make_squeeze(const Node& node) {
  return kernel([param = ints_param(node, "axes", 1)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const auto given = CTXGEN_TRY(param.get(context));
    ScratchVector<std::size_t> axes;
    if (given) axes = CTXGEN_TRY(normalize_axes(*given, input->rank()));
    Dims dims;
    for (std::size_t i = 0; i < input->rank(); ++i) {
      const bool drop = given ? std::ranges::binary_search(axes, i) : input->dims()[i] == 1;
      if (drop && input->dims()[i] != 1)
        return fail(ErrorCode::kInvalidGraph, "axis {} of {} is not 1", i,
                    to_string(input->dims()));
      if (!drop) dims.push_back(input->dims()[i]);
    }
    return set_reshaped(context, dims);
  });
}

KernelResult make_unsqueeze(const Node& node) {
  return kernel([param = ints_param(node, "axes", 1)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const auto given = CTXGEN_TRY(param.get(context));
    if (!given) return fail(ErrorCode::kInvalidGraph, "has no axes");
    const std::size_t rank = input->rank() + given->size();
    if (rank > kMaxRank)
      return fail(ErrorCode::kUnsupported, "rank {} is above {}", rank, kMaxRank);
    const auto axes = CTXGEN_TRY(normalize_axes(*given, rank));
    Dims dims;
    std::size_t next = 0;
    for (std::size_t i = 0; i < rank; ++i)
      dims.push_back(std::ranges::binary_search(axes, i) ? 1 : input->dims()[next++]);
    return set_reshaped(context, dims);
  });
}

// `start` and `end` (opset 15) clamp like Python slices.
KernelResult make_shape(const Node& node) {
  return kernel([start = node.int_or("start", 0),
                 end = node.int_or("end", INT64_MAX)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const auto rank = static_cast<std::int64_t>(input->rank());
    const std::int64_t first = std::clamp<std::int64_t>(start < 0 ? start + rank : start, 0, rank);
    const std::int64_t last = std::clamp<std::int64_t>(end < 0 ? end + rank : end, first, rank);
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kInt64, {last - first}));
    std::copy(input->dims().begin() + first, input->dims().begin() + last,
              output->mutable_elements<std::int64_t>().begin());
    return {};
  });
}

KernelResult make_size(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kInt64, {}));
    output->mutable_elements<std::int64_t>()[0] = input->element_count();
    return {};
  });
}

constexpr OpRow kShapeRows[] = {
    {kOnnx, "Flatten", 1, 25, make_flatten, "all types"},
    {kOnnx, "Identity", 1, 25, make_identity, "all types; sequences and optionals too"},
    {kOnnx, "Reshape", 1, 25, make_reshape, "all types"},
    {kOnnx, "Shape", 1, 25, make_shape, "all types"},
    {kOnnx, "Size", 1, 25, make_size, "all types"},
    {kOnnx, "Squeeze", 1, 25, make_squeeze, "all types"},
    {kOnnx, "Unsqueeze", 1, 25, make_unsqueeze, "all types"},
};

}  // namespace

constinit const std::span<const OpRow> kShapeOps = kShapeRows;

}  // namespace ctxgen::cpu
