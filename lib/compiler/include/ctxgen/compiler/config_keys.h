#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "ctxgen/base/status.h"
#include "ctxgen/compiler/compile.h"

namespace ctxgen {

/// ONNX Runtime's limits on session configuration entries, in bytes.
inline constexpr std::size_t kMaxConfigKeyBytes = 128;
inline constexpr std::size_t kMaxConfigValueBytes = 1024;

/// One of ONNX Runtime's session configuration keys, as compiling takes it.
struct ConfigKey {
  std::string_view name;
  std::string_view values;         // what may stand there: "0|1", "FILE"
  std::string_view default_value;  // ONNX Runtime's; "" is also "not given"
  std::string_view meaning;
  std::string_view does_not_apply;  // why not; empty for a key that does
};

/// Every key that is known, sorted by name: those that apply and those that are refused with a
/// reason. docs/options.md and `ctxgen compile --help` show them.
[[nodiscard]] std::span<const ConfigKey> config_keys();

struct ConfigEntry {
  std::string key, value;
};

/// Applies ONNX Runtime's keys to options that hold what was given otherwise (flags, fields).
///
/// Errors  INVALID_ARGUMENT: an unknown key, one that does not apply, one that is there twice, a key
///         or value above ONNX Runtime's limits or out of range; a key and an option that say
///         different things (both are named). `options` is then not to be used.
[[nodiscard]] Status apply_config(CompileOptions& options, std::span<const ConfigEntry> entries);

}  // namespace ctxgen
