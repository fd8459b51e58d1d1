#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ctxgen/compiler/config_keys.h"

#include "flags/model_flags.h"

namespace ctxgen::cli {

/// --config KEY=VALUE, parted at the first "=": keys have none.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Result<std::vector<ConfigEntry>> parse_config(const std::vector<std::string>& texts);

/// The argument forms of ONNX Runtime's deprecated ep_weight_sharing_ctx_gen (docs/migration.md).
struct OldArguments {
  std::string provider;          // -e EP
  std::string provider_options;  // -i "k|v k|v"
  std::string config;            // -C "k|v k|v"
  std::string plugin;            // -p FILE.json: refused
};

void add_old_arguments(CLI::App& verb, OldArguments& arguments);

/// Adds what they say to the flags and keys that say the same.
/// Errors  INVALID_ARGUMENT: a provider that ctxgen does not have, -e together with --provider, -p, a text
///         that is not "k|v k|v", an option that is there twice.
[[nodiscard]] Status apply_old_arguments(const OldArguments& arguments, ModelFlags& flags,
                                         std::vector<ConfigEntry>& config);

}  // namespace ctxgen::cli
