#include "listing.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string>

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// Names in a folder. Not a directory_iterator: libstdc++'s ends the process where memory runs out.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> listing(::opendir(folder.c_str()));
  if (listing == nullptr) return names;
  while (const dirent* entry = ::readdir(listing.get())) names.emplace_back(entry->d_name);
  return names;
}

bool is_hex(std::string_view name, std::size_t length) {
  return name.size() == length && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::vector<ListedEntry> list_entries(const fs::path& cache, std::vector<fs::path>* temporaries) {
  std::vector<ListedEntry> entries;
  for (std::size_t k = 0; k < kCacheKinds; ++k) {
    const auto kind = static_cast<CacheKind>(k);
    const fs::path of_kind = cache / name_of(kind);
    for (const std::string& shelf : names_in(of_kind)) {
      if (!is_hex(shelf, 2)) continue;
      for (const std::string& name : names_in(of_kind / shelf)) {
        const fs::path path = of_kind / shelf / name;
        if (temporaries != nullptr && name.starts_with('.') && name.ends_with(".tmp"))
          temporaries->push_back(path);
        struct stat status{};
        if (!is_hex(name, 30) || ::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
          continue;
        const FileIdentity file = identity_of(status);
        entries.push_back({.path = path,
                           .kind = kind,
                           .file = file,
                           .bytes = file.size,
                           .used_ns = file.modified_ns});
      }
    }
  }
  return entries;
}

}  // namespace ctxgen
