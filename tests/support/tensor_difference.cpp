#include "tensor_difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <format>

#include "ctxgen/base/half.h"

namespace ctxgen {
namespace {

struct Tolerance {
  double relative, absolute;
};

/// Elements of any alignment: expected tensors lie in a mapped file.
template <class T>
T element(const Tensor& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes().data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T, class Widen>
std::string compare_floats(const Tensor& actual, const Tensor& expected, Tolerance tolerance,
                           Widen widen) {
  for (std::size_t i = 0; i < expected.bytes().size() / sizeof(T); ++i) {
    const double x = widen(element<T>(actual, i));
    const double y = widen(element<T>(expected, i));
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= tolerance.absolute + tolerance.relative * std::abs(y)))
      return std::format("element {} is {}, expected {}", i, x, y);
  }
  return {};
}

std::string compare_bytes(const Tensor& actual, const Tensor& expected) {
  const auto a = actual.bytes();
  const auto e = expected.bytes();
  const auto [x, y] = std::ranges::mismatch(a, e);
  if (x == a.end()) return {};
  return std::format("byte {} is {}, expected {}", x - a.begin(), std::to_integer<int>(*x),
                     std::to_integer<int>(*y));
}

}  // namespace

std::string difference_of_form(const Tensor& actual, const Tensor& expected) {
  if (actual.type() != expected.type())
    return std::format("is {}, expected {}", name_of(actual.type()), name_of(expected.type()));
  if (!(actual.dims() == expected.dims()))
    return std::format("has shape {}, expected {}", to_string(actual.dims()),
                       to_string(expected.dims()));
  return {};
}

bool is_random_operator(std::string_view op_type) {
  constexpr std::string_view kRandom[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                          "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  return std::ranges::find(kRandom, op_type) != std::end(kRandom);
}

std::string difference(const Tensor& actual, const Tensor& expected) {
  if (std::string form = difference_of_form(actual, expected); !form.empty()) return form;
  const auto same = [](auto x) { return static_cast<double>(x); };
  switch (expected.type()) {
    case DataType::kFloat: return compare_floats<float>(actual, expected, {1e-3, 1e-5}, same);
    case DataType::kDouble: return compare_floats<double>(actual, expected, {1e-3, 1e-7}, same);
    // 16-bit floats: one step of their own precision beside the common tolerance, for results that
    // the reference computed in another order or precision.
    case DataType::kFloat16:
      return compare_floats<std::uint16_t>(actual, expected, {2e-3, 1e-3},
                                           [](auto x) { return double(float16_to_float(x)); });
    case DataType::kBfloat16:
      return compare_floats<std::uint16_t>(actual, expected, {1e-2, 1e-3},
                                           [](auto x) { return double(bfloat16_to_float(x)); });
    case DataType::kComplex64: return compare_floats<float>(actual, expected, {1e-3, 1e-5}, same);
    case DataType::kComplex128: return compare_floats<double>(actual, expected, {1e-3, 1e-7}, same);
    case DataType::kString:
      return std::ranges::equal(actual.strings(), expected.strings()) ? "" : "strings differ";
    default: return compare_bytes(actual, expected);
  }
}

std::string difference(const RuntimeValue& actual, const RuntimeValue& expected) {
  using Kind = RuntimeValue::Kind;
  if (actual.kind() != expected.kind())
    return std::format("is {}, expected {}", describe(actual), describe(expected));
  if (expected.is_tensor()) return difference(actual.tensor(), expected.tensor());
  if (expected.kind() == Kind::kMap) {
    const std::string keys = difference(actual.map().keys, expected.map().keys);
    return keys.empty() ? difference(actual.map().values, expected.map().values) : "keys: " + keys;
  }
  if (expected.kind() != Kind::kSequence) return {};
  const auto& a = actual.sequence().items;
  const auto& e = expected.sequence().items;
  if (a.size() != e.size()) return std::format("has {} items, expected {}", a.size(), e.size());
  for (std::size_t i = 0; i < e.size(); ++i)
    if (std::string text = difference(a[i], e[i]); !text.empty())
      return std::format("item {} {}", i, text);
  return {};
}

}  // namespace ctxgen
