#include <cmath>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "tensors/broadcast.h"
#include "tensors/legacy_broadcast.h"

namespace ctxgen::cpu {
namespace {

// Integer arithmetic wraps: it is done on unsigned numbers, where that is defined.
template <class T, class F>
T wrapping(T x, T y, F f) {
  using U = std::uint64_t;
  return static_cast<T>(f(static_cast<U>(x), static_cast<U>(y)));
}

constexpr auto kAdd = []<class T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>)
    return wrapping(x, y, std::plus<>{});
  else
    return x + y;
};
constexpr auto kSub = []<class T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>)
    return wrapping(x, y, std::minus<>{});
  else
    return x - y;
};
constexpr auto kMul = []<class T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>)
    return wrapping(x, y, std::multiplies<>{});
  else
    return x * y;
};
// Integer division by zero is undefined in ONNX; 0 here, as NumPy. The quotient truncates.
constexpr auto kDiv = []<class T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>) {
    if (y == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (y == T(-1)) return wrapping(T(0), x, std::minus<>{});
    return static_cast<T>(x / y);
  } else {
    return x / y;
  }
};
// NaN wins, as in NumPy's maximum and minimum.
constexpr auto kMax = []<class T>(T x, T y) -> T { return x != x || x > y ? x : y; };
constexpr auto kMin = []<class T>(T x, T y) -> T { return x != x || x < y ? x : y; };

// Remainder with the divisor's sign (fmod=0), or the dividend's (fmod=1).
constexpr auto kMod = []<class T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>) {
    if (y == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (y == T(-1)) return T(0);
      const T rest = static_cast<T>(x % y);
      return rest != 0 && (rest < 0) != (y < 0) ? static_cast<T>(rest + y) : rest;
    } else {
      return static_cast<T>(x % y);
    }
  } else {
    const T rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
};
constexpr auto kFmod = []<class T>(T x, T y) -> T {
  if constexpr (std::is_integral_v<T>) {
    if (y == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (y == T(-1)) return T(0);
    return static_cast<T>(x % y);
  } else {
    return std::fmod(x, y);
  }
};
constexpr auto kBitAnd = []<class T>(T x, T y) -> T { return static_cast<T>(x & y); };
constexpr auto kBitOr = []<class T>(T x, T y) -> T { return static_cast<T>(x | y); };
constexpr auto kBitXor = []<class T>(T x, T y) -> T { return static_cast<T>(x ^ y); };
// A shift by the width or more gives 0.
constexpr auto kShiftLeft = []<class T>(T x, T y) -> T {
  return y < sizeof(T) * 8 ? static_cast<T>(static_cast<std::uint64_t>(x) << y) : T(0);
};
constexpr auto kShiftRight = []<class T>(T x, T y) -> T {
  return y < sizeof(T) * 8 ? static_cast<T>(static_cast<std::uint64_t>(x) >> y) : T(0);
};

template <class T, class F>
void combine(const BroadcastPlan& plan, const Tensor& a, const Tensor& b, Tensor& output, F f) {
  for_each_row(plan, [&](const auto& offset, std::int64_t out) {
    combine_row(data_of<T>(a) + offset[0], plan.row_stride(0), data_of<T>(b) + offset[1],
                plan.row_stride(1), mutable_data_of<T>(output) + out, plan.row_length(),
                [f](T x, T y) { return store<T>(f(load(x), load(y))); });
  });
}

template <class List, class F>
Status run_binary(KernelContext& context, const LegacyBroadcast& legacy, F f) {
  const Tensor* a = CTXGEN_TRY(required(context, 0));
  const Tensor* b = CTXGEN_TRY(required(context, 1, a->type()));
  const Dims b_dims = CTXGEN_TRY(aligned_dims(legacy, a->dims(), b->dims()));
  const auto plan = CTXGEN_TRY(plan_broadcast({&a->dims(), &b_dims}));
  Tensor* output = CTXGEN_TRY(context.make_output(0, a->type(), plan.dims));
  return dispatch(List{}, a->type(), [&]<class T>() -> Status {
    combine<T>(plan, *a, *b, *output, f);
    return {};
  });
}

template <class List, auto F>
KernelResult binary(const Node& node) {
  return kernel([legacy = legacy_broadcast(node)](KernelContext& context) {
    return run_binary<List>(context, legacy, F);
  });
}

KernelResult make_mod(const Node& node) {
  if (node.int_or("fmod", 0) != 0) return binary<NumericTypes, kFmod>(node);
  return binary<NumericTypes, kMod>(node);
}

KernelResult make_bit_shift(const Node& node) {
  using Unsigned = Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
  const std::string direction = CTXGEN_TRY(one_of(node, "direction", "", {"LEFT", "RIGHT"}));
  return direction == "LEFT" ? binary<Unsigned, kShiftLeft>(node)
                             : binary<Unsigned, kShiftRight>(node);
}

// Integer powers by squaring, exact and wrapping; a negative exponent leaves only 1 and -1.
std::uint64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : ~std::uint64_t{0};
    return 0;
  }
  std::uint64_t result = 1;
  auto factor = static_cast<std::uint64_t>(base);
  for (auto left = static_cast<std::uint64_t>(exponent); left != 0; left >>= 1) {
    if ((left & 1) != 0) result *= factor;
    factor *= factor;
  }
  return result;
}

template <class T, class E>
T power(T base, E exponent) {
  using C = Compute<T>;
  const C x = load(base);
  if constexpr (std::is_integral_v<C> && std::is_integral_v<Compute<E>>)
    return static_cast<T>(
        integer_power(static_cast<std::int64_t>(x), static_cast<std::int64_t>(exponent)));
  else if constexpr (std::is_integral_v<C>)
    return static_cast<T>(saturated<std::int64_t>(
        std::pow(static_cast<double>(x), static_cast<double>(load(exponent)))));
  else if constexpr (std::is_same_v<C, float> && std::is_same_v<Compute<E>, float>)
    return store<T>(load(exponent) == 2.0f ? x * x : std::pow(x, load(exponent)));
  else
    return store<T>(std::pow(static_cast<double>(x), static_cast<double>(load(exponent))));
}

// The exponent may have a type of its own (opset 12).
Status run_pow(KernelContext& context, const LegacyBroadcast& legacy) {
  using Bases = Types<float, double, Half, Bf16, std::int32_t, std::int64_t>;
  const Tensor* a = CTXGEN_TRY(required(context, 0));
  const Tensor* b = CTXGEN_TRY(required(context, 1));
  const Dims b_dims = CTXGEN_TRY(aligned_dims(legacy, a->dims(), b->dims()));
  const auto plan = CTXGEN_TRY(plan_broadcast({&a->dims(), &b_dims}));
  Tensor* output = CTXGEN_TRY(context.make_output(0, a->type(), plan.dims));
  return dispatch(Bases{}, a->type(), [&]<class T>() -> Status {
    return dispatch(NumericTypes{}, b->type(), [&]<class E>() -> Status {
      for_each_row(plan, [&](const auto& offset, std::int64_t out) {
        combine_row(data_of<T>(*a) + offset[0], plan.row_stride(0), data_of<E>(*b) + offset[1],
                    plan.row_stride(1), mutable_data_of<T>(*output) + out, plan.row_length(),
                    power<T, E>);
      });
      return {};
    });
  });
}

KernelResult make_pow(const Node& node) {
  return kernel([legacy = legacy_broadcast(node)](KernelContext& context) {
    return run_pow(context, legacy);
  });
}

// Sum, Max, Min, Mean of any number of inputs, two at a time; 16-bit floats round once, at the end.
template <class T, class F>
Status fold_inputs(KernelContext& context, F f, bool mean) {
  using C = std::conditional_t<std::is_same_v<Compute<T>, T>, T, float>;
  const Tensor* first = CTXGEN_TRY(required(context, 0));
  Dims dims = first->dims();
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    const Tensor* input = CTXGEN_TRY(required(context, i, first->type()));
    dims = CTXGEN_TRY(broadcast_dims(dims, input->dims()));
  }
  Tensor* output = CTXGEN_TRY(context.make_output(0, first->type(), dims));
  ScratchVector<C> sum(static_cast<std::size_t>(output->element_count()));
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const Tensor& input = *context.input(i);
    const auto plan = CTXGEN_TRY(plan_broadcast({&dims, &input.dims()}));
    for_each_row(plan, [&](const auto& offset, std::int64_t out) {
      const T* from = data_of<T>(input) + offset[1];
      const std::int64_t stride = plan.row_stride(1);
      for (std::int64_t k = 0; k < plan.row_length(); ++k)
        sum[static_cast<std::size_t>(out + k)] =
            i == 0 ? load(from[k * stride])
                   : f(sum[static_cast<std::size_t>(out + k)], load(from[k * stride]));
    });
  }
  T* to = mutable_data_of<T>(*output);
  for (std::size_t k = 0; k < sum.size(); ++k)
    to[k] =
        store<T>(mean ? static_cast<C>(sum[k] / static_cast<C>(context.input_count())) : sum[k]);
  return {};
}

template <class List, auto F, bool kMean = false>
KernelResult variadic(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* first = CTXGEN_TRY(required(context, 0));
    return dispatch(List{}, first->type(),
                    [&]<class T>() { return fold_inputs<T>(context, F, kMean); });
  });
}

constexpr std::string_view kNumeric = "numeric";
constexpr std::string_view kInts = "integers";

constexpr OpRow kElementwiseBinaryRows[] = {
    {kOnnx, "Add", 1, 14, binary<NumericTypes, kAdd>, kNumeric},
    {kOnnx, "BitShift", 11, 11, make_bit_shift, "unsigned integers"},
    {kOnnx, "BitwiseAnd", 18, 18, binary<IntTypes, kBitAnd>, kInts},
    {kOnnx, "BitwiseOr", 18, 18, binary<IntTypes, kBitOr>, kInts},
    {kOnnx, "BitwiseXor", 18, 18, binary<IntTypes, kBitXor>, kInts},
    {kOnnx, "Div", 1, 14, binary<NumericTypes, kDiv>, kNumeric},
    {kOnnx, "Max", 1, 13, variadic<NumericTypes, kMax>, kNumeric},
    {kOnnx, "Mean", 1, 13, variadic<RealTypes, kAdd, true>, "float, double, float16, bfloat16"},
    {kOnnx, "Min", 1, 13, variadic<NumericTypes, kMin>, kNumeric},
    {kOnnx, "Mod", 10, 13, make_mod, kNumeric},
    {kOnnx, "Mul", 1, 14, binary<NumericTypes, kMul>, kNumeric},
    {kOnnx, "Pow", 1, 15, make_pow, "base: floats, int32, int64; exponent: numeric"},
    {kOnnx, "Sub", 1, 14, binary<NumericTypes, kSub>, kNumeric},
    {kOnnx, "Sum", 1, 13, variadic<RealTypes, kAdd>, "float, double, float16, bfloat16"},
};

}  // namespace

constinit const std::span<const OpRow> kElementwiseBinaryOps = kElementwiseBinaryRows;

}  // namespace ctxgen::cpu
