#include "tensors/broadcast.h"

#include <algorithm>

namespace ctxgen::cpu {

Result<Dims> broadcast_dims(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return fail(ErrorCode::kInvalidGraph, "shapes {} and {} do not broadcast", to_string(a),
                  to_string(b));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

namespace {

// Stride of `input` in the output's axis `axis`: 0 where it repeats.
std::int64_t stride_at(const Dims& input, const Dims& output, std::size_t axis) {
  const std::size_t missing = output.size() - input.size();
  if (axis < missing || input[axis - missing] == 1) return 0;
  std::int64_t stride = 1;
  for (std::size_t i = axis - missing + 1; i < input.size(); ++i) stride *= input[i];
  return stride;
}

}  // namespace

Result<BroadcastPlan> plan_broadcast(std::initializer_list<const Dims*> inputs) {
  CTXGEN_ASSERT(inputs.size() <= kMaxBroadcastInputs);
  BroadcastPlan plan;
  for (const Dims* dims : inputs) plan.dims = CTXGEN_TRY(broadcast_dims(plan.dims, *dims));
  if (!checked_element_count(plan.dims))
    return fail(ErrorCode::kResourceLimit, "the result {} is too large", to_string(plan.dims));
  for (std::size_t axis = 0; axis < plan.dims.size(); ++axis) {
    const std::int64_t extent = plan.dims[axis];
    if (extent == 1) continue;
    std::array<std::int64_t, kMaxBroadcastInputs> stride{};
    std::size_t k = 0;
    for (const Dims* dims : inputs) stride[k++] = stride_at(*dims, plan.dims, axis);
    bool merges = plan.loops > 0;
    for (k = 0; merges && k < inputs.size(); ++k)
      merges = plan.stride[plan.loops - 1][k] == stride[k] * extent;
    if (merges) {
      plan.extent[plan.loops - 1] *= extent;
      plan.stride[plan.loops - 1] = stride;
    } else {
      plan.extent[plan.loops] = extent;
      plan.stride[plan.loops++] = stride;
    }
  }
  return plan;
}

}  // namespace ctxgen::cpu
