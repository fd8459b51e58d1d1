#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ctxgen {

/// The fields of a fingerprint: "format=1;onednn=3.12.1;isa=avx2" as pairs.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> fingerprint_fields(
    std::string_view fingerprint);

/// The instruction sets that a fingerprint names, as they are there: the smallest first. "portable" is there as one.
[[nodiscard]] std::vector<std::string> instruction_sets_of(std::string_view fingerprint);

}  // namespace ctxgen
