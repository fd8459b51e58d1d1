#pragma once

#include <chrono>
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

/// Whether what was measured `now` may go into the file with what is `known`.
/// Errors  INVALID_ARGUMENT: measured on another machine, by another library or with other threads.
[[nodiscard]] Status check_continued(const TuningTable& known, const TuningTable& now);

/// How long others may keep a tuning file locked; they hold it for a read and a write.
inline constexpr std::chrono::milliseconds kTuningFileWait{10000};

/// Whether add_to_tuning_file() could write to `path` now; to be asked before anything is measured.
/// Errors  IO_ERROR.
[[nodiscard]] Status check_tuning_file(const std::filesystem::path& path,
                                       std::chrono::milliseconds wait = kTuningFileWait);

/// Adds rows to a tuning file, which need not exist; those of `table` replace those of the same shape.
///
/// Out      what the file holds now.
/// Threads  others that add to it, here or in another process, wait; so no row is lost. Where the file system has no
///          locks for folders, rows are lost if two add at the same moment.
/// Errors   those of read_tuning_file() and check_continued(); IO_ERROR, also where the lock is not free in time;
///          RESOURCE_LIMIT: more rows than are read. The file stays as it was.
[[nodiscard]] Result<TuningTable> add_to_tuning_file(
    const std::filesystem::path& path, TuningTable table,
    std::chrono::milliseconds wait = kTuningFileWait);

}  // namespace ctxgen
