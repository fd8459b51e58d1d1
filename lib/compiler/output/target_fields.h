#pragma once

#include <string>
#include <string_view>

namespace ctxgen {

/// How two fingerprints differ, in words: "isa avx2, onednn 3.12.0" and "isa avx512_core, onednn 3.12.1".
struct TargetDifference {
  std::string found, expected;
  std::string found_isa;  // empty: not in this
};
[[nodiscard]] TargetDifference difference_of(std::string_view found, std::string_view expected);

}  // namespace ctxgen
