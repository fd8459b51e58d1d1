#include "environment.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "c_status.h"

namespace ctxgen::capi {
namespace {

thread_local const Environment* t_current = nullptr;

/// All that live: the library formats no message that none of them wants.
struct Registry {
  std::mutex mutex;
  std::vector<const Environment*> all;
};

Registry& registry() {  // never destroyed: an environment may be static
  static auto* const instance = new Registry;
  return *instance;
}

void dispatch(LogLevel level, std::string_view message) {
  if (t_current != nullptr) t_current->log(level, message);
}

/// Requires the registry's lock.
void update_level(const std::vector<const Environment*>& all) {
  LogLevel least = LogLevel::kOff;
  for (const Environment* one : all) least = std::min(least, one->least());
  set_log_function(dispatch, least);
}

}  // namespace

Environment::Environment(ctxgen_log_function function, void* user, LogLevel least)
    : function_(function), user_(user), least_(function == nullptr ? LogLevel::kOff : least) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.all.push_back(this);
  update_level(known.all);
}

Environment::~Environment() {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  std::erase(known.all, this);
  update_level(known.all);
}

void Environment::log(LogLevel level, std::string_view message) const {
  if (level < least_ || least_ == LogLevel::kOff) return;
  function_(user_, static_cast<ctxgen_log_level>(level), std::string(message).c_str());
}

EnvironmentScope::EnvironmentScope(const Environment* environment) : before_(t_current) {
  t_current = environment;
}

EnvironmentScope::~EnvironmentScope() { t_current = before_; }

}  // namespace ctxgen::capi

extern "C" {

ctxgen_status* ctxgen_environment_create(ctxgen_log_function function, void* user, int least,
                                         ctxgen_environment** environment) {
  using ctxgen::capi::Environment;
  return ctxgen::capi::guarded("making an environment", [&]() -> ctxgen::Status {
    CTXGEN_CHECK(ctxgen::capi::not_null(environment, "environment"));
    if (least < CTXGEN_LOG_TRACE || least > CTXGEN_LOG_ERROR)
      return ctxgen::fail(ctxgen::ErrorCode::kInvalidArgument, "log level {} is not known", least);
    auto made = std::make_unique<ctxgen_environment>();
    made->environment =
        std::make_shared<const Environment>(function, user, static_cast<ctxgen::LogLevel>(least));
    *environment = made.release();
    return {};
  });
}

void ctxgen_environment_release(ctxgen_environment* environment) { delete environment; }

}  // extern "C"
