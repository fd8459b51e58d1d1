#include <algorithm>
#include <format>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

#include "ctxgen/base/suggest.h"
#include "ctxgen/compiler/config_keys.h"
#include "ctxgen/compiler/option_table.h"

#include "output/output_names.h"

namespace ctxgen {
namespace {

using Apply = Status (*)(CompileOptions&, const ConfigEntry&);

struct Row {
  ConfigKey key;
  Apply apply;  // nullptr: does_not_apply says why
};

Result<bool> boolean(const ConfigEntry& entry) {
  if (entry.value == "0" || entry.value == "1") return entry.value == "1";
  return fail(ErrorCode::kInvalidArgument, "{}=\"{}\": expected 0 or 1", entry.key, entry.value);
}

Status contradiction(const ConfigEntry& entry, std::string_view option) {
  return fail(ErrorCode::kInvalidArgument, "{}={} cannot be combined with {}", entry.key,
              entry.value, option);
}

/// A switch that an option may have set already; a key cannot take that back.
Status set_switch(CompileOptions& options, const ConfigEntry& entry, OptionField<bool> slot) {
  const bool wanted = CTXGEN_TRY(boolean(entry));
  if (options.*slot && !wanted) return contradiction(entry, option_name(options, slot));
  options.*slot = wanted;
  return {};
}

/// A text or path: empty where nothing was given.
template <class T>
Status set_text(CompileOptions& options, const ConfigEntry& entry, OptionField<T> slot) {
  if (entry.value.empty()) return {};  // ONNX Runtime's "not given"
  const T wanted(entry.value);
  T& value = options.*slot;
  if (!value.empty() && value != wanted)
    return contradiction(entry, option_name(options, slot) + " " + std::string(value));
  value = wanted;
  return {};
}

Status context_enable(CompileOptions& /*options*/, const ConfigEntry& entry) {
  if (CTXGEN_TRY(boolean(entry))) return {};
  return contradiction(entry, "compiling");
}

Status context_file_path(CompileOptions& options, const ConfigEntry& entry) {
  if (!options.context_file_path.empty() && !entry.value.empty() &&
      options.context_file_path != std::filesystem::path(entry.value))
    return contradiction(entry, "the output " + options.context_file_path.string());
  return set_text(options, entry, &CompileOptions::context_file_path);
}

Status embed_mode(CompileOptions& options, const ConfigEntry& entry) {
  return set_switch(options, entry, &CompileOptions::embed);
}

Status node_name_prefix(CompileOptions& options, const ConfigEntry& entry) {
  return set_text(options, entry, &CompileOptions::node_prefix);
}

/// ONNX Runtime has no threshold besides this key: everything goes out.
Status external_file(CompileOptions& options, const ConfigEntry& entry) {
  CTXGEN_CHECK(set_text(options, entry, &CompileOptions::external_initializers));
  if (!options.external_threshold && !entry.value.empty()) options.external_threshold = 0;
  return {};
}

Status external_data_folder(CompileOptions& options, const ConfigEntry& entry) {
  return set_text(options, entry, &CompileOptions::external_data_folder);
}

Status share(CompileOptions& options, const ConfigEntry& entry) {
  options.share_ep_contexts = CTXGEN_TRY(boolean(entry));
  return {};
}

Status stop_share(CompileOptions& options, const ConfigEntry& entry) {
  options.stop_share_ep_contexts = CTXGEN_TRY(boolean(entry));
  return {};
}

/// As ONNX Runtime: who names cpu among the providers cannot forbid it.
Status disable_cpu_fallback(CompileOptions& options, const ConfigEntry& entry) {
  const bool wanted = CTXGEN_TRY(boolean(entry));
  if (wanted && std::ranges::any_of(options.providers, is_cpu_provider))
    return contradiction(entry, "provider cpu, given explicitly,");
  if (options.strict && !wanted)
    return contradiction(entry, option_name(options, &CompileOptions::strict));
  options.strict = wanted;
  return {};
}

Status disable_compile(CompileOptions& options, const ConfigEntry& entry) {
  return set_switch(options, entry, &CompileOptions::disable_model_compile);
}

Status fail_on_suboptimal(CompileOptions& options, const ConfigEntry& entry) {
  return set_switch(options, entry, &CompileOptions::fail_on_suboptimal);
}

Status set_weightless(CompileOptions& options, const ConfigEntry& entry, WeightlessMode wanted) {
  if (options.weightless != WeightlessMode::kNone && options.weightless != wanted)
    return contradiction(entry,
                         std::format("weightless mode {}", static_cast<int>(options.weightless)));
  options.weightless = wanted;
  return {};
}

/// The older key; it never concerned more than external data.
Status weightless_nodes(CompileOptions& options, const ConfigEntry& entry) {
  const bool wanted = CTXGEN_TRY(boolean(entry));
  return set_weightless(options, entry,
                        wanted ? WeightlessMode::kExternalOnly : WeightlessMode::kNone);
}

Status weightless_mode(CompileOptions& options, const ConfigEntry& entry) {
  if (entry.value != "0" && entry.value != "1" && entry.value != "2")
    return fail(ErrorCode::kInvalidArgument, "{}=\"{}\": expected 0, 1 or 2", entry.key,
                entry.value);
  return set_weightless(options, entry, static_cast<WeightlessMode>(entry.value.front() - '0'));
}

constexpr Row kRows[] = {
    // name, values, ONNX Runtime's default, meaning, why it does not apply; what it does
    {{"ep.context_embed_mode", "0|1", "0", "1: the context binary is inside the model (--embed)",
      ""},
     embed_mode},
    {{"ep.context_enable", "1", "0", "compiling implies 1; 0 is refused", ""}, context_enable},
    {{"ep.context_file_path", "FILE", "", "the context model (-o); a file, not a folder", ""},
     context_file_path},
    {{"ep.context_model_external_initializers_file_name", "NAME", "",
      "initializers that stay go to this file next to the model (--external-initializers); all of them, unless --external-threshold says otherwise",
      ""},
     external_file},
    {{"ep.context_node_name_prefix", "P", "",
      "prefix for the names of EPContext nodes and partitions (--node-prefix)", ""},
     node_name_prefix},
    {{"ep.context_source_model_path", "", "", "where a load finds a weightless model's source",
      "a compile reads the source that it is given: set it where the context model is loaded"},
     nullptr},
    {{"ep.enable_weightless", "", "0", "weights stay outside (deprecated)",
      "it selects no mode: give ep.enable_weightless_mode"},
     nullptr},
    {{"ep.enable_weightless_ep_context_nodes", "0|1", "0",
      "1: weights in external data stay there (deprecated)", ""},
     weightless_nodes},
    {{"ep.enable_weightless_mode", "0|1|2", "0",
      "weights that stay where they are: 0 none, 1 those in external data, 2 all", ""},
     weightless_mode},
    {{"ep.share_ep_contexts", "0|1", "0",
      "1: the models of this compile share one context binary, as those of a batch always do, so 0 is refused for a batch",
      ""},
     share},
    {{"ep.stop_share_ep_contexts", "0|1", "0",
      "1: the last model of the group; a command's models are a whole group, so 0 is refused with ep.share_ep_contexts=1",
      ""},
     stop_share},
    {{"session.compile_only", "", "0", "tells a provider that nothing will run",
      "ONNX Runtime sets it itself; compiling here never runs the model"},
     nullptr},
    {{"session.disable_cpu_ep_fallback", "0|1", "0",
      "1: fail if a node is left to cpu (--strict); cannot be combined with cpu in --provider", ""},
     disable_cpu_fallback},
    {{"session.disable_model_compile", "0|1", "0",
      "1: fail (NOT_SATISFIED) if a provider would compile a node of the model", ""},
     disable_compile},
    {{"session.fail_on_suboptimal_compiled_model", "0|1", "0",
      "1: fail (NOT_SATISFIED) if the result would not be optimal for this machine", ""},
     fail_on_suboptimal},
    {{"session.model_external_initializers_file_folder_path", "DIR", "",
      "folder of the source's external data (--external-data-dir)", ""},
     external_data_folder},
    {{"session.optimized_model_external_initializers_file_name", "", "",
      "external file of the optimised model",
      "no optimised model is written: ep.context_model_external_initializers_file_name is for the "
      "context model"},
     nullptr},
    {{"session.optimized_model_external_initializers_min_size_in_bytes", "", "1024",
      "threshold of the optimised model's external file",
      "no optimised model is written: --external-threshold is for the context model"},
     nullptr},
    {{"session.record_ep_graph_assignment_info", "", "0", "records which provider runs each node",
      "--report and `ctxgen explain` always have it"},
     nullptr},
    {{"session.save_external_prepacked_constant_initializers", "", "0",
      "stores the CPU provider's packed weights",
      "the context binary already holds packed weights"},
     nullptr},
};

const Row* find_row(std::string_view key) {
  const auto at = std::ranges::lower_bound(kRows, key, {}, [](const Row& r) { return r.key.name; });
  return at != std::end(kRows) && at->key.name == key ? &*at : nullptr;
}

std::vector<std::string> names_that_apply() {
  std::vector<std::string> names;
  for (const Row& row : kRows)
    if (row.apply != nullptr) names.emplace_back(row.key.name);
  return names;
}

Status check_entry(const ConfigEntry& entry) {
  if (entry.key.size() > kMaxConfigKeyBytes)
    return fail(ErrorCode::kInvalidArgument, "key \"{}...\": {} characters, at most {} are allowed",
                entry.key.substr(0, kMaxConfigKeyBytes), entry.key.size(), kMaxConfigKeyBytes);
  if (entry.value.size() > kMaxConfigValueBytes)
    return fail(ErrorCode::kInvalidArgument, "{}: a value of {} characters, at most {} are allowed",
                entry.key, entry.value.size(), kMaxConfigValueBytes);
  return {};
}

}  // namespace

std::span<const ConfigKey> config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> all;
    std::ranges::transform(kRows, std::back_inserter(all), &Row::key);
    return all;
  }();
  return keys;
}

Status apply_config(CompileOptions& options, std::span<const ConfigEntry> entries) {
  std::set<std::string_view> seen;
  for (const ConfigEntry& entry : entries) {
    CTXGEN_CHECK(check_entry(entry));
    const Row* row = find_row(entry.key);
    if (row == nullptr)
      return fail(ErrorCode::kInvalidArgument, "unknown key \"{}\"{}", entry.key,
                  did_you_mean(entry.key, names_that_apply()));
    if (!seen.insert(row->key.name).second)
      return fail(ErrorCode::kInvalidArgument, "key \"{}\" is given twice", entry.key);
    if (row->apply == nullptr)
      return fail(ErrorCode::kInvalidArgument, "key \"{}\" does not apply to compiling: {}",
                  entry.key, row->key.does_not_apply);
    CTXGEN_CHECK(row->apply(options, entry));
  }
  return {};
}

}  // namespace ctxgen
