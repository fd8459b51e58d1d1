#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen::onednn {

// Instruction sets by oneDNN's names for them ("avx2", "avx512_core_amx"); see ProgramLoader for the
// contracts.

[[nodiscard]] Status use_isa(std::string_view name);
/// The last of those that this process can run; oneDNN's order puts the more able one last.
[[nodiscard]] std::optional<std::size_t> best_isa(std::span<const std::string> isas);
/// "avx2,avx512_core" -> both.
[[nodiscard]] std::vector<std::string> split_isas(std::string_view text);

}  // namespace ctxgen::onednn
