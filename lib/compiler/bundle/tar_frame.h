#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ctxgen {

/// What is before and after the bytes of a file in an archive (POSIX tar, "pax") that holds this file alone. No
/// times, users and groups: the same for the same name and size.
struct TarFrame {
  std::string before, after;
};

/// `name`: relative, folders separated by slashes.
[[nodiscard]] TarFrame tar_frame(std::string_view name, std::uint64_t file_bytes);

}  // namespace ctxgen
