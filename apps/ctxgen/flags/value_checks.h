#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace ctxgen::cli {

/// Checks of option values; each says what was expected, what was given and what to write instead. All
/// are for CLI::Option::transform: they turn a value into what CLI11 converts without a failure.

/// Decimal digits, no sign, from `least` to `most`.
[[nodiscard]] CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);
/// Bytes: digits and, if wanted, B, K, KB, KiB, M... up to E (all powers of 1024, in any case).
[[nodiscard]] CLI::Validator byte_count();
/// A finite number from 0 on.
[[nodiscard]] CLI::Validator tolerance();
/// One of a few words, in any case; each stands for a number.
[[nodiscard]] CLI::Validator one_word_of(std::vector<std::pair<std::string, int>> words);
/// Anything but an empty value; every option has it that does not say that it may be empty.
[[nodiscard]] CLI::Validator not_empty();

/// Threads, or jobs: 0 (the default) to 4096.
[[nodiscard]] inline CLI::Validator thread_count() { return whole_number(0, 4096); }

}  // namespace ctxgen::cli
