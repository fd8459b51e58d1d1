#include "failing_memory.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace {

enum class Mode { kOff, kRecord, kFail };

struct State {
  std::atomic<Mode> mode{Mode::kOff};
  std::atomic<std::uint64_t> count{0};
  std::uint64_t failing = 0;
  ctxgen::test::Failing how = ctxgen::test::Failing::kOnce;
  std::atomic<bool> has_failed{false};
  std::vector<bool>* recorded = nullptr;
};
State state;
std::atomic<std::int64_t> live{0};
thread_local bool inside = false;  // the bookkeeping allocates too

/// Code ranges of libraries whose allocations are not ours.
struct Range {
  std::uintptr_t begin = 0, end = 0;
};
std::array<Range, 64> foreign;
std::size_t foreign_count = 0;

bool is_foreign_library(std::string_view name) {
  for (const std::string_view part :
       {"libdnnl", "libonnx", "libprotobuf", "libgomp", "libspdlog", "libfmt", "libabsl"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

int note_library(dl_phdr_info* info, std::size_t, void*) {
  if (info->dlpi_name == nullptr || !is_foreign_library(info->dlpi_name)) return 0;
  for (int i = 0; i < info->dlpi_phnum && foreign_count < foreign.size(); ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    foreign[foreign_count++] = {begin, begin + header.p_memsz};
  }
  return 0;
}

bool called_from_here() {
  if (foreign_count == 0) dl_iterate_phdr(note_library, nullptr);
  std::array<void*, 64> frames{};
  const int depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < depth; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    for (std::size_t r = 0; r < foreign_count; ++r)
      if (address >= foreign[r].begin && address < foreign[r].end) return false;
  }
  return true;
}

/// Whether the allocation that is asked for now is to fail.
bool must_fail() {
  const Mode mode = state.mode.load(std::memory_order_relaxed);
  if (mode == Mode::kOff || inside) return false;
  const std::uint64_t number = state.count++;
  if (mode == Mode::kFail &&
      (number < state.failing ||
       (number > state.failing && state.how == ctxgen::test::Failing::kOnce)))
    return false;
  inside = true;
  const bool ours = called_from_here();
  if (mode == Mode::kRecord) state.recorded->push_back(ours);
  inside = false;
  if (mode == Mode::kRecord || !ours) return false;
  state.has_failed = true;
  return true;
}

void* allocate_or_null(std::size_t size, std::size_t alignment) noexcept {
  if (must_fail()) return nullptr;
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t))
    memory = std::malloc(size == 0 ? 1 : size);
  else if (::posix_memalign(&memory, alignment, size) != 0)
    memory = nullptr;
  if (memory != nullptr) ++live;
  return memory;
}

void* allocate(std::size_t size, std::size_t alignment) {
  void* memory = allocate_or_null(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) --live;
  std::free(memory);
}

}  // namespace

extern "C" void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
extern "C" void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
  return must_fail() ? nullptr : __real_aligned_alloc(alignment, size);
}

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new[](std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t a) { return allocate(size, std::size_t(a)); }
void* operator new[](std::size_t size, std::align_val_t a) {
  return allocate(size, std::size_t(a));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate_or_null(size, 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate_or_null(size, 1);
}
void* operator new(std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate_or_null(size, std::size_t(a));
}
void* operator new[](std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate_or_null(size, std::size_t(a));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace ctxgen::test {

std::int64_t live_objects() { return live; }

Allocations record(const std::function<void()>& work) {
  Allocations result;
  static_cast<void>(called_from_here());  // loads the unwinder
  result.is_ours.reserve(1 << 20);
  state.recorded = &result.is_ours;
  state.count = 0;
  state.mode = Mode::kRecord;
  work();
  state.mode = Mode::kOff;
  state.recorded = nullptr;
  return result;
}

bool run_failing(std::uint64_t number, Failing how, const std::function<void()>& work) {
  state.failing = number;
  state.how = how;
  state.has_failed = false;
  state.count = 0;
  state.mode = Mode::kFail;
  work();
  state.mode = Mode::kOff;
  return state.has_failed;
}

}  // namespace ctxgen::test
