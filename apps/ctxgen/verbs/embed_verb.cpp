#include "cli.h"
#include "compile/regroup_models.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen embed model_ctx.onnx -o one_file.onnx\n"
    "      as compile --embed writes it; needs no other file\n";

}  // namespace

void add_embed(Cli& cli) {
  CLI::App& verb =
      *cli.app.add_subcommand("embed", "put the context binary of a context model inside of it");
  add_regroup_one(cli, verb, /*embed=*/true);
  verb.footer(kExamples);
}

}  // namespace ctxgen::cli
