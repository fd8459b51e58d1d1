#include "flags/option_flags.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "flags/value_checks.h"

namespace ctxgen::cli {
namespace {

const std::vector<std::pair<std::string, int>> kOptimizationLevels = {
    {"none", static_cast<int>(GraphOptimization::kNone)},
    {"basic", static_cast<int>(GraphOptimization::kBasic)},
    {"extended", static_cast<int>(GraphOptimization::kExtended)},
    {"all", static_cast<int>(GraphOptimization::kAll)},
};

/// One declaration; which one follows from the field's type.
struct Declaration {
  CLI::App& verb;
  CompileOptions& options;
  std::string flag, help;

  CLI::Option* operator()(OptionField<bool> slot) const {
    return verb.add_flag(flag, options.*slot, help);
  }
  CLI::Option* operator()(OptionField<std::string> slot) const {
    return verb.add_option(flag, options.*slot, help);
  }
  CLI::Option* operator()(OptionField<int> slot) const {
    return verb.add_option(flag, options.*slot, help)->transform(thread_count());
  }
  CLI::Option* operator()(OptionField<std::uint64_t> slot) const {
    return verb.add_option(flag, options.*slot, help)->transform(byte_count());
  }
  CLI::Option* operator()(OptionField<std::optional<std::uint64_t>> slot) const {
    return verb.add_option(flag, options.*slot, help)->transform(byte_count());
  }
  CLI::Option* operator()(OptionField<GraphOptimization> slot) const {
    return verb.add_option(flag, options.*slot, help)->transform(one_word_of(kOptimizationLevels));
  }
  CLI::Option* operator()(OptionField<std::filesystem::path> slot) const { return path(slot); }
  CLI::Option* operator()(OptionField<std::optional<std::filesystem::path>> slot) const {
    return path(slot);
  }
  template <class Other>
  CLI::Option* operator()(Other /*slot*/) const {
    CTXGEN_ASSERT(false);  // add_text_flag() is for these
    return nullptr;
  }

  /// CLI11 would read a path up to its first blank.
  template <class Slot>
  CLI::Option* path(Slot slot) const {
    return verb.add_option_function<std::string>(
        flag, [&to = options, slot](const std::string& text) { to.*slot = text; }, help);
  }
};

}  // namespace

CLI::Option* add_option_flag(CLI::App& verb, CompileOptions& options, OptionSlot slot) {
  const OptionRow& row = option_row(slot);
  CLI::Option* option =
      std::visit(Declaration{verb, options, std::string(row.flag), std::string(row.help)}, slot);
  return row.value.empty() ? option : option->type_name(std::string(row.value));
}

}  // namespace ctxgen::cli
