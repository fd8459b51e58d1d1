#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "kernel/stop.h"

namespace ctxgen::cpu {
namespace {

// ---- ArgMax, ArgMin ----

struct ArgParams {
  std::int64_t axis = 0;
  bool keep_dims = true, last = false, greatest = true;
};

template <class T>
std::int64_t best_of(const T* line, std::int64_t count, std::int64_t stride,
                     const ArgParams& params) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < count; ++i) {
    const auto x = load(line[i * stride]);
    const auto y = load(line[best * stride]);
    const bool better = params.greatest ? x > y : x < y;
    if (better || (params.last && x == y)) best = i;
  }
  return best;
}

Status run_arg(KernelContext& context, const ArgParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  // A scalar has no axis; ONNX Runtime takes the first one all the same.
  const std::size_t rank = std::max<std::size_t>(input->rank(), 1);
  const std::size_t at = CTXGEN_TRY(normalize_axis(params.axis, rank));
  const AxisSplit split = split_at(input->dims(), at);
  if (split.extent == 0) return fail(ErrorCode::kInvalidGraph, "axis {} is empty", at);
  Dims dims;
  for (std::size_t i = 0; i < input->rank(); ++i) {
    if (i != at) dims.push_back(input->dims()[i]);
    if (i == at && params.keep_dims) dims.push_back(1);
  }
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kInt64, dims));
  return dispatch(NumericTypes{}, input->type(), [&]<class T>() -> Status {
    std::int64_t* to = mutable_data_of<std::int64_t>(*output);
    for (std::int64_t o = 0; o < split.outer; ++o)
      for (std::int64_t i = 0; i < split.inner; ++i)
        *to++ = best_of(data_of<T>(*input) + o * split.extent * split.inner + i, split.extent,
                        split.inner, params);
    return {};
  });
}

template <bool kGreatest>
KernelResult make_arg(const Node& node) {
  const ArgParams params{.axis = node.int_or("axis", 0),
                         .keep_dims = node.int_or("keepdims", 1) != 0,
                         .last = node.int_or("select_last_index", 0) != 0,
                         .greatest = kGreatest};
  return kernel([params](KernelContext& context) { return run_arg(context, params); });
}

// ---- TopK ----

struct TopKParams {
  std::int64_t axis = -1;
  IntParam k;
  bool largest = true;
};

// Whether x comes before y; NaN counts as the greatest number, so that the order stays one.
template <class V>
bool greater(V x, V y) {
  if constexpr (std::is_floating_point_v<V>)
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && !std::isnan(y);
  return x > y;
}

// Equal elements keep the order of their indices.
template <class T>
void top_k_line(const T* from, std::int64_t stride, ScratchVector<std::int64_t>& order,
                std::int64_t k, bool largest) {
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      const auto x = load(from[a * stride]);
                      const auto y = load(from[b * stride]);
                      if (greater(x, y)) return largest;
                      if (greater(y, x)) return !largest;
                      return a < b;
                    });
}

Status run_top_k(KernelContext& context, const TopKParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const std::size_t at = CTXGEN_TRY(normalize_axis(params.axis, input->rank()));
  const auto given = CTXGEN_TRY(params.k.get(context));
  const AxisSplit split = split_at(input->dims(), at);
  const std::int64_t k = given.value_or(-1);
  if (k < 0 || k > split.extent)
    return fail(ErrorCode::kInvalidGraph, "k is {} on an axis of {}", k, split.extent);
  Dims dims = input->dims();
  dims[at] = k;
  Tensor* values = CTXGEN_TRY(context.make_output(0, input->type(), dims));
  Tensor* indices = nullptr;
  if (context.output_wanted(1))
    indices = CTXGEN_TRY(context.make_output(1, DataType::kInt64, dims));
  return dispatch(NumericTypes{}, input->type(), [&]<class T>() -> Status {
    ScratchVector<std::int64_t> order(static_cast<std::size_t>(split.extent));
    for (std::int64_t line = 0; line < split.outer * split.inner; ++line) {
      const std::int64_t o = line / split.inner;
      const std::int64_t i = line % split.inner;
      const T* from = data_of<T>(*input) + o * split.extent * split.inner + i;
      top_k_line(from, split.inner, order, k, params.largest);
      for (std::int64_t r = 0; r < k; ++r) {
        const std::int64_t to = (o * k + r) * split.inner + i;
        const std::int64_t index = order[static_cast<std::size_t>(r)];
        mutable_data_of<T>(*values)[to] = from[index * split.inner];
        if (indices != nullptr) mutable_data_of<std::int64_t>(*indices)[to] = index;
      }
    }
    return {};
  });
}

// The order of the results is unspecified where sorted=0; the sorted one serves.
KernelResult make_top_k(const Node& node) {
  const TopKParams params{.axis = node.int_or("axis", -1),
                          .k = int_param(node, "k", 1),
                          .largest = node.int_or("largest", 1) != 0};
  return kernel([params](KernelContext& context) { return run_top_k(context, params); });
}

// ---- NonZero ----

KernelResult make_non_zero(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    ScratchVector<std::int64_t> found;
    CTXGEN_CHECK(dispatch(NumericAndBoolTypes{}, input->type(), [&]<class T>() -> Status {
      const std::int64_t count = input->element_count();
      for (std::int64_t i = 0; i < count; ++i)
        if (load(data_of<T>(*input)[i]) != Compute<T>(0)) found.push_back(i);
      return {};
    }));
    const auto count = static_cast<std::int64_t>(found.size());
    // A scalar counts as one axis.
    const Dims dims = input->rank() == 0 ? Dims{1} : input->dims();
    Tensor* output = CTXGEN_TRY(
        context.make_output(0, DataType::kInt64, {static_cast<std::int64_t>(dims.size()), count}));
    std::int64_t* to = mutable_data_of<std::int64_t>(*output);
    for (std::int64_t k = 0; k < count; ++k) {
      std::int64_t rest = found[static_cast<std::size_t>(k)];
      for (std::size_t i = dims.size(); i-- > 0;) {
        to[static_cast<std::int64_t>(i) * count + k] = rest % dims[i];
        rest /= dims[i];
      }
    }
    return {};
  });
}

// ---- CumSum, CumProd ----

/// Combines the elements before each one, and it unless `exclusive`, with Combine, beginning with `first`.
template <class Combine>
KernelResult cumulative(const Node& node, int first) {
  return kernel([first, exclusive = node.int_or("exclusive", 0) != 0,
                 reverse = node.int_or("reverse", 0) != 0](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const Tensor* axis_tensor = CTXGEN_TRY(required(context, 1));
    const std::int64_t axis = CTXGEN_TRY(scalar_int_of(*axis_tensor));
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, input->rank()));
    const AxisSplit split = split_at(input->dims(), at);
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
    return dispatch(NumericTypes{}, input->type(), [&]<class T>() -> Status {
      // Integers wrap, so they are combined as unsigned.
      using A = std::conditional_t<kIsFloating<T>, double, std::uint64_t>;
      for (std::int64_t line = 0; line < split.outer * split.inner; ++line) {
        const std::int64_t start =
            line / split.inner * split.extent * split.inner + line % split.inner;
        A sofar = static_cast<A>(first);
        for (std::int64_t k = 0; k < split.extent; ++k) {
          const std::int64_t i = start + (reverse ? split.extent - 1 - k : k) * split.inner;
          const A x = static_cast<A>(load(data_of<T>(*input)[i]));
          if (exclusive) mutable_data_of<T>(*output)[i] = store<T>(sofar);
          sofar = Combine{}(sofar, x);
          if (!exclusive) mutable_data_of<T>(*output)[i] = store<T>(sofar);
        }
      }
      return {};
    });
  });
}

KernelResult make_cum_sum(const Node& node) { return cumulative<std::plus<>>(node, 0); }
KernelResult make_cum_prod(const Node& node) { return cumulative<std::multiplies<>>(node, 1); }

// ---- NonMaxSuppression ----

struct Box {
  float y1, x1, y2, x2;
};

Box box_at(const float* data, bool centre) {
  if (centre)
    return {data[1] - data[3] / 2, data[0] - data[2] / 2, data[1] + data[3] / 2,
            data[0] + data[2] / 2};
  return {std::min(data[0], data[2]), std::min(data[1], data[3]), std::max(data[0], data[2]),
          std::max(data[1], data[3])};
}

bool overlaps(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const float width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0) return false;
  const float both = height * width;
  const float area = (a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - both;
  return area > 0 && both / area > threshold;
}

struct NmsParams {
  std::int64_t most = 0;
  float overlap = 0;
  std::optional<float> score;
  bool centre = false;
};

ScratchVector<std::int64_t> kept_boxes(const float* boxes, std::span<const float> scores,
                                       const NmsParams& params) {
  ScratchVector<std::int64_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (!params.score || scores[i] > *params.score) order.push_back(static_cast<std::int64_t>(i));
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    return greater(scores[static_cast<std::size_t>(a)], scores[static_cast<std::size_t>(b)]);
  });
  ScratchVector<std::int64_t> kept;
  for (std::int64_t candidate : order) {
    if (static_cast<std::int64_t>(kept.size()) >= params.most || run_stopped()) break;
    const Box box = box_at(boxes + candidate * 4, params.centre);
    const bool suppressed = std::ranges::any_of(kept, [&](std::int64_t other) {
      return overlaps(box, box_at(boxes + other * 4, params.centre), params.overlap);
    });
    if (!suppressed) kept.push_back(candidate);
  }
  return kept;
}

Status run_nms(KernelContext& context, bool centre) {
  const Tensor* boxes = CTXGEN_TRY(required(context, 0, DataType::kFloat));
  const Tensor* scores = CTXGEN_TRY(required(context, 1, DataType::kFloat));
  CTXGEN_CHECK(expect_rank(*boxes, "boxes", 3, 3));
  CTXGEN_CHECK(expect_rank(*scores, "scores", 3, 3));
  const std::int64_t count = boxes->dims()[1];
  CTXGEN_CHECK(expect_dims(*boxes, "boxes", {scores->dims()[0], scores->dims()[2], 4}));
  NmsParams params{.most = 0, .overlap = 0, .score = std::nullopt, .centre = centre};
  if (const Tensor* most = optional_input(context, 2))
    params.most = CTXGEN_TRY(scalar_int_of(*most));
  if (const Tensor* t = optional_input(context, 3))
    params.overlap = static_cast<float>(CTXGEN_TRY(scalar_of(*t)));
  if (const Tensor* t = optional_input(context, 4))
    params.score = static_cast<float>(CTXGEN_TRY(scalar_of(*t)));
  ScratchVector<std::int64_t> selected;
  for (std::int64_t b = 0; b < scores->dims()[0]; ++b)
    for (std::int64_t c = 0; c < scores->dims()[1]; ++c) {
      const auto line = scores->elements<float>().subspan(
          static_cast<std::size_t>((b * scores->dims()[1] + c) * count),
          static_cast<std::size_t>(count));
      for (std::int64_t box : kept_boxes(data_of<float>(*boxes) + b * count * 4, line, params))
        selected.insert(selected.end(), {b, c, box});
    }
  Tensor* output = CTXGEN_TRY(context.make_output(
      0, DataType::kInt64, {static_cast<std::int64_t>(selected.size() / 3), 3}));
  std::ranges::copy(selected, output->mutable_elements<std::int64_t>().begin());
  return {};
}

KernelResult make_nms(const Node& node) {
  return kernel([centre = node.int_or("center_point_box", 0) != 0](KernelContext& context) {
    return run_nms(context, centre);
  });
}

constexpr OpRow kSearchRows[] = {
    {kOnnx, "ArgMax", 1, 13, make_arg<true>, "numeric"},
    {kOnnx, "ArgMin", 1, 13, make_arg<false>, "numeric"},
    {kOnnx, "CumProd", 26, 26, make_cum_prod, "numeric"},
    {kOnnx, "CumSum", 11, 14, make_cum_sum, "numeric"},
    {kOnnx, "NonMaxSuppression", 10, 11, make_nms, "float"},
    {kOnnx, "NonZero", 9, 13, make_non_zero, "numeric, bool"},
    {kOnnx, "TopK", 1, 24, make_top_k, "numeric"},
};

}  // namespace

constinit const std::span<const OpRow> kSearchOps = kSearchRows;

}  // namespace ctxgen::cpu
