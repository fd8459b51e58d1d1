#include <algorithm>

#include "families.h"
#include "kernel/attributes.h"
#include "tensors/strided_copy.h"

namespace ctxgen::cpu {
namespace {

enum class PadMode { kConstant, kReflect, kEdge, kWrap };

struct PadParams {
  PadMode mode = PadMode::kConstant;
  IntsParam pads, axes;
  double value = 0;
  bool value_is_input = false;
};

struct PadAmounts {
  Dims begin, end;
};

Result<PadAmounts> pad_amounts(const KernelContext& context, const PadParams& params,
                               std::size_t rank) {
  const auto pads = CTXGEN_TRY(params.pads.get(context));
  const auto axes = CTXGEN_TRY(params.axes.get(context));
  if (!pads || pads->size() != 2 * (axes ? axes->size() : rank))
    return fail(ErrorCode::kInvalidGraph, "pads has {} values for rank {}", pads ? pads->size() : 0,
                rank);
  PadAmounts amounts{Dims(rank, 0), Dims(rank, 0)};
  const std::size_t count = pads->size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t axis = i;
    if (axes) axis = CTXGEN_TRY(normalize_axis((*axes)[i], rank));
    amounts.begin[axis] = (*pads)[i];
    amounts.end[axis] = (*pads)[i + count];
  }
  return amounts;
}

Result<Dims> padded_dims(const Dims& dims, const PadAmounts& amounts) {
  Dims result = dims;
  constexpr std::int64_t kLimit = std::int64_t{1} << 48;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    for (const std::int64_t amount : {amounts.begin[i], amounts.end[i]})
      if (amount < -kLimit || amount > kLimit)
        return fail(ErrorCode::kInvalidGraph, "pads has {}", amount);
    result[i] += amounts.begin[i] + amounts.end[i];
    if (result[i] < 0)
      return fail(ErrorCode::kInvalidGraph, "pads crop {} elements of {}", -result[i] + dims[i],
                  dims[i]);
  }
  return result;
}

// The box of the input that stays, copied into an output that holds the padding already.
Status copy_inside(const Tensor& input, const PadAmounts& amounts, Tensor& output) {
  StridedCopy copy{.from_strides = strides_of(input.dims()),
                   .to_strides = strides_of(output.dims())};
  for (std::size_t i = 0; i < input.rank(); ++i) {
    const std::int64_t crop = std::max<std::int64_t>(0, -amounts.begin[i]);
    const std::int64_t crop_end = std::max<std::int64_t>(0, -amounts.end[i]);
    copy.extents.push_back(std::max<std::int64_t>(0, input.dims()[i] - crop - crop_end));
    copy.from_start += crop * copy.from_strides[i];
    copy.to_start += std::max<std::int64_t>(0, amounts.begin[i]) * copy.to_strides[i];
  }
  return copy_strided(input, output, copy);
}

// The input's index that output index `i - begin` shows. Requires extent > 0.
std::int64_t mirrored(std::int64_t index, std::int64_t extent, PadMode mode) {
  if (mode == PadMode::kEdge) return std::clamp<std::int64_t>(index, 0, extent - 1);
  if (mode == PadMode::kWrap) return ((index % extent) + extent) % extent;
  if (extent == 1) return 0;
  const std::int64_t period = 2 * (extent - 1);
  index = ((index % period) + period) % period;
  return index < extent ? index : period - index;
}

// The non-constant modes look every element up, by tables per axis.
Status fill_mirrored(const Tensor& input, const PadAmounts& amounts, PadMode mode, Tensor& output) {
  const std::size_t rank = input.rank();
  const Dims strides = strides_of(input.dims());
  ScratchVector<ScratchVector<std::int64_t>> offsets(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    if (input.dims()[i] == 0 && output.dims()[i] != 0)
      return fail(ErrorCode::kInvalidGraph, "cannot mirror an empty axis");
    for (std::int64_t k = 0; k < output.dims()[i]; ++k)
      offsets[i].push_back(mirrored(k - amounts.begin[i], input.dims()[i], mode) * strides[i]);
  }
  return dispatch_storage(input.type(), [&]<class T>() -> Status {
    const T* from = data_of<T>(input);
    T* to = mutable_data_of<T>(output);
    Dims position(rank, 0);
    const std::int64_t count = output.element_count();
    for (std::int64_t o = 0; o < count; ++o) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < rank; ++i)
        offset += offsets[i][static_cast<std::size_t>(position[i])];
      to[o] = from[offset];
      for (std::size_t i = rank; i-- > 0;) {
        if (++position[i] < output.dims()[i]) break;
        position[i] = 0;
      }
    }
    return {};
  });
}

Result<Tensor> pad_value(const KernelContext& context, const PadParams& params, DataType type) {
  const Tensor* given = params.value_is_input ? optional_input(context, 2) : nullptr;
  if (given != nullptr) {
    if (given->type() != type || given->element_count() != 1)
      return fail(ErrorCode::kInvalidGraph, "the pad value is {} of shape {}, expected a scalar {}",
                  name_of(given->type()), to_string(given->dims()), name_of(type));
    return *given;
  }
  Tensor value = CTXGEN_TRY(Tensor::allocate(type, {}));
  if (type == DataType::kString) return value;
  std::ranges::fill(value.mutable_bytes(), std::byte{0});
  if (params.value == 0) return value;
  CTXGEN_CHECK(dispatch(NumericTypes{}, type, [&]<class T>() -> Status {
    *mutable_data_of<T>(value) = store<T>(params.value);
    return {};
  }));
  return value;
}

Status run_pad(KernelContext& context, const PadParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const auto amounts = CTXGEN_TRY(pad_amounts(context, params, input->rank()));
  const Dims dims = CTXGEN_TRY(padded_dims(input->dims(), amounts));
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
  if (params.mode != PadMode::kConstant)
    return fill_mirrored(*input, amounts, params.mode, *output);
  const Tensor value = CTXGEN_TRY(pad_value(context, params, input->type()));
  CTXGEN_CHECK(fill(*output, value));
  return copy_inside(*input, amounts, *output);
}

// pads and value are attributes before opset 11 (`paddings` in opset 1), inputs since then.
KernelResult make_pad(const Node& node) {
  const std::string mode =
      CTXGEN_TRY(one_of(node, "mode", "constant", {"constant", "reflect", "edge", "wrap"}));
  PadParams params;
  params.mode = mode == "constant"  ? PadMode::kConstant
                : mode == "reflect" ? PadMode::kReflect
                : mode == "edge"    ? PadMode::kEdge
                                    : PadMode::kWrap;
  params.pads = ints_param(node, node.opset < 2 ? "paddings" : "pads", 1);
  params.axes = ints_param(node, "axes", 3);
  params.value = node.float_or("value", 0.0f);
  params.value_is_input = node.opset >= 11;
  return kernel([params](KernelContext& context) { return run_pad(context, params); });
}

// ---- CenterCropPad ----

// A box of `extent` elements in the middle of `whole`.
std::int64_t centred_start(std::int64_t whole, std::int64_t extent) { return (whole - extent) / 2; }

Result<Dims> centred_dims(const KernelContext& context, const Dims& dims,
                          std::span<const std::int64_t> axes) {
  const Tensor* shape_tensor = CTXGEN_TRY(required(context, 1));
  const auto shape = CTXGEN_TRY(ints_of(*shape_tensor));
  if (shape.size() != (axes.empty() ? dims.size() : axes.size()))
    return fail(ErrorCode::kInvalidGraph, "shape has {} values for rank {}", shape.size(),
                dims.size());
  Dims result = dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::size_t axis = i;
    if (!axes.empty()) axis = CTXGEN_TRY(normalize_axis(axes[i], dims.size()));
    result[axis] = shape[i];
  }
  if (!checked_element_count(result))
    return fail(ErrorCode::kInvalidGraph, "{} is not a shape", to_string(result));
  return result;
}

KernelResult make_center_crop_pad(const Node& node) {
  return kernel([axes = ints_or(node, "axes", {})](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const Dims dims = CTXGEN_TRY(centred_dims(context, input->dims(), axes));
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
    StridedCopy copy{
        .extents = dims, .from_strides = strides_of(input->dims()), .to_strides = strides_of(dims)};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::int64_t extent = input->dims()[i];
      copy.extents[i] = std::min(extent, dims[i]);
      if (extent > dims[i])
        copy.from_start += centred_start(extent, dims[i]) * copy.from_strides[i];
      else
        copy.to_start += centred_start(dims[i], extent) * copy.to_strides[i];
    }
    if (!output->is_string()) std::ranges::fill(output->mutable_bytes(), std::byte{0});
    return copy_strided(*input, *output, copy);
  });
}

constexpr OpRow kPadRows[] = {
    {kOnnx, "CenterCropPad", 18, 18, make_center_crop_pad, "all types of a byte and more"},
    {kOnnx, "Pad", 1, 25, make_pad, "all types of a byte and more"},
};

}  // namespace

constinit const std::span<const OpRow> kPadOps = kPadRows;

}  // namespace ctxgen::cpu
