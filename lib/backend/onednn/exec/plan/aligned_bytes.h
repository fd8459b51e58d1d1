#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ctxgen/base/status.h"
#include "ctxgen/base/working_memory.h"

namespace ctxgen::onednn {

/// Working memory (ctxgen/base/working_memory.h).
class AlignedBytes {
 public:
  AlignedBytes() = default;
  /// Errors  RESOURCE_LIMIT.
  [[nodiscard]] static Result<AlignedBytes> allocate(std::uint64_t bytes);
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  std::unique_ptr<std::byte, FreeWorkingMemory> data_;
  std::uint64_t size_ = 0;
};

}  // namespace ctxgen::onednn
