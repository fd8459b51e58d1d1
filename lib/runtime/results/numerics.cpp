#include "ctxgen/runtime/numerics.h"

#include <algorithm>
#include <cmath>
#include <format>

namespace ctxgen {
namespace {

/// A row of the table: a floating-point type, and how far apart its numbers are from 1 on.
struct FloatType {
  DataType type;
  const char* name;
  double unit;
};
constexpr FloatType kFloatTypes[] = {
    // finest first
    {DataType::kDouble, "f64", 0x1p-52},
    {DataType::kFloat, "f32", 0x1p-23},
    {DataType::kFloat16, "f16", 0x1p-10},
    {DataType::kBfloat16, "bf16", 0x1p-7},
};
constexpr double kUnits = 8;

/// The place in kFloatTypes; -1: none.
int rank_of(DataType type) {
  const auto* found = std::ranges::find(kFloatTypes, type, &FloatType::type);
  return found == std::end(kFloatTypes) ? -1 : static_cast<int>(found - kFloatTypes);
}

/// Errors of one operator after the other add up like the steps of a random walk, and what follows may
/// amplify them (a normalisation of nearly equal terms): trained models go up to 1.3 of the walk alone.
/// Types shorter than f32 are rounded to by both sides, their units are large enough for a whole model.
double growth_of(const FloatType& type, std::int64_t operators) {
  if (type.unit > 0x1p-23) return 1;
  constexpr double kAmplified = 4;
  return operators <= 1 ? 1 : kAmplified * std::sqrt(static_cast<double>(operators));
}

/// At most one for each quantiser; of many, which decide independently, twice the random walk's.
double steps_of(std::int64_t quantisers) {
  const auto all = static_cast<double>(quantisers);
  return std::min(all, std::ceil(2 * std::sqrt(all)));
}

DataType element_of(const RuntimeValue& value) {
  if (value.is_tensor()) return value.tensor().type();
  if (value.kind() == RuntimeValue::Kind::kMap) return value.map().values.type();
  if (value.kind() != RuntimeValue::Kind::kSequence) return DataType::kUndefined;
  const auto& items = value.sequence().items;  // of maps: as the first one
  return items.empty() || items.front().is_tensor() ? value.sequence().element
                                                    : element_of(items.front());
}

}  // namespace

void Roundings::join(const Roundings& other) {
  if (rank_of(other.coarsest) > rank_of(coarsest)) coarsest = other.coarsest;
  operators = std::max(operators, other.operators);
  quantisers = std::max(quantisers, other.quantisers);
  share = std::max(share, other.share);
  step = std::max(step, other.step);
}

ToleranceRow tolerance_for(const Roundings& roundings, DataType type,
                           const ToleranceOverrides& overrides) {
  ToleranceRow row{"exact", {.rtol = 0, .atol = 0, .from_scale = true}};
  const bool floating = rank_of(type) >= 0;
  if (floating) {
    const FloatType& coarsest = kFloatTypes[std::max(rank_of(type), rank_of(roundings.coarsest))];
    row.name = coarsest.name;
    row.tolerance.rtol = kUnits * coarsest.unit * growth_of(coarsest, roundings.operators);
    row.tolerance.atol = 1e-6;
  }
  if (roundings.quantisers > 0 && (floating || roundings.step > 0)) {
    const double count = steps_of(roundings.quantisers);
    row.name += std::format(" + {} step{}", count, count > 1 ? "s" : "");
    if (roundings.step > 0)
      row.tolerance.atol += count * roundings.step;
    else
      row.tolerance.of_range = count * roundings.share;
  }
  if (overrides.rtol || overrides.atol) row.name = "given";
  if (overrides.rtol) row.tolerance.rtol = *overrides.rtol;
  if (overrides.atol) {
    row.tolerance.atol = *overrides.atol;
    row.tolerance.of_range = 0;  // steps are absolute, too
  }
  return row;
}

Comparison compare(const RuntimeValue& actual, const RuntimeValue& expected,
                   const Roundings& roundings, const ToleranceOverrides& overrides) {
  const ToleranceRow row = tolerance_for(roundings, element_of(expected), overrides);
  Comparison comparison = compare(actual, expected, row.tolerance);
  comparison.row = row.name;
  comparison.quantised = roundings.quantisers > 0;
  comparison.tolerance = row.tolerance;
  return comparison;
}

}  // namespace ctxgen
