#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen {

/// The pages of weights that a session reads in place, and their way into memory.
class WeightPages {
 public:
  explicit WeightPages(WeightMemory mode) : mode_(mode) {}
  /// Bytes that must stay where they are until prepare().
  void add(std::span<const std::byte> bytes);
  /// Brings what was added into memory, as the mode says.
  /// Errors  IO_ERROR (a file was truncated or cannot be read), RESOURCE_LIMIT (the process may not
  ///         lock as much: RLIMIT_MEMLOCK).
  [[nodiscard]] Status prepare();

 private:
  struct Pages {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
  };
  void merge();

  WeightMemory mode_;
  std::vector<Pages> pages_;
};

}  // namespace ctxgen
