#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ctxgen/base/status.h"

namespace ctxgen::cli {

/// What the verb on the command line wants done; gives the exit status.
using Action = std::function<Result<int>()>;

/// The program while its arguments are declared and read: each verb adds its subcommand and, when
/// chosen, puts its action here.
struct Cli {
  CLI::App& app;
  Action action;
  std::vector<std::string> arguments;              // as given, the program's name first
  std::set<const CLI::Option*> may_be_empty = {};  // options for which "" is a value
};

void add_compile(Cli& cli);
void add_merge(Cli& cli);
void add_sign(Cli& cli);
void add_split(Cli& cli);
void add_embed(Cli& cli);
void add_extract(Cli& cli);
void add_bundle(Cli& cli);
void add_run(Cli& cli);
void add_verify(Cli& cli);
void add_verify_signature(Cli& cli);
void add_check(Cli& cli);
void add_inspect(Cli& cli);
void add_explain(Cli& cli);
void add_bench(Cli& cli);
void add_report(Cli& cli);
void add_providers(Cli& cli);
void add_cache(Cli& cli);
void add_doctor(Cli& cli);

/// -q and -v, which every verb of the help takes.
struct Verbosity {
  bool quiet = false;
  int verbose = 0;
};
void add_verbosity(CLI::App& verb, Verbosity& verbosity);
/// Sends the library's log to stderr: warnings, with -v what it does, with -q errors only.
void apply(const Verbosity& verbosity);

}  // namespace ctxgen::cli
