#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "ctxgen/compiler/option_table.h"

namespace ctxgen::cli {

/// Declares the flag of an option of the compile API with the words of its row, bound to its field: for fields
/// that take a value as it is given.
CLI::Option* add_option_flag(CLI::App& verb, CompileOptions& options, OptionSlot slot);

/// Likewise for an option whose value is a text with a form of its own, which the verb reads.
template <class Text>
CLI::Option* add_text_flag(CLI::App& verb, Text& text, OptionSlot slot) {
  const OptionRow& row = option_row(slot);
  return verb.add_option(std::string(row.flag), text, std::string(row.help))
      ->type_name(std::string(row.value))
      ->allow_extra_args(false);
}

}  // namespace ctxgen::cli
