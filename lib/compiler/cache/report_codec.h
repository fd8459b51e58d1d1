#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ctxgen/compiler/compile.h"

namespace ctxgen {

/// A report as bytes, for the compile cache of this build alone: all of it but what is new in every
/// compile (key, files read, counts, seconds).
[[nodiscard]] std::vector<std::byte> encode_report(const CompileReport& report);
/// Errors  kCorruptContext.
[[nodiscard]] Result<CompileReport> decode_report(std::span<const std::byte> bytes);

}  // namespace ctxgen
