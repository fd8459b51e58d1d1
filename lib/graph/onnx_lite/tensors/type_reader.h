#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Decodes a TypeProto; symbols of dims are entered into `model`.
/// Errors  INVALID_GRAPH, UNSUPPORTED (rank above kMaxRank, unknown element type).
[[nodiscard]] Result<ValueType> read_type(std::span<const std::byte> message, Model& model);

struct ValueInfo {
  std::string_view name;
  ValueType type;
};

/// Decodes a ValueInfoProto. `name` refers to the message.
[[nodiscard]] Result<ValueInfo> read_value_info(std::span<const std::byte> message, Model& model);

}  // namespace ctxgen
