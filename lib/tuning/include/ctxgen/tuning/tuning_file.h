#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/tuning_table.h"

namespace ctxgen {

/// What a tuning file may hold.
inline constexpr std::uint64_t kMostTuningBytes = std::uint64_t{8} << 20;
inline constexpr std::size_t kMostTuningRows = 16384;

/// The text of a tuning file (docs/tuning.md): JSON, a member per field, rows in ascending order.
[[nodiscard]] std::string tuning_text(const TuningTable& table);

/// The table that a tuning file holds. Which ops and forms there are, and for what a table is, only a provider
/// knows (Provider::check_tuning()).
/// Errors  INVALID_ARGUMENT naming the line or the row, and the field; RESOURCE_LIMIT; VERSION_MISMATCH: a later
///         version of the format.
[[nodiscard]] Result<TuningTable> parse_tuning(std::string_view text);

/// Errors  as parse_tuning(), naming the file; IO_ERROR.
[[nodiscard]] Result<TuningTable> read_tuning_file(const std::filesystem::path& path);

/// Errors  IO_ERROR.
[[nodiscard]] Status write_tuning_file(const std::filesystem::path& path, const TuningTable& table);

}  // namespace ctxgen
