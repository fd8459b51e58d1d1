#include "term/console.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <format>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/json.h"
#include "ctxgen/base/log.h"

namespace ctxgen::cli {
namespace {

std::atomic<bool> json_errors{false};
std::atomic<bool> printed{false};  // something, to stdout

std::string error_json(const Error& error, const ErrorInfo& info) {
  JsonWriter json;
  json.begin_object()
      .key("error")
      .begin_object()
      .field("code", info.printed)
      .field("status", std::int64_t{info.exit_status})
      .field("message", error.message)
      .end_object()
      .end_object();
  return json.finish();
}

}  // namespace

Status print_bytes(std::span<const std::byte> bytes) {
  printed = true;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
  if (!written || std::fflush(stdout) != 0)
    return fail(ErrorCode::kIoError, "standard output: {}", std::strerror(errno));
  return {};
}

Status print(std::string_view text) { return print_bytes(as_bytes(printable(text, true))); }

int report_error(const Error& error) {
  const ErrorInfo& info = error_info(error.code);
  note(std::format("ctxgen: error: {}: {}", info.printed, printable(error.message)));
  // One object at most: where the result is there already, it says what is wrong.
  if (json_errors && !printed) (void)print(error_json(error, info));
  return info.exit_status;
}

void print_errors_as_json(bool wanted) { json_errors = wanted; }

bool errors_are_json() { return json_errors && !printed; }

void warn(std::string_view message) {
  note(std::format("ctxgen: warning: {}", printable(message)));
}

void note(std::string_view message) {
  const std::string line = printable(message, true) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 4> units{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return std::format("{:.1f} {}", value, units[unit]);
}

std::string count_text(std::uint64_t count, std::string_view noun) {
  return std::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace ctxgen::cli
