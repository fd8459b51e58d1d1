// Linked with -Wl,--wrap=aligned_alloc, where tensors come from.
#include "bounded_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kTensorLimit = std::size_t{128} << 10;
constexpr std::size_t kLimit = std::size_t{16} << 20;
std::atomic<int> bounds;

void* allocate_or_null(std::size_t size) noexcept {
  const bool refused = bounds != 0 && size > kLimit;
  return refused ? nullptr : std::malloc(size == 0 ? 1 : size);
}

void* allocate(std::size_t size) {
  void* memory = allocate_or_null(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

ctxgen::fuzz::MemoryBound::MemoryBound() { ++bounds; }
ctxgen::fuzz::MemoryBound::~MemoryBound() { --bounds; }

extern "C" void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
extern "C" void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
  return bounds != 0 && size > kTensorLimit ? nullptr : __real_aligned_alloc(alignment, size);
}

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate_or_null(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate_or_null(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
