#pragma once

#include <cstdint>
#include <optional>

#include "ctxgen/base/tensor.h"

namespace ctxgen {

/// Reads elements of any alignment as numbers.
class ElementReader {
 public:
  explicit ElementReader(const Tensor& tensor) : tensor_(tensor) {}
  /// Whether the type has a number per element (not strings, complex and 8- or 4-bit floats).
  [[nodiscard]] static bool has_numbers(DataType type);
  /// Whether these are floating-point numbers.
  [[nodiscard]] static bool is_floating(DataType type);
  /// Requires has_numbers and index < element_count. 64-bit integers beyond 2^53 are rounded.
  [[nodiscard]] double at(std::int64_t index) const;

 private:
  const Tensor& tensor_;
};

}  // namespace ctxgen
