#pragma once

#include <cstdint>
#include <cstdlib>

namespace ctxgen {

/// From this size on, in bytes, working memory is in huge pages where the system gives them on request. Also
/// the size of such a page: smaller memory could hold none.
inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20U;

/// Memory for values that runs write and read again and again, aligned to 64 bytes; to be freed by
/// std::free(). From kHugePageBytes on it begins at a huge page and the system is asked (madvise) to give
/// such: the first run faults once where it faulted 512 times, and later ones miss fewer translations of addresses.
/// Only whole pages inside of the memory are asked for, so no more than `bytes` becomes resident.
///
/// Errors  null: there is no memory.
[[nodiscard]] void* allocate_working_memory(std::uint64_t bytes);

/// A deleter of it.
struct FreeWorkingMemory {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace ctxgen
