#include "ctxgen/runtime/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <format>

#include "ctxgen/runtime/elements.h"

namespace ctxgen {
namespace {

/// The numbers of a type in ascending order, counted from zero: neighbours differ by 1.
std::int64_t ordinal(std::uint64_t bits, unsigned width) {
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

std::int64_t ordinal(const Tensor& tensor, std::int64_t index) {
  std::uint64_t bits = 0;
  const std::size_t bytes = bits_of(tensor.type()) / 8;
  std::memcpy(&bits, tensor.bytes().data() + static_cast<std::size_t>(index) * bytes, bytes);
  return ordinal(bits, static_cast<unsigned>(bytes * 8));
}

/// The angle between two vectors, summed up element by element.
class Cosine {
 public:
  void add(double a, double b) {
    if (!std::isfinite(a) || !std::isfinite(b)) return;
    dot_ += a * b;
    a_ += a * a;
    b_ += b * b;
  }
  [[nodiscard]] double value() const {
    if (a_ == 0 && b_ == 0) return 1;
    return a_ == 0 || b_ == 0 ? 0 : dot_ / std::sqrt(a_) / std::sqrt(b_);
  }

 private:
  double dot_ = 0, a_ = 0, b_ = 0;
};

/// How far a number may be from the one that is expected.
class Allowance {
 public:
  Allowance(const ElementReader& expected, std::int64_t count, const Tolerance& tolerance)
      : rtol_(tolerance.rtol), absolute_(tolerance.atol) {
    if (!tolerance.from_scale && tolerance.of_range == 0) return;
    double squares = 0, least = 0, largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = expected.at(i);
      if (!std::isfinite(value)) continue;
      squares += value * value;
      least = std::min(least, value);
      largest = std::max(largest, value);
    }
    if (tolerance.from_scale && count > 0) scale_ = std::sqrt(squares / static_cast<double>(count));
    absolute_ += tolerance.of_range * (largest - least);
  }
  [[nodiscard]] double at(double expected) const {
    return absolute_ + rtol_ * std::max(std::abs(expected), scale_);
  }

 private:
  double rtol_, absolute_, scale_ = 0;
};

void compare_numbers(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                     Comparison& result) {
  const ElementReader a(actual);
  const ElementReader e(expected);
  const Allowance allowance(e, expected.element_count(), tolerance);
  const bool floating = ElementReader::is_floating(expected.type());
  Cosine cosine;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const double found = a.at(i);
    const double wanted = e.at(i);
    cosine.add(found, wanted);
    if (found == wanted || (std::isnan(found) && std::isnan(wanted))) continue;
    const double difference = std::abs(found - wanted);
    if (std::isfinite(difference)) {
      result.max_abs = std::max(result.max_abs, difference);
      if (floating)
        result.max_ulp =
            std::max(result.max_ulp, std::abs(static_cast<double>(ordinal(actual, i)) -
                                              static_cast<double>(ordinal(expected, i))));
      if (wanted != 0) result.max_rel = std::max(result.max_rel, difference / std::abs(wanted));
      const double allowed = allowance.at(wanted);
      result.used =
          std::max(result.used, difference / allowed);  // infinite where nothing is allowed
      if (difference <= allowed) continue;
    } else {
      ++result.not_finite;
    }
    if (result.mismatches++ == 0)
      result.text = std::format("element {}: {}, expected {}", i, found, wanted);
  }
  result.cosine = cosine.value();
}

void compare_strings(const Tensor& actual, const Tensor& expected, Comparison& result) {
  const auto a = actual.strings();
  const auto e = expected.strings();
  for (std::size_t i = 0; i < e.size(); ++i)
    if (a[i] != e[i] && result.mismatches++ == 0)
      result.text = std::format("element {}: \"{}\", expected \"{}\"", i, a[i], e[i]);
}

}  // namespace

Comparison compare(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance) {
  Comparison result;
  if (actual.type() != expected.type() || actual.dims() != expected.dims()) {
    result.text =
        std::format("{} {}, expected {} {}", name_of(actual.type()), to_string(actual.dims()),
                    name_of(expected.type()), to_string(expected.dims()));
    result.mismatches = expected.element_count();
    return result;
  }
  if (expected.is_string()) {
    compare_strings(actual, expected, result);
  } else if (ElementReader::has_numbers(expected.type())) {
    compare_numbers(actual, expected, tolerance, result);
  } else if (!std::ranges::equal(actual.bytes(), expected.bytes())) {
    result.mismatches = expected.element_count();
    result.text = std::format("{} bytes differ", name_of(expected.type()));
  }
  result.match = result.mismatches == 0;
  return result;
}

Comparison compare(const RuntimeValue& actual, const RuntimeValue& expected,
                   const Tolerance& tolerance) {
  using Kind = RuntimeValue::Kind;
  if (actual.is_tensor() && expected.is_tensor())
    return compare(actual.tensor(), expected.tensor(), tolerance);
  const bool sequences = expected.kind() == Kind::kSequence && actual.kind() == Kind::kSequence;
  Comparison all;
  if (actual.kind() != expected.kind() ||
      (sequences && actual.sequence().items.size() != expected.sequence().items.size())) {
    all.mismatches = 1;
    all.text = std::format("{}, expected {}", describe(actual), describe(expected));
    return all;
  }
  all.match = true;
  const auto add = [&](std::string_view where, Comparison one) {
    one.text = std::format("{}: {}", where, one.text);
    all.merge(one);
  };
  if (expected.kind() == Kind::kMap) {
    add("keys", compare(actual.map().keys, expected.map().keys, tolerance));
    add("values", compare(actual.map().values, expected.map().values, tolerance));
  }
  for (std::size_t i = 0; sequences && i < expected.sequence().items.size(); ++i)
    add(std::format("item {}", i),
        compare(actual.sequence().items[i], expected.sequence().items[i], tolerance));
  return all;
}

void Comparison::merge(const Comparison& other) {
  if (match && !other.match) text = other.text;
  match = match && other.match;
  max_abs = std::max(max_abs, other.max_abs);
  max_rel = std::max(max_rel, other.max_rel);
  max_ulp = std::max(max_ulp, other.max_ulp);
  cosine = std::min(cosine, other.cosine);
  used = std::max(used, other.used);
  mismatches += other.mismatches;
  not_finite += other.not_finite;
  if (row.empty()) {
    row = other.row;
    quantised = other.quantised;
    tolerance = other.tolerance;
  }
}

}  // namespace ctxgen
