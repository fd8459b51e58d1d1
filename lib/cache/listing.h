#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ctxgen/base/opened_file.h"
#include "ctxgen/cache/cache_folder.h"

namespace ctxgen {

struct ListedEntry {
  std::filesystem::path path;
  CacheKind kind = CacheKind::kBlob;
  FileIdentity file;
  std::uint64_t bytes = 0;
  std::int64_t used_ns = 0;  // time of last use, since 1970
};

/// Every file of the cache that has the name of an entry; others are not looked at. A folder that
/// cannot be read is empty. `stale`, where given, receives temporaries.
[[nodiscard]] std::vector<ListedEntry> list_entries(
    const std::filesystem::path& cache, std::vector<std::filesystem::path>* temporaries);

}  // namespace ctxgen
