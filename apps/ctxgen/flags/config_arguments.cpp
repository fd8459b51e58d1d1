#include "flags/config_arguments.h"

#include <algorithm>
#include <ranges>

#include "ctxgen/registry/providers.h"

#include "flags/arguments.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kGroup = "Arguments of ep_weight_sharing_ctx_gen (docs/migration.md)";

/// "k|v k|v", as that tool reads it: blanks part the pairs, so values hold none.
Result<std::vector<ConfigEntry>> parse_pairs(const std::string& text, std::string_view option) {
  std::vector<ConfigEntry> pairs;
  for (const std::string& pair : split(text, ' ')) {
    if (pair.empty()) continue;
    const std::size_t bar = pair.find('|');
    if (bar == std::string::npos || bar == 0 || pair.find('|', bar + 1) != std::string::npos)
      return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is not KEY|VALUE", option, pair);
    ConfigEntry entry{pair.substr(0, bar), pair.substr(bar + 1)};
    if (std::ranges::contains(pairs, entry.key, &ConfigEntry::key))
      return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" is given twice", option, entry.key);
    pairs.push_back(std::move(entry));
  }
  return pairs;
}

}  // namespace

Result<std::vector<ConfigEntry>> parse_config(const std::vector<std::string>& texts) {
  std::vector<ConfigEntry> entries;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(ErrorCode::kInvalidArgument, "--config: \"{}\" is not KEY=VALUE", text);
    entries.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return entries;
}

void add_old_arguments(CLI::App& verb, OldArguments& arguments) {
  verb.add_option("-e", arguments.provider,
                  "same as --provider EP; qnn and similar EPs are refused")
      ->type_name("EP")
      ->group(kGroup);
  verb.add_option("-i", arguments.provider_options,
                  "same as --provider-option, for the provider of -e")
      ->type_name("\"K|V K|V\"")
      ->group(kGroup);
  verb.add_option("-C", arguments.config, "same as --config")
      ->type_name("\"K|V K|V\"")
      ->group(kGroup);
  verb.add_option("-p", arguments.plugin, "refused: plugins of other vendors are not loaded")
      ->type_name("FILE.json")
      ->group(kGroup);
}

Status apply_old_arguments(const OldArguments& arguments, ModelFlags& flags,
                           std::vector<ConfigEntry>& config) {
  if (!arguments.plugin.empty())
    return fail(ErrorCode::kInvalidArgument,
                "-p {}: ctxgen compiles with its own providers and loads no plugin",
                arguments.plugin);
  if (!arguments.provider.empty()) {
    if (flags.providers)
      return fail(ErrorCode::kInvalidArgument, "-e {} cannot be combined with --provider {}",
                  arguments.provider, *flags.providers);
    if (const auto known = make_provider(arguments.provider); !known)
      return std::unexpected(with_context(known.error(), "-e"));
    flags.providers = arguments.provider;
  }
  const std::string provider =
      arguments.provider.empty() ? default_providers().front() : arguments.provider;
  for (const ConfigEntry& pair : CTXGEN_TRY(parse_pairs(arguments.provider_options, "-i")))
    flags.provider_options.push_back(std::format("{}:{}={}", provider, pair.key, pair.value));
  std::ranges::move(CTXGEN_TRY(parse_pairs(arguments.config, "-C")), std::back_inserter(config));
  return {};
}

}  // namespace ctxgen::cli
