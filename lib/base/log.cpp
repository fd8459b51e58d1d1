#include "ctxgen/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <memory>
#include <mutex>

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

LogFunction stderr_log_function(bool colour) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      colour ? spdlog::color_mode::always : spdlog::color_mode::never);
  // A logger of our own, not in spdlog's registry: that belongs to the application.
  auto logger = std::make_shared<spdlog::logger>("ctxgen", std::move(sink));
  logger->set_pattern("ctxgen: %^%l%$: %v");
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  return [logger](LogLevel level, std::string_view message) {
    logger->log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
  };
}

}  // namespace ctxgen
