#include <functional>

#include "families.h"
#include "tensors/broadcast.h"
#include "tensors/legacy_broadcast.h"

namespace ctxgen::cpu {
namespace {

template <class List, class F>
Status run_comparison(KernelContext& context, const LegacyBroadcast& legacy, F f) {
  const Tensor* a = CTXGEN_TRY(required(context, 0));
  const Tensor* b = CTXGEN_TRY(required(context, 1, a->type()));
  const Dims b_dims = CTXGEN_TRY(aligned_dims(legacy, a->dims(), b->dims()));
  const auto plan = CTXGEN_TRY(plan_broadcast({&a->dims(), &b_dims}));
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kBool, plan.dims));
  return dispatch(List{}, a->type(), [&]<class T>() -> Status {
    for_each_row(plan, [&](const auto& offset, std::int64_t out) {
      combine_row(data_of<T>(*a) + offset[0], plan.row_stride(0), data_of<T>(*b) + offset[1],
                  plan.row_stride(1), mutable_data_of<Bit>(*output) + out, plan.row_length(),
                  [f](const T& x, const T& y) {
                    if constexpr (std::is_same_v<T, std::string>)
                      return Bit(f(x, y));
                    else
                      return Bit(f(load(x), load(y)));
                  });
    });
    return {};
  });
}

template <class List, class F>
KernelResult comparison(const Node& node) {
  return kernel([legacy = legacy_broadcast(node)](KernelContext& context) {
    return run_comparison<List>(context, legacy, F{});
  });
}

struct Equal {
  bool operator()(const auto& x, const auto& y) const { return x == y; }
};

KernelResult make_equal(const Node& node) {
  return kernel([legacy = legacy_broadcast(node)](KernelContext& context) -> Status {
    const Tensor* a = CTXGEN_TRY(required(context, 0));
    if (a->is_string()) return run_comparison<Types<std::string>>(context, legacy, Equal{});
    return run_comparison<NumericAndBoolTypes>(context, legacy, Equal{});
  });
}

using BoolType = Types<Bit>;
struct Xor {
  bool operator()(bool x, bool y) const { return x != y; }
};

constexpr OpRow kLogicRows[] = {
    {kOnnx, "And", 1, 7, comparison<BoolType, std::logical_and<>>, "bool"},
    {kOnnx, "Equal", 1, 19, make_equal, "numeric, bool, string"},
    {kOnnx, "Greater", 1, 13, comparison<NumericTypes, std::greater<>>, "numeric"},
    {kOnnx, "GreaterOrEqual", 12, 16, comparison<NumericTypes, std::greater_equal<>>, "numeric"},
    {kOnnx, "Less", 1, 13, comparison<NumericTypes, std::less<>>, "numeric"},
    {kOnnx, "LessOrEqual", 12, 16, comparison<NumericTypes, std::less_equal<>>, "numeric"},
    {kOnnx, "Or", 1, 7, comparison<BoolType, std::logical_or<>>, "bool"},
    {kOnnx, "Xor", 1, 7, comparison<BoolType, Xor>, "bool"},
};

}  // namespace

constinit const std::span<const OpRow> kLogicOps = kLogicRows;

}  // namespace ctxgen::cpu
