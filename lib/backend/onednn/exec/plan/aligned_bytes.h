#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ctxgen/base/status.h"

namespace ctxgen::onednn {

/// Bytes from the heap, 64-byte aligned.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  /// Errors  RESOURCE_LIMIT.
  [[nodiscard]] static Result<AlignedBytes> allocate(std::uint64_t bytes);
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::uint64_t size_ = 0;
};

}  // namespace ctxgen::onednn
