// ctxgen documents DIR: the manual pages and completions, from the declarations that read the command line.
#include "verbs/documents_verb.h"

#include <filesystem>
#include <memory>
#include <string>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/file.h"

#include "cli.h"
#include "flags/flag_table.h"
#include "help/completions.h"
#include "help/manual.h"

namespace ctxgen::cli {
namespace {

Result<int> run(const CLI::App& app, const std::filesystem::path& folder) {
  const std::vector<VerbEntry> verbs = flag_table(app);
  CTXGEN_CHECK(write_file(folder / "ctxgen.1", as_bytes(manual_of_program(app, verbs))));
  for (const VerbEntry& verb : verbs)
    CTXGEN_CHECK(
        write_file(folder / ("ctxgen-" + verb.name + ".1"), as_bytes(manual_of_verb(verb))));
  CTXGEN_CHECK(write_file(folder / "ctxgen.bash", as_bytes(bash_completion(verbs))));
  CTXGEN_CHECK(write_file(folder / "_ctxgen", as_bytes(zsh_completion(verbs))));
  CTXGEN_CHECK(write_file(folder / "ctxgen.fish", as_bytes(fish_completion(verbs))));
  return 0;
}

}  // namespace

void add_documents(Cli& cli) {
  const auto folder = std::make_shared<std::string>();
  CLI::App& verb = *cli.app.add_subcommand("documents", "write manual pages and completions");
  verb.group("");  // for the build: not in the help
  verb.add_option("folder", *folder, "where to")->type_name("DIR")->required();
  verb.callback([&cli, folder] { cli.action = [&cli, folder] { return run(cli.app, *folder); }; });
}

}  // namespace ctxgen::cli
