
#include "families.h"
#include "tensors/indices.h"

namespace ctxgen::cpu {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

Result<Reduction> reduction_of(const Node& node) {
  const std::string name =
      CTXGEN_TRY(one_of(node, "reduction", "none", {"none", "add", "mul", "max", "min"}));
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "max") return Reduction::kMax;
  return name == "min" ? Reduction::kMin : Reduction::kNone;
}

template <class T>
T reduced(Reduction reduction, T old, T update) {
  using C = Compute<T>;
  const C a = load(old);
  const C b = load(update);
  const auto wrap = [](auto f, C x, C y) {
    if constexpr (std::is_integral_v<C> && !std::is_same_v<C, bool>)
      return static_cast<C>(f(static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)));
    else
      return f(x, y);
  };
  switch (reduction) {
    case Reduction::kAdd: return store<T>(wrap(std::plus<>{}, a, b));
    case Reduction::kMul: return store<T>(wrap(std::multiplies<>{}, a, b));
    case Reduction::kMax: return a != a || a > b ? old : update;
    case Reduction::kMin: return a != a || a < b ? old : update;
    case Reduction::kNone: break;
  }
  return update;
}

// Writes runs of updates: `put(to, from, count)` for every run, in order.
template <class F>
Status write_updates(Reduction reduction, const Tensor& updates, Tensor& output, F each_run) {
  if (reduction == Reduction::kNone) {
    each_run([&](std::int64_t to, std::int64_t from, std::int64_t count) {
      copy_elements(updates, from, output, to, count);
    });
    return {};
  }
  return dispatch(NumericTypes{}, updates.type(), [&]<class T>() -> Status {
    each_run([&](std::int64_t to, std::int64_t from, std::int64_t count) {
      T* target = mutable_data_of<T>(output) + to;
      const T* source = data_of<T>(updates) + from;
      for (std::int64_t i = 0; i < count; ++i) target[i] = reduced(reduction, target[i], source[i]);
    });
    return {};
  });
}

Result<Tensor*> copy_of_data(KernelContext& context) {
  const Tensor* data = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(require_whole_bytes(*data));
  Tensor* output = CTXGEN_TRY(context.make_output(0, data->type(), data->dims()));
  copy_elements(*data, 0, *output, 0, data->element_count());
  return output;
}

Status run_scatter_elements(KernelContext& context, std::int64_t axis, Reduction reduction) {
  const Tensor* data = CTXGEN_TRY(required(context, 0));
  const Tensor* index_tensor = CTXGEN_TRY(required(context, 1));
  const Tensor* updates = CTXGEN_TRY(required(context, 2, data->type()));
  const std::size_t at = CTXGEN_TRY(normalize_axis(axis, data->rank()));
  const Dims& dims = index_tensor->dims();
  CTXGEN_CHECK(expect_rank(*index_tensor, "indices", data->rank(), data->rank()));
  CTXGEN_CHECK(expect_dims(*updates, "updates", dims));
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (i != at && dims[i] > data->dims()[i])
      return fail(ErrorCode::kInvalidGraph, "indices {} reach outside of {}", to_string(dims),
                  to_string(data->dims()));
  const auto indices = CTXGEN_TRY(checked_indices(*index_tensor, data->dims()[at]));
  Tensor* output = CTXGEN_TRY(copy_of_data(context));
  const Dims strides = strides_of(data->dims());
  return write_updates(reduction, *updates, *output, [&](auto put) {
    for (std::size_t p = 0; p < indices.size(); ++p) {
      std::int64_t to = indices[p] * strides[at];
      auto rest = static_cast<std::int64_t>(p);
      for (std::size_t i = dims.size(); i-- > 0;) {
        if (i != at) to += rest % dims[i] * strides[i];
        rest /= dims[i];
      }
      put(to, static_cast<std::int64_t>(p), 1);
    }
  });
}

KernelResult make_scatter_elements(const Node& node) {
  const Reduction reduction = CTXGEN_TRY(reduction_of(node));
  return kernel([reduction, axis = node.int_or("axis", 0)](KernelContext& context) {
    return run_scatter_elements(context, axis, reduction);
  });
}

// Offsets of the slices that the tuples of coordinates name.
Result<ScratchVector<std::int64_t>> slice_offsets(const Tensor& indices, const Dims& data) {
  const Dims strides = strides_of(data);
  const std::int64_t depth = indices.dims().back();
  ScratchVector<std::int64_t> offsets(
      static_cast<std::size_t>(product(indices.dims(), 0, indices.rank() - 1)), 0);
  const std::int64_t* coordinates = data_of<std::int64_t>(indices);
  for (std::int64_t& offset : offsets)
    for (std::size_t i = 0; i < static_cast<std::size_t>(depth); ++i) {
      const std::int64_t index = *coordinates++;
      if (index < -data[i] || index >= data[i])
        return fail(ErrorCode::kInvalidGraph, "index {} is outside of {}", index, data[i]);
      offset += (index < 0 ? index + data[i] : index) * strides[i];
    }
  return offsets;
}

Status run_scatter_nd(KernelContext& context, Reduction reduction) {
  const Tensor* data = CTXGEN_TRY(required(context, 0));
  const Tensor* indices = CTXGEN_TRY(required(context, 1, DataType::kInt64));
  const Tensor* updates = CTXGEN_TRY(required(context, 2, data->type()));
  CTXGEN_CHECK(expect_rank(*indices, "indices", 1));
  const std::int64_t depth = indices->dims().back();
  if (depth > static_cast<std::int64_t>(data->rank()))
    return fail(ErrorCode::kInvalidGraph, "{} coordinates for {}", depth, to_string(data->dims()));
  const auto at = static_cast<std::size_t>(depth);
  const std::int64_t slice = product(data->dims(), at, data->rank());
  const auto offsets = CTXGEN_TRY(slice_offsets(*indices, data->dims()));
  if (updates->element_count() != slice * static_cast<std::int64_t>(offsets.size()))
    return fail(ErrorCode::kInvalidGraph, "updates {} do not fit indices {} and data {}",
                to_string(updates->dims()), to_string(indices->dims()), to_string(data->dims()));
  Tensor* output = CTXGEN_TRY(copy_of_data(context));
  return write_updates(reduction, *updates, *output, [&](auto put) {
    for (std::size_t i = 0; i < offsets.size(); ++i)
      put(offsets[i], static_cast<std::int64_t>(i) * slice, slice);
  });
}

KernelResult make_scatter_nd(const Node& node) {
  const Reduction reduction = CTXGEN_TRY(reduction_of(node));
  return kernel([reduction](KernelContext& context) { return run_scatter_nd(context, reduction); });
}

// Opset 24: writes `update` into a cache along `axis`, from write_indices[batch] on.
KernelResult make_tensor_scatter(const Node& node) {
  const std::string mode = CTXGEN_TRY(one_of(node, "mode", "linear", {"linear", "circular"}));
  return kernel([axis = node.int_or("axis", -2),
                 circular = mode == "circular"](KernelContext& context) -> Status {
    const Tensor* past = CTXGEN_TRY(required(context, 0));
    const Tensor* update = CTXGEN_TRY(required(context, 1, past->type()));
    const Tensor* starts = optional_input(context, 2);
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, past->rank()));
    Dims expected = past->dims();
    if (update->rank() == past->rank()) expected[at] = update->dims()[at];
    CTXGEN_CHECK(expect_dims(*update, "update", expected));
    if (at == 0) return fail(ErrorCode::kInvalidGraph, "axis is the batch axis");
    ScratchVector<std::int64_t> first(static_cast<std::size_t>(past->dims()[0]), 0);
    if (starts != nullptr) {
      CTXGEN_CHECK(expect_dims(*starts, "write_indices", {past->dims()[0]}));
      first = CTXGEN_TRY(ints_of(*starts));
    }
    const std::int64_t extent = past->dims()[at];
    const std::int64_t length = update->dims()[at];
    if (extent == 0 && length > 0)
      return fail(ErrorCode::kInvalidGraph, "cannot write {} into nothing", length);
    for (std::int64_t start : first)
      if (start < 0 || start >= std::max<std::int64_t>(extent, 1) ||
          (!circular && length > extent - start))
        return fail(ErrorCode::kInvalidGraph, "cannot write {} at {} of {}", length, start, extent);
    Tensor* output = CTXGEN_TRY(copy_of_data(context));
    const AxisSplit split = split_at(past->dims(), at);
    const std::int64_t per_batch = past->dims()[0] == 0 ? 1 : split.outer / past->dims()[0];
    for (std::int64_t o = 0; o < split.outer; ++o)
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t to = (first[static_cast<std::size_t>(o / per_batch)] + i) % extent;
        copy_elements(*update, (o * length + i) * split.inner, *output,
                      (o * extent + to) * split.inner, split.inner);
      }
    return {};
  });
}

constexpr std::string_view kScatterTypes = "all types of a byte and more; reductions numeric";

constexpr OpRow kScatterRows[] = {
    {kOnnx, "Scatter", 9, 11, make_scatter_elements, kScatterTypes},
    {kOnnx, "ScatterElements", 11, 18, make_scatter_elements, kScatterTypes},
    {kOnnx, "ScatterND", 11, 18, make_scatter_nd, kScatterTypes},
    {kOnnx, "TensorScatter", 24, 24, make_tensor_scatter, kScatterTypes},
};

}  // namespace

constinit const std::span<const OpRow> kScatterOps = kScatterRows;

}  // namespace ctxgen::cpu
