#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bench {

/// A dense array in C order; `type` is numpy's code ("<f4", "<i8", "|b1", ...).
struct Array {
  std::string type;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// Reads or writes a .npy file (format 1 or 2, little-endian, C order). Throws std::runtime_error.
[[nodiscard]] Array read_npy(const std::filesystem::path& path);
void write_npy(const std::filesystem::path& path, const std::string& type,
               const std::vector<std::int64_t>& shape, const void* data, std::size_t size_bytes);

}  // namespace bench
