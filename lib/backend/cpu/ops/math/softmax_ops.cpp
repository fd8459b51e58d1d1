#include <cmath>
#include <limits>

#include "families.h"
#include "kernel/widen.h"

namespace ctxgen::cpu {
namespace {

enum class Kind { kSoftmax, kLogSoftmax, kHardmax };

// One line of `count` elements, `stride` apart.
template <class T>
void softmax_line(Kind kind, const T* from, T* to, std::int64_t count, std::int64_t stride) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < count; ++i)
    if (from[i * stride] > from[best * stride]) best = i;
  if (kind == Kind::kHardmax) {
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = T(i == best ? 1 : 0);
    return;
  }
  const T most = from[best * stride];
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const T power = std::exp(from[i * stride] - most);
    sum += power;
    to[i * stride] = power;
  }
  if (kind == Kind::kSoftmax) {
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = static_cast<T>(to[i * stride] / sum);
    return;
  }
  const double shift = std::log(sum) + most;
  for (std::int64_t i = 0; i < count; ++i)
    to[i * stride] = static_cast<T>(from[i * stride] - shift);
}

// Before opset 13 everything from the axis on is one line.
Status run_softmax(KernelContext& context, Kind kind, std::int64_t axis, bool flatten) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  AxisSplit split;
  if (input->rank() != 0 || (axis != 0 && axis != -1)) {
    if (flatten && axis == static_cast<std::int64_t>(input->rank())) {
      split.outer = input->element_count();  // lines of one element
    } else {
      const std::size_t at = CTXGEN_TRY(normalize_axis(axis, input->rank()));
      split = split_at(input->dims(), at);
    }
  }
  if (flatten) {
    split.extent *= split.inner;
    split.inner = 1;
  }
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
  if (split.extent == 0) return {};
  return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
    for (std::int64_t o = 0; o < split.outer; ++o)
      for (std::int64_t i = 0; i < split.inner; ++i) {
        const std::int64_t start = o * split.extent * split.inner + i;
        softmax_line(kind, data_of<T>(*input) + start, mutable_data_of<T>(*output) + start,
                     split.extent, split.inner);
      }
    return {};
  });
}

template <Kind kKind>
KernelResult make(const Node& node) {
  const bool flatten = node.opset < 13;
  const std::int64_t axis = node.int_or("axis", flatten ? 1 : -1);
  return widened_kernel([axis, flatten](KernelContext& context) {
    return run_softmax(context, kKind, axis, flatten);
  });
}

constexpr std::string_view kSoftmaxTypes = "float, double, float16, bfloat16";

constexpr OpRow kSoftmaxRows[] = {
    {kOnnx, "Hardmax", 1, 13, make<Kind::kHardmax>, kSoftmaxTypes},
    {kOnnx, "LogSoftmax", 1, 13, make<Kind::kLogSoftmax>, kSoftmaxTypes},
    {kOnnx, "Softmax", 1, 13, make<Kind::kSoftmax>, kSoftmaxTypes},
};

}  // namespace

constinit const std::span<const OpRow> kSoftmaxOps = kSoftmaxRows;

}  // namespace ctxgen::cpu
