#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"

namespace ctxgen {

/// Keeps what a compile makes (packed, folded, decoded weights) without holding it in anonymous
/// memory: after a first budget, bytes go to a file without a name and are read from its map, so
/// that the kernel can write them out and drop the pages. No other process sees the file, and it
/// goes with the process, however that ends.
///
/// Threads   every member may be called from several threads.
/// Lifetime  what keep() returned outlives the SpillFile.
class SpillFile {
 public:
  static constexpr std::uint64_t kDefaultMemoryBytes = std::uint64_t{64} << 20;

  /// The file is made in the folder of `beside` once it is needed; messages name that path.
  /// `memory_bytes`: the sum of bytes that stay in memory before.
  SpillFile(std::filesystem::path beside, std::uint64_t memory_bytes);
  ~SpillFile();

  /// `made` itself, or its bytes in the file (64-byte aligned, 4096 from 64 KiB on).
  /// Errors  IO_ERROR (the folder takes no file, disk full), RESOURCE_LIMIT (no memory for a map).
  [[nodiscard]] Result<Blob> keep(Blob made);
  /// The same for a tensor that has memory of its own; others are returned as they are.
  [[nodiscard]] Result<Tensor> keep(Tensor tensor);

  [[nodiscard]] std::uint64_t spilled_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// keep(), or `made` itself where there is no file.
template <class T>
[[nodiscard]] Result<T> keep_in(SpillFile* file, T made) {
  if (file == nullptr) return made;
  return file->keep(std::move(made));
}

}  // namespace ctxgen
