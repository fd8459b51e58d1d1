#pragma once

#include <memory>

#include <CLI/CLI.hpp>

namespace ctxgen::cli {

/// How the help shows an option: names as they are typed, the kind of value, the default in the text.
[[nodiscard]] std::shared_ptr<CLI::Formatter> help_formatter();

}  // namespace ctxgen::cli
