#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen {

/// The pages of weights that a session reads in place, and their way into memory.
class WeightPages {
 public:
  explicit WeightPages(WeightMemory mode) : mode_(mode) {}
  /// Keeps the owner until prepare().
  void add(const Blob& blob);
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
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace ctxgen
