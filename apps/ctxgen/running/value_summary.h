#pragma once

#include <optional>

#include "ctxgen/base/json.h"
#include "ctxgen/base/runtime_value.h"

namespace ctxgen::cli {

/// Of the elements of a tensor.
struct ValueSummary {
  double least = 0, greatest = 0, mean = 0;
};
/// Nothing for what has no numbers, or none at all.
[[nodiscard]] std::optional<ValueSummary> summarise(const RuntimeValue& value);

/// The fields type, and dims of a tensor, min, max and mean where it has numbers, of an object that is open.
void write_value_fields(JsonWriter& json, const RuntimeValue& value);

}  // namespace ctxgen::cli
