#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <new>
#include <vector>

// Memory that kernels need while they run, kept from run to run: a model with fixed shapes asks the
// system for none in its second run.

namespace ctxgen::cpu {

/// Free blocks of one run, by size. In programs built with AddressSanitizer it keeps none, so that
/// each block has bounds of its own.
///
/// Threads   none: one per run.
/// Lifetime  outlives what was taken from it; kernels take memory for their own time only.
class Scratch {
 public:
  /// `limit_bytes`: of all blocks, those that are kept included.
  explicit Scratch(std::size_t limit_bytes = std::numeric_limits<std::size_t>::max())
      : limit_bytes_(limit_bytes) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Gives back to the system what no kernel took since the last call.
  void end_run();
  [[nodiscard]] std::size_t free_bytes() const { return free_bytes_; }
  /// False in programs built with AddressSanitizer.
  [[nodiscard]] static bool keeps();

  /// Memory aligned as that of operator new, from the scratch of the thread's scope where there is
  /// one. Throws std::bad_alloc, also beyond its limit.
  [[nodiscard]] static void* take(std::size_t size_bytes);
  /// To where it came from, in any scope. nullptr is fine.
  static void give(void* memory) noexcept;

 private:
  struct Header;
  struct Class {
    Header* first = nullptr;
    std::size_t count = 0;
    std::size_t least = 0;  // the smallest count since end_run(): those had no use
  };
  [[nodiscard]] Header* take_free(std::size_t index);
  void keep(Header* header) noexcept;
  void drop_free() noexcept;

  std::size_t limit_bytes_, used_bytes_ = 0, free_bytes_ = 0;
  std::array<Class, 256> classes_;
  std::size_t used_classes_ = 0;  // those from here on never had a block

  friend class ScratchScope;
  static thread_local Scratch* current_;
};

/// While it lives, what the thread's kernels take comes from `scratch`; nullptr: from the system.
class ScratchScope {
 public:
  explicit ScratchScope(Scratch* scratch);
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  Scratch* outer_;
};

/// Lets containers live in scratch memory.
template <class T>
struct ScratchAllocator {
  using value_type = T;
  ScratchAllocator() = default;
  template <class U>
  ScratchAllocator(const ScratchAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] T* allocate(std::size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T))
      throw std::bad_array_new_length();
    return static_cast<T*>(Scratch::take(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t /*count*/) noexcept { Scratch::give(memory); }
  [[nodiscard]] bool operator==(const ScratchAllocator&) const { return true; }
};

/// A vector for the time of a kernel's run.
template <class T>
using ScratchVector = std::vector<T, ScratchAllocator<T>>;

}  // namespace ctxgen::cpu
