#include "cli.h"
#include "compile/regroup_models.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen split out/decoder_ctx.onnx -o alone/decoder_ctx.onnx\n"
    "      and alone/decoder_dnnl.bin, as if decoder.onnx had been compiled alone\n";

}  // namespace

void add_split(Cli& cli) {
  CLI::App& verb = *cli.app.add_subcommand(
      "split", "take one context model out of those that share its context binary");
  add_regroup_one(cli, verb, /*embed=*/false);
  verb.footer(kExamples);
}

}  // namespace ctxgen::cli
