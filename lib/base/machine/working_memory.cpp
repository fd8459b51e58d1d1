#include "ctxgen/base/working_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "ctxgen/base/checked.h"

namespace ctxgen {

void* allocate_working_memory(std::uint64_t bytes) {
  constexpr std::uint64_t kLineBytes = 64;
  const std::uint64_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kLineBytes;
  if (bytes > std::numeric_limits<std::uint64_t>::max() - alignment) return nullptr;
  // Its size has to be a multiple (C11 7.22.3.1); what is beyond `bytes` is never touched.
  void* memory =
      std::aligned_alloc(alignment, align_up(std::max<std::uint64_t>(bytes, 1), alignment));
  // A request: where it is refused, the pages are small.
  if (memory != nullptr && alignment == kHugePageBytes)
    (void)madvise(memory, bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  return memory;
}

}  // namespace ctxgen
