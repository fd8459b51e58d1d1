#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ctxgen {

/// How two fingerprints differ, in words: "isa avx2, onednn 3.12.0" and "isa avx512_core, onednn 3.12.1".
struct TargetDifference {
  std::string found, expected;
  std::string found_isa;  // empty: not in this
};
[[nodiscard]] TargetDifference difference_of(std::string_view found, std::string_view expected);

/// Those that a fingerprint names, the smallest first.
[[nodiscard]] std::vector<std::string> instruction_sets_of(std::string_view fingerprint);

}  // namespace ctxgen
