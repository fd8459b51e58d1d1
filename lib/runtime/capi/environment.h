#pragma once

#include <memory>
#include <string_view>

#include "ctxgen/base/log.h"

#include "ctxgen_runtime.h"

namespace ctxgen::capi {

/// Where messages of some sessions go. The library has one log function for all: it hands a message
/// to the environment that the calling thread is in.
class Environment {
 public:
  Environment(ctxgen_log_function function, void* user, LogLevel least);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  [[nodiscard]] LogLevel least() const { return least_; }
  void log(LogLevel level, std::string_view message) const;

 private:
  ctxgen_log_function function_;
  void* user_;
  LogLevel least_;
};

/// While it lives, messages of this thread go to `environment`; null: nowhere.
class EnvironmentScope {
 public:
  explicit EnvironmentScope(const Environment* environment);
  ~EnvironmentScope();
  EnvironmentScope(const EnvironmentScope&) = delete;
  EnvironmentScope& operator=(const EnvironmentScope&) = delete;

 private:
  const Environment* before_;
};

}  // namespace ctxgen::capi

struct ctxgen_environment {
  std::shared_ptr<const ctxgen::capi::Environment> environment;
};
