#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ctxgen/base/status.h"

namespace ctxgen::cli {

/// Writes a result to stdout.
/// Errors  IO_ERROR (disk full, closed pipe).
[[nodiscard]] Status print(std::string_view text);
[[nodiscard]] Status print_bytes(std::span<const std::byte> bytes);

/// "ctxgen: error: INVALID_GRAPH: ..." on stderr; gives the exit status. If errors are to be JSON and nothing was
/// printed yet, also {"error": {"code", "status", "message"}} on stdout.
int report_error(const Error& error);
/// What report_error() prints from now on; so do the ends that cannot allocate (out_of_memory.h).
void print_errors_as_json(bool wanted);
[[nodiscard]] bool errors_are_json();
/// "ctxgen: warning: ..." on stderr.
void warn(std::string_view message);
/// A plain line on stderr.
void note(std::string_view message);

/// "1.2 MiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "1 model", "3 models".
[[nodiscard]] std::string count_text(std::uint64_t count, std::string_view noun);

}  // namespace ctxgen::cli
