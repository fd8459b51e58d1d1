#include <cmath>
#include <numbers>

#include "families.h"
#include "tensors/map_elements.h"

namespace ctxgen::cpu {
namespace {

template <class List, auto F>
KernelResult unary(const Node&) {
  return map_kernel<List>(F);
}

// abs and negation of the most negative integer wrap, as in NumPy.
constexpr auto kNegate = []<class T>(T x) -> T {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
  else
    return -x;
};
constexpr auto kAbs = []<class T>(T x) -> T {
  if constexpr (std::is_unsigned_v<T>)
    return x;
  else if constexpr (std::is_integral_v<T>)
    return x < 0 ? kNegate(x) : x;
  else
    return std::abs(x);
};
constexpr auto kSign = []<class T>(T x) -> T {
  if (x != x) return x;
  return static_cast<T>((x > T(0) ? 1 : 0) - (x < T(0) ? 1 : 0));
};
// Halves go to the even neighbour: the default rounding mode, which nothing here changes.
constexpr auto kRound = [](auto x) { return std::nearbyint(x); };
// Of float in double and rounded: glibc 2.43 has new versions of these functions of float, which programs then ask for by number, and
// systems that could run them otherwise lack.
template <auto F>
constexpr auto kInDouble =
    []<class T>(T x) -> T { return static_cast<T>(F(static_cast<double>(x))); };
constexpr auto kBitwiseNot = []<class T>(T x) -> T { return static_cast<T>(~x); };

KernelResult make_not(const Node&) {
  return map_kernel<Types<Bit>>([](bool x) { return !x; });
}

// For the operators from float to bool.
template <class F>
Status test_elements(KernelContext& context, const F& f) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kBool, input->dims()));
  return dispatch(RealTypes{}, input->type(), [&]<class T>() -> Status {
    const T* from = data_of<T>(*input);
    Bit* to = mutable_data_of<Bit>(*output);
    const std::int64_t count = input->element_count();
    for (std::int64_t i = 0; i < count; ++i) to[i] = Bit(f(load(from[i])));
    return {};
  });
}

KernelResult make_is_nan(const Node&) {
  return kernel([](KernelContext& context) {
    return test_elements(context, [](auto x) { return std::isnan(x); });
  });
}

KernelResult make_is_inf(const Node& node) {
  const bool positive = node.int_or("detect_positive", 1) != 0;
  const bool negative = node.int_or("detect_negative", 1) != 0;
  return kernel([positive, negative](KernelContext& context) {
    return test_elements(context, [positive, negative](auto x) {
      return std::isinf(x) && (x > 0 ? positive : negative);
    });
  });
}

constexpr std::string_view kReal = "float, double, float16, bfloat16";

constexpr OpRow kElementwiseUnaryRows[] = {
    {kOnnx, "Abs", 1, 13, unary<NumericTypes, kAbs>, "numeric"},
    {kOnnx, "Acos", 7, 22, unary<RealTypes, kInDouble<[](double x) { return std::acos(x); }>>,
     kReal},
    {kOnnx, "Acosh", 9, 22, unary<RealTypes, kInDouble<[](double x) { return std::acosh(x); }>>,
     kReal},
    {kOnnx, "Asin", 7, 22, unary<RealTypes, kInDouble<[](double x) { return std::asin(x); }>>,
     kReal},
    {kOnnx, "Asinh", 9, 22, unary<RealTypes, [](auto x) { return std::asinh(x); }>, kReal},
    {kOnnx, "Atan", 7, 22, unary<RealTypes, [](auto x) { return std::atan(x); }>, kReal},
    {kOnnx, "Atanh", 9, 22, unary<RealTypes, kInDouble<[](double x) { return std::atanh(x); }>>,
     kReal},
    {kOnnx, "BitwiseNot", 18, 18, unary<IntTypes, kBitwiseNot>, "integers"},
    {kOnnx, "Ceil", 1, 13, unary<RealTypes, [](auto x) { return std::ceil(x); }>, kReal},
    {kOnnx, "Cos", 7, 22, unary<RealTypes, [](auto x) { return std::cos(x); }>, kReal},
    {kOnnx, "Cosh", 9, 22, unary<RealTypes, kInDouble<[](double x) { return std::cosh(x); }>>,
     kReal},
    {kOnnx, "Erf", 9, 13, unary<RealTypes, [](auto x) { return std::erf(x); }>, kReal},
    {kOnnx, "Exp", 1, 13, unary<RealTypes, [](auto x) { return std::exp(x); }>, kReal},
    {kOnnx, "Floor", 1, 13, unary<RealTypes, [](auto x) { return std::floor(x); }>, kReal},
    {kOnnx, "IsInf", 10, 20, make_is_inf, kReal},
    {kOnnx, "IsNaN", 9, 20, make_is_nan, kReal},
    {kOnnx, "Log", 1, 13, unary<RealTypes, [](auto x) { return std::log(x); }>, kReal},
    {kOnnx, "Neg", 1, 13, unary<SignedTypes, kNegate>, "signed numeric"},
    {kOnnx, "Not", 1, 1, make_not, "bool"},
    {kOnnx, "Reciprocal", 1, 13, unary<RealTypes, [](auto x) { return 1 / x; }>, kReal},
    {kOnnx, "Round", 11, 22, unary<RealTypes, kRound>, kReal},
    {kOnnx, "Sign", 9, 13, unary<NumericTypes, kSign>, "numeric"},
    {kOnnx, "Sin", 7, 22, unary<RealTypes, [](auto x) { return std::sin(x); }>, kReal},
    {kOnnx, "Sinh", 9, 22, unary<RealTypes, kInDouble<[](double x) { return std::sinh(x); }>>,
     kReal},
    {kOnnx, "Sqrt", 1, 13, unary<RealTypes, kInDouble<[](double x) { return std::sqrt(x); }>>,
     kReal},
    {kOnnx, "Tan", 7, 22, unary<RealTypes, [](auto x) { return std::tan(x); }>, kReal},
    {kOnnx, "Tanh", 1, 13, unary<RealTypes, [](auto x) { return std::tanh(x); }>, kReal},
};

}  // namespace

constinit const std::span<const OpRow> kElementwiseUnaryOps = kElementwiseUnaryRows;

}  // namespace ctxgen::cpu
