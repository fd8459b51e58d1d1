#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/runtime_value.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/runtime/compare.h"

namespace ctxgen {

/// What rounds on the way from a model's inputs to one value: the most of each on any path. Constants
/// count for nothing.
struct Roundings {
  DataType coarsest =
      DataType::kUndefined;    // of the floating-point types; undefined: there is none
  std::int64_t operators = 0;  // roundings of real numbers, one after the other
  std::int64_t quantisers = 0;
  double share = 0;  // a step of the coarsest quantiser as a share of the range that it covers
  double step = 0;   // the value is an integer times this; 0: it is not known to be

  /// Another path to the same value.
  void join(const Roundings& other);
};

/// The roundings of all that a session computes.
struct NumericPaths {
  std::vector<Roundings> outputs;  // of the model, in order
  /// Outputs of partitions, (partition, value); counted from the partition's inputs.
  std::map<std::pair<std::string, std::string>, Roundings> partitions;
};

/// What a caller wants instead of the table's numbers.
struct ToleranceOverrides {
  std::optional<double> rtol, atol;
};

/// A row of the table in docs/numerics.md, for one value.
struct ToleranceRow {
  std::string name;  // "f32", "f16", "f32 + 2 steps", "exact"; "given"
  Tolerance tolerance;
};

/// The tolerance for values of type `type` that were rounded so.
[[nodiscard]] ToleranceRow tolerance_for(const Roundings& roundings, DataType type,
                                         const ToleranceOverrides& overrides);

/// compare() with the row that fits the value; Comparison::row says which one that was.
[[nodiscard]] Comparison compare(const RuntimeValue& actual, const RuntimeValue& expected,
                                 const Roundings& roundings, const ToleranceOverrides& overrides);

}  // namespace ctxgen
