#include "cli.h"
#include "compile/regroup_models.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen extract one_file.onnx -o out/model_ctx.onnx\n"
    "      and out/model_dnnl.bin\n";

}  // namespace

void add_extract(Cli& cli) {
  CLI::App& verb = *cli.app.add_subcommand(
      "extract", "put the context binary inside of a context model into a file");
  add_regroup_one(cli, verb, /*embed=*/false);
  verb.footer(kExamples);
}

}  // namespace ctxgen::cli
