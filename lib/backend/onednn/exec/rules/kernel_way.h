#pragma once

#include <cstdint>

namespace ctxgen::onednn {

/// How an op with a constant is run where a measurement decided it (docs/tuning.md); else our rules do.
struct KernelWay {
  /// Which kernel is asked first; the other one runs what it does not take.
  enum class First : std::uint8_t { kRule, kOwn, kLibrary };
  /// From the first post-op that needs an exponential on: by the kernel itself as far as it can, or in passes over its
  /// result. The rule is the former for own kernels, the latter for oneDNN's.
  enum class Steps : std::uint8_t { kRule, kFused, kApart };
  First first = First::kRule;
  Steps steps = Steps::kRule;
  [[nodiscard]] bool operator==(const KernelWay&) const = default;
};

}  // namespace ctxgen::onednn
