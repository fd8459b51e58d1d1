#include <algorithm>
#include <cmath>
#include <limits>

#include "families.h"
#include "kernel/attributes.h"
#include "tensors/strided_copy.h"

namespace ctxgen::cpu {
namespace {

struct ReduceParams {
  IntsParam axes;
  bool keep_dims = true;
  bool empty_is_noop = false;
};

// Integer arithmetic wraps instead of being undefined.
template <class A>
A wrap_add(A x, A y) {
  if constexpr (std::is_integral_v<A>)
    return static_cast<A>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
  else
    return x + y;
}
template <class A>
A wrap_mul(A x, A y) {
  if constexpr (std::is_integral_v<A>)
    return static_cast<A>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
  else
    return x * y;
}

// Reducers: A is the accumulator. `start` is also the result over no elements.
template <class A>
struct SumReducer {
  static constexpr A kStart = 0;
  static void add(A& sum, A x) { sum = wrap_add(sum, x); }
  static A finish(A sum, std::int64_t) { return sum; }
};
template <class A>
struct MeanReducer : SumReducer<A> {
  static A finish(A sum, std::int64_t count) {
    if constexpr (std::is_integral_v<A>)
      return count == 0 ? A(0) : static_cast<A>(sum / static_cast<A>(count));
    else
      return sum / static_cast<A>(count);
  }
};
template <class A>
struct ProdReducer {
  static constexpr A kStart = 1;
  static void add(A& value, A x) { value = wrap_mul(value, x); }
  static A finish(A value, std::int64_t) { return value; }
};
template <class A>
struct MaxReducer {
  static constexpr A kStart = std::numeric_limits<A>::has_infinity
                                  ? -std::numeric_limits<A>::infinity()
                                  : std::numeric_limits<A>::lowest();
  static void add(A& value, A x) {
    if (x != x || x > value) value = x;  // NaN wins: no later x is greater than it
  }
  static A finish(A value, std::int64_t) { return value; }
};
template <class A>
struct MinReducer {
  static constexpr A kStart = std::numeric_limits<A>::has_infinity
                                  ? std::numeric_limits<A>::infinity()
                                  : std::numeric_limits<A>::max();
  static void add(A& value, A x) {
    if (x != x || x < value) value = x;
  }
  static A finish(A value, std::int64_t) { return value; }
};
template <class A>
struct L1Reducer : SumReducer<A> {
  static void add(A& sum, A x) {
    sum = wrap_add(sum, x < A(0) ? wrap_mul(x, static_cast<A>(-1)) : x);
  }
};
template <class A>
struct SumSquareReducer : SumReducer<A> {
  static void add(A& sum, A x) { sum = wrap_add(sum, wrap_mul(x, x)); }
};
template <class A>
struct L2Reducer : SumSquareReducer<A> {
  static A finish(A sum, std::int64_t) { return store<A>(std::sqrt(static_cast<double>(sum))); }
};
template <class A>
struct LogSumReducer : SumReducer<A> {
  static A finish(A sum, std::int64_t) { return store<A>(std::log(static_cast<double>(sum))); }
};

// Input seen with the kept axes first: how far apart outputs are, and the elements of one output.
struct ReducePlan {
  Dims dims;                             // of the output
  ScratchVector<std::int64_t> kept;      // offset of the first element of each output
  ScratchVector<std::int64_t> elements;  // offsets of an output's other elements' rows
  std::int64_t row = 1, row_stride = 1;  // contiguous innermost run
};

void append_offsets(ScratchVector<std::int64_t>& offsets, std::int64_t extent,
                    std::int64_t stride) {
  ScratchVector<std::int64_t> result;
  result.reserve(offsets.size() * static_cast<std::size_t>(extent));
  for (std::int64_t offset : offsets)
    for (std::int64_t i = 0; i < extent; ++i) result.push_back(offset + i * stride);
  offsets = std::move(result);
}

ReducePlan plan_reduce(const Dims& input, const ScratchVector<bool>& reduced, bool keep_dims) {
  ReducePlan plan{.dims = {}, .kept = {0}, .elements = {0}};
  const Dims strides = strides_of(input);
  std::size_t last_reduced = input.size();
  for (std::size_t i = 0; i < input.size(); ++i)
    if (reduced[i]) last_reduced = i;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (!reduced[i]) {
      plan.dims.push_back(input[i]);
      append_offsets(plan.kept, input[i], strides[i]);
      continue;
    }
    if (keep_dims) plan.dims.push_back(1);
    if (i == last_reduced) {
      plan.row = input[i];
      plan.row_stride = strides[i];
    } else {
      append_offsets(plan.elements, input[i], strides[i]);
    }
  }
  return plan;
}

template <class T, template <class> class Reducer>
void reduce(const ReducePlan& plan, const Tensor& input, Tensor& output) {
  using A = Accumulate<T>;
  const T* from = data_of<T>(input);
  T* to = mutable_data_of<T>(output);
  const auto count = static_cast<std::int64_t>(plan.elements.size()) * plan.row;
  for (std::size_t k = 0; k < plan.kept.size(); ++k) {
    A value = Reducer<A>::kStart;
    for (std::int64_t offset : plan.elements) {
      const T* row = from + plan.kept[k] + offset;
      for (std::int64_t i = 0; i < plan.row; ++i)
        Reducer<A>::add(value, static_cast<A>(load(row[i * plan.row_stride])));
    }
    to[k] = store<T>(Reducer<A>::finish(value, count));
  }
}

// The maximum is taken out first, so that nothing overflows.
template <class T>
void reduce_log_sum_exp(const ReducePlan& plan, const Tensor& input, Tensor& output) {
  const T* from = data_of<T>(input);
  T* to = mutable_data_of<T>(output);
  for (std::size_t k = 0; k < plan.kept.size(); ++k) {
    double most = -std::numeric_limits<double>::infinity();
    double sum = 0;
    const auto each = [&](auto f) {
      for (std::int64_t offset : plan.elements)
        for (std::int64_t i = 0; i < plan.row; ++i)
          f(static_cast<double>(load(from[plan.kept[k] + offset + i * plan.row_stride])));
    };
    each([&](double x) { most = std::max(most, x); });
    const double shift = std::isfinite(most) ? most : 0.0;
    each([&](double x) { sum += std::exp(x - shift); });
    to[k] = store<T>(std::log(sum) + shift);
  }
}

// The marks of reduced axes, or nothing if the operator does nothing.
Result<std::optional<ScratchVector<bool>>> reduced_axes(const KernelContext& context,
                                                        const ReduceParams& params,
                                                        std::size_t rank) {
  const auto given = CTXGEN_TRY(params.axes.get(context));
  const bool none = !given || given->empty();
  if (none && params.empty_is_noop) return std::nullopt;
  ScratchVector<bool> reduced(rank, none);
  if (none) return std::optional(std::move(reduced));
  // A scalar has no axis; exporters name its first one, and ONNX Runtime takes that.
  const auto axes = CTXGEN_TRY(normalize_axes(*given, std::max<std::size_t>(rank, 1)));
  if (rank > 0)
    for (const std::size_t axis : axes) reduced[axis] = true;
  return std::optional(std::move(reduced));
}

template <class List, class Run>
Status run_reduce(KernelContext& context, const ReduceParams& params, Run run) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  auto reduced = CTXGEN_TRY(reduced_axes(context, params, input->rank()));
  // Without axes each element is reduced by itself (ReduceL1 still takes the absolute value).
  if (!reduced) reduced = ScratchVector<bool>(input->rank(), false);
  const ReducePlan plan = plan_reduce(input->dims(), *reduced, params.keep_dims);
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), plan.dims));
  return dispatch(List{}, input->type(), [&]<class T>() -> Status {
    run.template operator()<T>(plan, *input, *output);
    return {};
  });
}

ReduceParams reduce_params(const Node& node) {
  return {.axes = ints_param(node, "axes", 1),
          .keep_dims = node.int_or("keepdims", 1) != 0,
          .empty_is_noop = node.int_or("noop_with_empty_axes", 0) != 0};
}

template <class List, template <class> class Reducer>
KernelResult reduction(const Node& node) {
  return kernel([params = reduce_params(node)](KernelContext& context) {
    return run_reduce<List>(context, params,
                            []<class T>(const ReducePlan& plan, const Tensor& in, Tensor& out) {
                              reduce<T, Reducer>(plan, in, out);
                            });
  });
}

// Bools (opset 20) order as 0 and 1.
template <template <class> class Reducer>
KernelResult extremum(const Node& node) {
  return kernel([params = reduce_params(node)](KernelContext& context) {
    return run_reduce<NumericAndBoolTypes>(
        context, params, []<class T>(const ReducePlan& plan, const Tensor& in, Tensor& out) {
          if constexpr (std::is_same_v<T, Bit>)
            reduce<std::uint8_t, Reducer>(plan, in, out);
          else
            reduce<T, Reducer>(plan, in, out);
          if constexpr (std::is_same_v<T, Bit>)  // over nothing: False for Max, True for Min
            for (std::byte& byte : out.mutable_bytes()) byte = std::byte{byte != std::byte{0}};
        });
  });
}

KernelResult make_log_sum_exp(const Node& node) {
  return kernel([params = reduce_params(node)](KernelContext& context) {
    return run_reduce<NumericTypes>(
        context, params, []<class T>(const ReducePlan& plan, const Tensor& in, Tensor& out) {
          reduce_log_sum_exp<T>(plan, in, out);
        });
  });
}

constexpr std::string_view kNumeric = "numeric";

constexpr OpRow kReduceRows[] = {
    {kOnnx, "ReduceL1", 1, 18, reduction<NumericTypes, L1Reducer>, kNumeric},
    {kOnnx, "ReduceL2", 1, 18, reduction<NumericTypes, L2Reducer>, kNumeric},
    {kOnnx, "ReduceLogSum", 1, 18, reduction<NumericTypes, LogSumReducer>, kNumeric},
    {kOnnx, "ReduceLogSumExp", 1, 18, make_log_sum_exp, kNumeric},
    {kOnnx, "ReduceMax", 1, 20, extremum<MaxReducer>, "numeric, bool"},
    {kOnnx, "ReduceMean", 1, 18, reduction<NumericTypes, MeanReducer>, kNumeric},
    {kOnnx, "ReduceMin", 1, 20, extremum<MinReducer>, "numeric, bool"},
    {kOnnx, "ReduceProd", 1, 18, reduction<NumericTypes, ProdReducer>, kNumeric},
    {kOnnx, "ReduceSum", 1, 13, reduction<NumericTypes, SumReducer>, kNumeric},
    {kOnnx, "ReduceSumSquare", 1, 18, reduction<NumericTypes, SumSquareReducer>, kNumeric},
};

}  // namespace

constinit const std::span<const OpRow> kReduceOps = kReduceRows;

}  // namespace ctxgen::cpu
