#include "kernel/function_kernel.h"

#include <algorithm>

namespace ctxgen::cpu {

const Tensor* optional_input(const KernelContext& context, std::size_t index) {
  return index < context.input_count() ? context.input(index) : nullptr;
}

Result<const Tensor*> required(const KernelContext& context, std::size_t index) {
  const Tensor* tensor = optional_input(context, index);
  if (tensor == nullptr) return fail(ErrorCode::kInvalidGraph, "input {} is missing", index);
  return tensor;
}

Result<const Tensor*> required(const KernelContext& context, std::size_t index, DataType type) {
  const Tensor* tensor = CTXGEN_TRY(required(context, index));
  if (tensor->type() != type)
    return fail(ErrorCode::kInvalidGraph, "input {} is {}, expected {}", index,
                name_of(tensor->type()), name_of(type));
  return tensor;
}

Status same_type(const Tensor& a, const Tensor& b) {
  if (a.type() == b.type()) return {};
  return fail(ErrorCode::kInvalidGraph, "inputs have different types {} and {}", name_of(a.type()),
              name_of(b.type()));
}

Status expect_dims(const Tensor& tensor, std::string_view what, const Dims& dims) {
  if (tensor.dims() == dims) return {};
  return fail(ErrorCode::kInvalidGraph, "{} has shape {}, expected {}", what,
              to_string(tensor.dims()), to_string(dims));
}

Status expect_rank(const Tensor& tensor, std::string_view what, std::size_t least,
                   std::size_t most) {
  if (tensor.rank() >= least && tensor.rank() <= most) return {};
  if (least == most)
    return fail(ErrorCode::kInvalidGraph, "{} has rank {}, expected {}", what, tensor.rank(),
                least);
  return fail(ErrorCode::kInvalidGraph, "{} has rank {}, expected {} to {}", what, tensor.rank(),
              least, most);
}

Result<std::size_t> normalize_axis(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank)
    return fail(ErrorCode::kInvalidGraph, "axis {} is outside of rank {}", axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::int64_t product(const Dims& dims, std::size_t first, std::size_t last) {
  std::int64_t result = 1;
  for (std::size_t i = first; i < last; ++i) result *= dims[i];
  return result;
}

AxisSplit split_at(const Dims& dims, std::size_t axis) {
  if (axis >= dims.size()) return {product(dims, 0, dims.size()), 1, 1};
  return {product(dims, 0, axis), dims[axis], product(dims, axis + 1, dims.size())};
}

Dims strides_of(const Dims& dims) {
  Dims strides = dims;
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Status require_whole_bytes(const Tensor& tensor) {
  if (tensor.is_string() || bits_of(tensor.type()) % 8 == 0) return {};
  return fail(ErrorCode::kUnsupported, "element type {}", name_of(tensor.type()));
}

void copy_elements(const Tensor& from, std::int64_t from_index, Tensor& to, std::int64_t to_index,
                   std::int64_t count) {
  if (count <= 0) return;
  if (from.is_string()) {
    std::copy_n(from.strings().data() + from_index, count, to.mutable_strings().data() + to_index);
    return;
  }
  const std::int64_t size = bits_of(from.type()) / 8;
  std::memcpy(to.mutable_bytes().data() + to_index * size, from.bytes().data() + from_index * size,
              static_cast<std::size_t>(count * size));
}

}  // namespace ctxgen::cpu
