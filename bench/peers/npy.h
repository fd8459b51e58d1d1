#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

namespace bench {

/// Gives memory that begins with a cache line, as `ctxgen bench` has it: a copy of values that lie across lines takes longer,
/// and both sides are to measure the same.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kLine));
  }
  void deallocate(T* data, std::size_t) noexcept { ::operator delete(data, kLine); }
  bool operator==(const LineAllocator&) const = default;
};

/// A dense array in C order; `type` is numpy's code ("<f4", "<i8", "|b1", ...).
struct Array {
  std::string type;
  std::vector<std::int64_t> shape;
  std::vector<std::byte, LineAllocator<std::byte>> bytes;
};

/// Reads or writes a .npy file (format 1 or 2, little-endian, C order). Throws std::runtime_error.
[[nodiscard]] Array read_npy(const std::filesystem::path& path);
void write_npy(const std::filesystem::path& path, const std::string& type,
               const std::vector<std::int64_t>& shape, const void* data, std::size_t size_bytes);

}  // namespace bench
