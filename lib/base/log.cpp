#include "ctxgen/base/log.h"

#include <atomic>
#include <memory>
#include <mutex>

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace ctxgen {
namespace {

struct LogTarget {
  std::mutex mutex;
  std::shared_ptr<const LogFunction> function;
  std::atomic<LogLevel> least{LogLevel::kOff};
};

// Never destroyed: a thread that outlives main() may still log.
LogTarget& target() {
  static auto* const instance = new LogTarget;
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace: return spdlog::level::trace;
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_log_function(LogFunction function, LogLevel least) {
  LogTarget& to = target();
  const std::lock_guard lock(to.mutex);
  to.least = function ? least : LogLevel::kOff;
  to.function = function ? std::make_shared<const LogFunction>(std::move(function)) : nullptr;
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::kOff && level >= target().least.load(std::memory_order_relaxed);
}

void log_message(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  LogTarget& to = target();
  std::shared_ptr<const LogFunction> function;
  {
    const std::lock_guard lock(to.mutex);  // not held during the call: the function may log itself
    function = to.function;
  }
  if (function) (*function)(level, message);
}

std::string printable(std::string_view text, bool is_layout) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      out += std::format("\\u{:04x}", unsigned{next});
      ++i;
    } else if ((byte < 0x20 && !(is_layout && (byte == '\n' || byte == '\t'))) || byte == 0x7F) {
      out += std::format("\\x{:02x}", unsigned{byte});
    } else {
      out += text[i];
    }
  }
  return out;
}

LogFunction stderr_log_function(bool colour) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      colour ? spdlog::color_mode::always : spdlog::color_mode::never);
  // A logger of our own, not in spdlog's registry: that belongs to the application.
  auto logger = std::make_shared<spdlog::logger>("ctxgen", std::move(sink));
  logger->set_pattern("ctxgen: %^%l%$: %v");
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  return [logger](LogLevel level, std::string_view message) {
    const std::string line = printable(message);
    logger->log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
  };
}

}  // namespace ctxgen
