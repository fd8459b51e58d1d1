#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ctxgen/cpu/kernel.h"

// What strings take, counted before they are made: their objects and their text.

namespace ctxgen::cpu {

/// The bytes of the longest text.
[[nodiscard]] std::uint64_t longest_of(std::span<const std::string> texts);
/// What copies of the texts take.
[[nodiscard]] std::uint64_t bytes_of_copies(std::span<const std::string> texts);
/// What a tensor of strings takes at most, each no longer than `longest_bytes`; nothing where that
/// overflows.
[[nodiscard]] std::optional<std::uint64_t> bytes_of_strings(const Dims& dims,
                                                            std::uint64_t longest_bytes);
/// For outputs whose strings are not copies of the inputs' (make_output counts those): RESOURCE_LIMIT
/// unless so many of `longest_bytes` fit into the run.
[[nodiscard]] Status check_strings(const KernelContext& context, const Dims& dims,
                                   std::uint64_t longest_bytes);

}  // namespace ctxgen::cpu
