#include <algorithm>
#include <cmath>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"

namespace ctxgen::cpu {
namespace {

/// Sums of the elements that share their place on the axes that are kept.
struct ChannelMoments {
  ScratchVector<double> sum, squares;
};

// Calls f(element, group) for all elements; groups are row-major over the kept axes.
template <class F>
void for_each_in_group(const Dims& dims, const ScratchVector<std::size_t>& reduced, F f) {
  Dims strides(dims.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;)
    if (!std::ranges::binary_search(reduced, i)) {
      strides[i] = stride;
      stride *= dims[i];
    }
  Dims position(dims.size(), 0);
  std::int64_t group = 0;
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    f(i, static_cast<std::size_t>(group));
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      group += strides[axis];
      if (++position[axis] < dims[axis]) break;
      group -= strides[axis] * dims[axis];
      position[axis] = 0;
    }
  }
}

template <class T>
void normalize(const Tensor& input, const ScratchVector<std::size_t>& axes, Tensor& output) {
  const Dims& dims = input.dims();
  std::int64_t group_size = 1;
  for (std::size_t axis : axes) group_size *= dims[axis];
  const auto groups = static_cast<std::size_t>(input.element_count() / group_size);
  const T* from = data_of<T>(input);
  ChannelMoments moments{ScratchVector<double>(groups), ScratchVector<double>(groups)};
  for_each_in_group(dims, axes, [&](std::int64_t i, std::size_t g) {
    moments.sum[g] += static_cast<double>(load(from[i]));
  });
  for (double& sum : moments.sum) sum /= static_cast<double>(group_size);
  for_each_in_group(dims, axes, [&](std::int64_t i, std::size_t g) {
    const double distance = static_cast<double>(load(from[i])) - moments.sum[g];
    moments.squares[g] += distance * distance;
  });
  // The operator's function body adds 1e-9 to the deviation.
  for (double& squares : moments.squares)
    squares = std::sqrt(squares / static_cast<double>(group_size)) + 1e-9;
  for_each_in_group(dims, axes, [&](std::int64_t i, std::size_t g) {
    mutable_data_of<T>(output)[i] =
        store<T>((static_cast<double>(load(from[i])) - moments.sum[g]) / moments.squares[g]);
  });
}

// Before opset 9, when it was an experiment, the axes had two names.
Result<std::vector<std::int64_t>> axes_of(const Node& node) {
  if (node.opset >= 9) return ints_or(node, "axes", {0, 2, 3});
  if (node.int_or("normalize_variance", 1) == 0)
    return fail(ErrorCode::kUnsupported, "{}: normalize_variance is 0", node.describe());
  if (node.int_or("across_channels", 0) != 0) return std::vector<std::int64_t>{0, 1, 2, 3};
  return std::vector<std::int64_t>{0, 2, 3};
}

KernelResult make_mvn(const Node& node) {
  return kernel([given = CTXGEN_TRY(axes_of(node))](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const auto axes = CTXGEN_TRY(normalize_axes(given, input->rank()));
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
    if (input->element_count() == 0) return {};
    return dispatch(RealTypes{}, input->type(), [&]<class T>() -> Status {
      normalize<T>(*input, axes, *output);
      return {};
    });
  });
}

constexpr OpRow kMeanVarianceRows[] = {
    {kOnnx, "MeanVarianceNormalization", 1, 13, make_mvn, "floats; any axes"},
};

}  // namespace

constinit const std::span<const OpRow> kMeanVarianceOps = kMeanVarianceRows;

}  // namespace ctxgen::cpu
