// The program's own malloc and its relatives, which count and hand on to glibc's. Everything in the process comes
// here: operator new of libstdc++, oneDNN and OpenMP, too.
#include "counting_malloc.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <format>
#include <string_view>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace ctxgen::test {
namespace {

constexpr int kFrames = 24;
constexpr std::size_t kKept = 8;

struct Range {
  std::uintptr_t begin = 0, end = 0;
};
/// A library may have a few executable segments.
struct Ranges {
  std::array<Range, 8> all{};
  std::size_t count = 0;
  [[nodiscard]] bool holds(std::uintptr_t address) const {
    return std::any_of(all.begin(), all.begin() + count, [address](const Range& range) {
      return address >= range.begin && address < range.end;
    });
  }
};

Ranges g_onednn, g_openmp, g_standard;  // the last: libc, libstdc++, libgcc
std::uintptr_t g_program = 0;           // where the executable was loaded
std::atomic<bool> g_counting = false;
std::array<std::atomic<std::size_t>, 3> g_counts{};
std::array<std::array<void*, kFrames>, kKept> g_callers{};
std::array<int, kKept> g_depths{};
thread_local bool t_inside = false;  // what counting allocates is not counted

int see_library(dl_phdr_info* info, std::size_t /*size*/, void* /*unused*/) {
  const std::string_view name(info->dlpi_name);
  if (name.empty() && g_program == 0) g_program = info->dlpi_addr;
  Ranges* ranges = nullptr;
  if (name.contains("libdnnl.")) ranges = &g_onednn;
  if (name.contains("libgomp.")) ranges = &g_openmp;
  for (const char* standard : {"libc.so", "libstdc++.", "libgcc_s.", "ld-linux"})
    if (name.contains(standard)) ranges = &g_standard;
  for (int i = 0; ranges != nullptr && i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    if (ranges->count == ranges->all.size()) return 1;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    ranges->all[ranges->count++] = {begin, begin + header.p_memsz};
  }
  return 0;
}

/// Frames 0 and 1 are count() and the allocator's function.
void count() {
  if (!g_counting.load(std::memory_order_relaxed) || t_inside) return;
  t_inside = true;
  std::array<void*, kFrames> frames{};
  const int depth = backtrace(frames.data(), kFrames);
  // Code that oneDNN has generated is in no library: then its caller further out decides.
  auto asker = Asker::kCtxgen;
  for (int i = 2; i < depth; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    if (g_standard.holds(address)) continue;
    if (g_onednn.holds(address)) asker = Asker::kOneDnn;
    if (g_openmp.holds(address)) asker = Asker::kOpenMp;
    break;
  }
  const std::size_t number = g_counts[static_cast<std::size_t>(asker)]++;
  if (asker == Asker::kCtxgen && number < kKept) {
    g_callers[number] = frames;
    g_depths[number] = depth;
  }
  t_inside = false;
}

}  // namespace

void start_counting() {
  if (g_standard.count == 0) {
    std::array<void*, 2> frames{};
    (void)backtrace(frames.data(), 2);  // loads libgcc
    dl_iterate_phdr(see_library, nullptr);
  }
  for (auto& one : g_counts) one = 0;
  g_counting = true;
}

Counts stop_counting() {
  g_counting = false;
  Counts counts{g_counts[0], g_counts[1], g_counts[2], {}};
  for (std::size_t i = 0; i < std::min(counts.ctxgen, kKept); ++i) {
    std::string text;
    for (int k = 2; k < g_depths[i]; ++k)
      text += std::format(
          "{}{:#x}", text.empty() ? "" : " ",
          reinterpret_cast<std::uintptr_t>(g_callers[i][static_cast<std::size_t>(k)]) - g_program);
    counts.ctxgen_callers.push_back(text);
  }
  return counts;
}

}  // namespace ctxgen::test

extern "C" {

__attribute__((visibility("default"))) void* malloc(std::size_t size) {
  ctxgen::test::count();
  return __libc_malloc(size);
}
__attribute__((visibility("default"))) void* calloc(std::size_t count, std::size_t size) {
  ctxgen::test::count();
  return __libc_calloc(count, size);
}
__attribute__((visibility("default"))) void* realloc(void* memory, std::size_t size) {
  ctxgen::test::count();
  return __libc_realloc(memory, size);
}
__attribute__((visibility("default"))) void* memalign(std::size_t alignment, std::size_t size) {
  ctxgen::test::count();
  return __libc_memalign(alignment, size);
}
__attribute__((visibility("default"))) void* aligned_alloc(std::size_t alignment,
                                                           std::size_t size) {
  ctxgen::test::count();
  return __libc_memalign(alignment, size);
}
__attribute__((visibility("default"))) int posix_memalign(void** memory, std::size_t alignment,
                                                          std::size_t size) {
  ctxgen::test::count();
  *memory = __libc_memalign(alignment, size);
  return *memory != nullptr ? 0 : ENOMEM;
}

}  // extern "C"
