#pragma once

namespace ctxgen::fuzz {

/// While one lives, more memory than a small amount at once is refused, as on a machine that is
/// full: one exec costs little, and a refusal must come back as a Status.
class MemoryBound {
 public:
  MemoryBound();
  ~MemoryBound();
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
};

}  // namespace ctxgen::fuzz
