#pragma once

#include <format>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ctxgen {

enum class LogLevel { kTrace, kDebug, kInfo, kWarning, kError, kOff };

/// The library prints nothing by itself: messages go to this function, by default nowhere.
/// Threads: may be called from any thread; set it before other calls into the library.
using LogFunction = std::function<void(LogLevel, std::string_view message)>;
void set_log_function(LogFunction function, LogLevel least);

/// Text for a terminal: names out of a model must not drive it. Control characters become "\\x1b" and
/// the like; line feeds and tabs stay if `is_layout`, in texts that are laid out by us.
[[nodiscard]] std::string printable(std::string_view text, bool is_layout = false);

/// A LogFunction that writes "ctxgen: warning: ..." lines to stderr (spdlog).
[[nodiscard]] LogFunction stderr_log_function(bool colour);

[[nodiscard]] bool log_enabled(LogLevel level);
void log_message(LogLevel level, std::string_view message);

template <class... Args>
void log(LogLevel level, std::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_message(level, std::format(format, std::forward<Args>(args)...));
}

}  // namespace ctxgen
