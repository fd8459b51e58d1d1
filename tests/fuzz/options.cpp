// The parsers of options, to a verb with the flags about compiling: one argument of a command line per
// line of the input, or, where that begins with "#", the content of a file of options.
#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "flags/arguments.h"
#include "flags/model_flags.h"
#include "flags/options_file.h"
#include "flags/usage.h"
#include "fuzz_input.h"
#include "stages/prepare_model.h"

using namespace ctxgen;

namespace {

void check(const CompileOptions& options) {
  static_cast<void>(ProviderList::make(options));
  for (const ShapeProfile& profile : options.profiles) {
    for (const auto& [name, number] : profile.symbols)
      fuzz::expect(!name.empty() && number >= 0, "a dimension that is none");
    for (const auto& [name, dims] : profile.inputs)
      for (const std::int64_t dim : dims)
        fuzz::expect(!name.empty() && dim >= 0, "a shape that is none");
  }
  for (const auto& [provider, option] : options.provider_options)
    fuzz::expect(!provider.empty() && !option.first.empty(), "a provider option without a name");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool is_file = text.starts_with('#');
  std::vector<std::string> arguments = {"ctxgen", "compile"};
  if (!is_file)
    for (std::string& line : cli::split(text, '\n'))
      arguments.push_back(line.substr(0, line.find('\0')));
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  CLI::App app("fuzz", "ctxgen");
  cli::ModelFlags flags;
  CLI::App* verb = app.add_subcommand("compile", "compile");
  cli::add_model_flags(*verb, flags);
  const cli::Cli cli{app, {}, arguments};
  auto words = cli::check_words(cli, {arguments.begin() + 1, arguments.end()});
  static_cast<void>(cli::asks_for_json(cli, {arguments.begin() + 1, arguments.end()}));
  if (!words) return 0;
  try {
    std::ranges::reverse(*words);
    app.parse(std::move(*words));
  } catch (const CLI::ParseError&) {
    return 0;
  }
  if (is_file && !cli::apply_options_text(*verb, text, "options")) return 0;
  if (const auto options = cli::compile_options(flags)) check(*options);
  return 0;
}
