#include "ctxgen/cache/build_identity.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "ctxgen/base/version.h"

namespace ctxgen {
namespace {

/// The description of the GNU build id among some notes; empty: there is none.
std::string_view build_id_in(const char* notes, std::size_t size) {
  constexpr std::string_view kOwner("GNU\0", 4);
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof header);
    const std::size_t name = (header.n_namesz + 3U) & ~std::size_t{3};
    const std::size_t description = (header.n_descsz + 3U) & ~std::size_t{3};
    const std::size_t whole = sizeof header + name + description;
    if (whole > size) break;
    const bool ours = header.n_type == NT_GNU_BUILD_ID && header.n_namesz == kOwner.size() &&
                      std::memcmp(notes + sizeof header, kOwner.data(), kOwner.size()) == 0;
    if (ours) return {notes + sizeof header + name, header.n_descsz};
    notes += whole;
    size -= whole;
  }
  return {};
}

/// Looks at one loaded file: whether it holds this code, and its build id.
int look_at(dl_phdr_info* info, std::size_t, void* found) {
  const auto here = reinterpret_cast<std::uintptr_t>(&build_identity);
  bool holds = false;
  std::string_view id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) holds = holds || (here >= begin && here - begin < part.p_memsz);
    if (part.p_type == PT_NOTE && id.empty())
      id = build_id_in(reinterpret_cast<const char*>(begin), part.p_memsz);
  }
  if (!holds) return 0;
  static_cast<std::string*>(found)->assign(id);
  return 1;
}

}  // namespace

std::string_view build_identity() {
  static const std::string identity = [] {
    std::string id;
    ::dl_iterate_phdr(look_at, &id);
    return CTXGEN_VERSION_STRING + (" " + id);
  }();
  return identity;
}

}  // namespace ctxgen
