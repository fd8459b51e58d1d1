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

}  // namespace ctxgen::cli
