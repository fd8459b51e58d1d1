#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/file.h"

namespace ctxgen::test {

inline std::filesystem::path golden_path(std::string_view name) {
  return std::filesystem::path(CTXGEN_GOLDEN_FOLDER) / name;
}

/// The bytes of a committed file.
inline std::vector<std::byte> golden(std::string_view name) {
  auto file = map_file(golden_path(name));
  if (!file) throw std::runtime_error(file.error().message);
  return {file->bytes.begin(), file->bytes.end()};
}

inline constexpr std::string_view kGoldenV1_3 = "v1_3_certificate.ctx";
inline constexpr std::string_view kGoldenV1_2 = "v1_2_needs.ctx";
inline constexpr std::string_view kGoldenV1_1 = "v1_1_variant_zstd.ctx";
inline constexpr std::string_view kGoldenV1 = "v1_two_partitions.ctx";

}  // namespace ctxgen::test
