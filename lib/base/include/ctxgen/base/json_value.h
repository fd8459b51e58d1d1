#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

struct JsonMember;

/// A value of a JSON document (RFC 8259).
struct JsonValue {
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;  // in their order; names differ
  /// Numbers without a fraction or an exponent are integers where these are wide enough.
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> value;
  std::uint32_t line = 0;  // where it begins, from 1

  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&value);
  }
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

/// What a foreign document may make a reader allocate.
struct JsonLimits {
  std::size_t depth = 16;         // of arrays and objects in each other
  std::size_t values = 1U << 19;  // in the whole document
};

/// Errors  INVALID_ARGUMENT naming the line; RESOURCE_LIMIT.
[[nodiscard]] Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits = {});

/// The value where the writer is.
void write_json(JsonWriter& json, const JsonValue& value);

}  // namespace ctxgen
