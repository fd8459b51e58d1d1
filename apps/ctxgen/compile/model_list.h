#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ctxgen/base/status.h"

namespace ctxgen::cli {

/// One model of compile --list.
struct ListedModel {
  std::size_t line = 0;
  std::string model;
  std::vector<std::string> words;        // its options, -o left out
  std::set<const CLI::Option*> options;  // which of them: they replace those of the command
  std::filesystem::path output;
  std::string
      output_argument;  // of -o for this model alone: the output, or the folder that it goes to
};

/// An option as it was typed, with its value.
struct GivenOption {
  const CLI::Option* option = nullptr;
  std::vector<std::string> words;
};
/// The options on the command line that mean every model of a list, not the list. `words`: the command line without program and verb.
/// Errors  INVALID_ARGUMENT: an option of the list that is in a file of options.
[[nodiscard]] Result<std::vector<GivenOption>> options_of_models(
    const CLI::App& verb, std::span<const std::string> words);

/// Reads the file: on each line a model and, after it, options of its own, as an options file has them. `folder`: where outputs
/// go that have no -o on their line; empty: next to their models.
/// Errors  IO_ERROR; RESOURCE_LIMIT; INVALID_ARGUMENT naming file and line: no model, an option that is not one of compile or not of
///         single models, two models with one output or one context binary.
[[nodiscard]] Result<std::vector<ListedModel>> read_model_list(const CLI::App& verb,
                                                               const std::string& file,
                                                               const std::filesystem::path& folder);

/// "I/N".
struct Shard {
  std::size_t index = 1, count = 1;
  bool by_weights = false;  // models that share weights together; else by their names
};
/// `text`: empty for all. Errors  INVALID_ARGUMENT.
[[nodiscard]] Result<Shard> parse_shard(const std::string& text, bool by_weights);

/// The models of this share: every model is in one of them, and equal lists and models give equal shares anywhere.
[[nodiscard]] std::vector<ListedModel> take_shard(std::vector<ListedModel> models,
                                                  const Shard& shard);

}  // namespace ctxgen::cli
