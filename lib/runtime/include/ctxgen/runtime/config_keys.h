#pragma once

#include <span>
#include <string_view>

#include "ctxgen/base/status.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen {

/// One of ONNX Runtime's session configuration keys, as loading takes it, or one of ours (`ctxgen.`).
struct SessionConfigKey {
  std::string_view name;
  std::string_view values;
  std::string_view meaning;
};

/// All keys that set_session_config() takes, by name.
[[nodiscard]] std::span<const SessionConfigKey> session_config_keys();

/// Applies one key with ONNX Runtime's meaning. The last value of a key holds.
///
/// Errors  INVALID_ARGUMENT: an unknown key or one that does not apply to loading, a bad value, more
///         than 128 characters of a key or 1024 of a value.
[[nodiscard]] Status set_session_config(SessionOptions& options, std::string_view key,
                                        std::string_view value);

}  // namespace ctxgen
