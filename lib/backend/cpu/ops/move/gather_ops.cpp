
#include "families.h"
#include "tensors/indices.h"

namespace ctxgen::cpu {
namespace {

Result<Dims> joined(std::initializer_list<std::span<const std::int64_t>> parts) {
  Dims dims;
  for (const auto part : parts)
    for (std::int64_t dim : part) {
      if (dims.size() == kMaxRank)
        return fail(ErrorCode::kUnsupported, "the output's rank is above {}", kMaxRank);
      dims.push_back(dim);
    }
  return dims;
}

/// Indices are read where they are: a decoder's mask has one for each token, more in each step.
template <class Index>
Status gather_rows(KernelContext& context, const Tensor& data, const Tensor& index_tensor,
                   std::size_t at) {
  const std::int64_t extent = data.dims()[at];
  const auto indices = index_tensor.elements<Index>();
  for (const std::int64_t index : indices)
    if (index < -extent || index >= extent) return outside(index, extent);
  const auto d = data.dims().span();
  const Dims dims =
      CTXGEN_TRY(joined({d.first(at), index_tensor.dims().span(), d.subspan(at + 1)}));
  CTXGEN_CHECK(require_whole_bytes(data));
  Tensor* output = CTXGEN_TRY(context.make_output(0, data.type(), dims));
  const AxisSplit split = split_at(data.dims(), at);
  std::int64_t to = 0;
  for (std::int64_t o = 0; o < split.outer; ++o)
    for (const std::int64_t index : indices) {
      const std::int64_t row = o * extent + index + (index < 0 ? extent : 0);
      copy_elements(data, row * split.inner, *output, to, split.inner);
      to += split.inner;
    }
  return {};
}

KernelResult make_gather(const Node& node) {
  return kernel([axis = node.int_or("axis", 0)](KernelContext& context) -> Status {
    const Tensor* data = CTXGEN_TRY(required(context, 0));
    const Tensor* indices = CTXGEN_TRY(required(context, 1));
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, data->rank()));
    if (indices->type() == DataType::kInt64)
      return gather_rows<std::int64_t>(context, *data, *indices, at);
    if (indices->type() == DataType::kInt32)
      return gather_rows<std::int32_t>(context, *data, *indices, at);
    return not_indices(*indices);
  });
}

// Offset in `data` of the element that position `p` of the indices refers to, along `axis`.
std::int64_t element_offset(std::int64_t p, std::int64_t index, const Dims& index_dims,
                            const Dims& data_strides, std::size_t axis) {
  std::int64_t offset = index * data_strides[axis];
  for (std::size_t i = index_dims.size(); i-- > 0;) {
    if (i != axis) offset += p % index_dims[i] * data_strides[i];
    p /= index_dims[i];
  }
  return offset;
}

KernelResult make_gather_elements(const Node& node) {
  return kernel([axis = node.int_or("axis", 0)](KernelContext& context) -> Status {
    const Tensor* data = CTXGEN_TRY(required(context, 0));
    const Tensor* index_tensor = CTXGEN_TRY(required(context, 1));
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, data->rank()));
    CTXGEN_CHECK(expect_rank(*index_tensor, "indices", data->rank(), data->rank()));
    for (std::size_t i = 0; i < data->rank(); ++i)
      if (i != at && index_tensor->dims()[i] > data->dims()[i])
        return fail(ErrorCode::kInvalidGraph, "indices {} reach outside of {}",
                    to_string(index_tensor->dims()), to_string(data->dims()));
    const auto indices = CTXGEN_TRY(checked_indices(*index_tensor, data->dims()[at]));
    Tensor* output = CTXGEN_TRY(context.make_output(0, data->type(), index_tensor->dims()));
    const Dims strides = strides_of(data->dims());
    return dispatch_storage(data->type(), [&]<class T>() -> Status {
      T* to = mutable_data_of<T>(*output);
      for (std::size_t p = 0; p < indices.size(); ++p)
        to[p] = data_of<T>(*data)[element_offset(static_cast<std::int64_t>(p), indices[p],
                                                 index_tensor->dims(), strides, at)];
      return {};
    });
  });
}

// The last axis of the indices holds coordinates; `batch_dims` leading axes run along.
KernelResult make_gather_nd(const Node& node) {
  return kernel([batch_dims = node.int_or("batch_dims", 0)](KernelContext& context) -> Status {
    const Tensor* data = CTXGEN_TRY(required(context, 0));
    const Tensor* indices = CTXGEN_TRY(required(context, 1, DataType::kInt64));
    const auto least = std::min(data->rank(), indices->rank());
    if (least == 0 || batch_dims < 0 || static_cast<std::size_t>(batch_dims) >= least)
      return fail(ErrorCode::kInvalidGraph, "batch_dims is {} for {} and {}", batch_dims,
                  to_string(data->dims()), to_string(indices->dims()));
    const auto batch = static_cast<std::size_t>(batch_dims);
    const auto depth = static_cast<std::size_t>(indices->dims().back());
    if (indices->dims().back() > static_cast<std::int64_t>(data->rank() - batch) || depth == 0)
      return fail(ErrorCode::kInvalidGraph, "{} coordinates for {}", depth,
                  to_string(data->dims()));
    const auto i_dims = indices->dims().span();
    const auto d_dims = data->dims().span();
    for (std::size_t i = 0; i < batch; ++i)
      if (i_dims[i] != d_dims[i])
        return fail(ErrorCode::kInvalidGraph, "batches of {} and {} differ",
                    to_string(data->dims()), to_string(indices->dims()));
    CTXGEN_CHECK(require_whole_bytes(*data));
    const Dims dims =
        CTXGEN_TRY(joined({i_dims.first(i_dims.size() - 1), d_dims.subspan(batch + depth)}));
    Tensor* output = CTXGEN_TRY(context.make_output(0, data->type(), dims));
    const Dims strides = strides_of(data->dims());
    const std::int64_t slice = product(data->dims(), batch + depth, data->rank());
    const std::int64_t tuples = product(indices->dims(), 0, indices->rank() - 1);
    const std::int64_t batches = product(data->dims(), 0, batch);
    const std::int64_t image = product(data->dims(), batch, data->rank());
    const std::int64_t* coordinates = data_of<std::int64_t>(*indices);
    for (std::int64_t t = 0; t < tuples; ++t) {
      std::int64_t offset = t / (tuples / batches) * image;
      for (std::size_t i = 0; i < depth; ++i) {
        std::int64_t index = *coordinates++;
        const std::int64_t extent = d_dims[batch + i];
        if (index < -extent || index >= extent)
          return fail(ErrorCode::kInvalidGraph, "index {} is outside of {}", index, extent);
        offset += (index < 0 ? index + extent : index) * strides[batch + i];
      }
      copy_elements(*data, offset, *output, t * slice, slice);
    }
    return {};
  });
}

// Slices along `axis` where the condition is true; without axis, elements of the flattened input.
KernelResult make_compress(const Node& node) {
  const bool flat = node.attribute("axis") == nullptr;
  return kernel([flat, axis = node.int_or("axis", 0)](KernelContext& context) -> Status {
    const Tensor* data = CTXGEN_TRY(required(context, 0));
    const Tensor* condition = CTXGEN_TRY(required(context, 1, DataType::kBool));
    CTXGEN_CHECK(require_whole_bytes(*data));
    AxisSplit split{1, data->element_count(), 1};
    Dims dims{0};
    std::size_t at = 0;
    if (!flat) {
      at = CTXGEN_TRY(normalize_axis(axis, data->rank()));
      split = split_at(data->dims(), at);
      dims = data->dims();
    }
    ScratchVector<std::int64_t> kept;
    for (std::int64_t i = 0; i < std::min(split.extent, condition->element_count()); ++i)
      if (data_of<Bit>(*condition)[i]) kept.push_back(i);
    dims[at] = static_cast<std::int64_t>(kept.size());
    Tensor* output = CTXGEN_TRY(context.make_output(0, data->type(), dims));
    std::int64_t to = 0;
    for (std::int64_t o = 0; o < split.outer; ++o)
      for (std::int64_t index : kept) {
        copy_elements(*data, (o * split.extent + index) * split.inner, *output, to, split.inner);
        to += split.inner;
      }
    return {};
  });
}

// The first sequence_lens[b] elements of each batch entry, in reverse order.
KernelResult make_reverse_sequence(const Node& node) {
  const std::int64_t batch_axis = node.int_or("batch_axis", 1);
  const std::int64_t time_axis = node.int_or("time_axis", 0);
  const bool known = (batch_axis == 0 && time_axis == 1) || (batch_axis == 1 && time_axis == 0);
  if (!known)
    return fail(ErrorCode::kInvalidGraph, "{}: batch_axis {} and time_axis {}", node.describe(),
                batch_axis, time_axis);
  return kernel([time_first = time_axis == 0](KernelContext& context) -> Status {
    const Tensor* data = CTXGEN_TRY(required(context, 0));
    const Tensor* lengths = CTXGEN_TRY(required(context, 1, DataType::kInt64));
    CTXGEN_CHECK(require_whole_bytes(*data));
    CTXGEN_CHECK(expect_rank(*data, "input", 2));
    const std::int64_t times = data->dims()[time_first ? 0 : 1];
    const std::int64_t batches = data->dims()[time_first ? 1 : 0];
    CTXGEN_CHECK(expect_dims(*lengths, "sequence_lens", {batches}));
    Tensor* output = CTXGEN_TRY(context.make_output(0, data->type(), data->dims()));
    const std::int64_t slice = product(data->dims(), 2, data->rank());
    for (std::int64_t b = 0; b < batches; ++b) {
      const std::int64_t length = data_of<std::int64_t>(*lengths)[b];
      if (length < 0 || length > times)
        return fail(ErrorCode::kInvalidGraph, "sequence length {} of {}", length, times);
      for (std::int64_t t = 0; t < times; ++t) {
        const std::int64_t source = t < length ? length - 1 - t : t;
        const auto at = [&](std::int64_t time) {
          return (time_first ? time * batches + b : b * times + time) * slice;
        };
        copy_elements(*data, at(source), *output, at(t), slice);
      }
    }
    return {};
  });
}

constexpr std::string_view kAll = "all types of a byte and more";

constexpr OpRow kGatherRows[] = {
    {kOnnx, "Compress", 9, 11, make_compress, kAll},
    {kOnnx, "Gather", 1, 13, make_gather, kAll},
    {kOnnx, "GatherElements", 11, 13, make_gather_elements, kAll},
    {kOnnx, "GatherND", 11, 13, make_gather_nd, kAll},
    {kOnnx, "ReverseSequence", 10, 10, make_reverse_sequence, kAll},
};

}  // namespace

constinit const std::span<const OpRow> kGatherOps = kGatherRows;

}  // namespace ctxgen::cpu
