#include "compare.h"

#include <algorithm>
#include <cmath>
#include <format>

#include "elements.h"

namespace ctxgen::cli {
namespace {

void compare_numbers(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                     Comparison& result) {
  const ElementReader a(actual);
  const ElementReader e(expected);
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const double found = a.at(i);
    const double wanted = e.at(i);
    if (found == wanted || (std::isnan(found) && std::isnan(wanted))) continue;
    const double difference = std::abs(found - wanted);
    if (std::isfinite(difference)) {
      result.max_abs = std::max(result.max_abs, difference);
      if (wanted != 0) result.max_rel = std::max(result.max_rel, difference / std::abs(wanted));
      if (difference <= tolerance.atol + tolerance.rtol * std::abs(wanted)) continue;
    }
    if (result.mismatches++ == 0)
      result.text = std::format("element {}: {}, expected {}", i, found, wanted);
  }
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
    result.text = std::format("{} {}, expected {} {}", name_of(actual.type()),
                              to_string(actual.dims()), name_of(expected.type()),
                              to_string(expected.dims()));
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
  const auto add = [&](std::string_view where, const Comparison& one) {
    all.max_abs = std::max(all.max_abs, one.max_abs);
    all.max_rel = std::max(all.max_rel, one.max_rel);
    if (one.mismatches > 0 && all.mismatches == 0) all.text = std::format("{}: {}", where, one.text);
    all.mismatches += one.mismatches;
  };
  if (expected.kind() == Kind::kMap) {
    add("keys", compare(actual.map().keys, expected.map().keys, tolerance));
    add("values", compare(actual.map().values, expected.map().values, tolerance));
  }
  for (std::size_t i = 0; sequences && i < expected.sequence().items.size(); ++i)
    add(std::format("item {}", i), compare(actual.sequence().items[i],
                                           expected.sequence().items[i], tolerance));
  all.match = all.mismatches == 0;
  return all;
}

}  // namespace ctxgen::cli
