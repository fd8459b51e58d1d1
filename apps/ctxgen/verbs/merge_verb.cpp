#include <memory>

#include "cli.h"
#include "compile/regroup_models.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen merge a/encoder_ctx.onnx b/decoder_ctx.onnx -o out\n"
    "      out/encoder_ctx.onnx, out/decoder_ctx.onnx and out/encoder_dnnl.bin: what\n"
    "      ctxgen compile encoder.onnx,decoder.onnx -o out would have written\n"
    "  ctxgen merge shards/*_ctx.onnx -o out --json\n";

}  // namespace

void add_merge(Cli& cli) {
  const auto flags = std::make_shared<RegroupFlags>();
  CLI::App& verb = *cli.app.add_subcommand(
      "merge", "write context models of separate compiles again, with one context binary");
  verb.add_option("context", flags->models, "context models, separated by commas or blanks")
      ->type_name("CONTEXT[,CONTEXT...]")
      ->required();
  add_regroup_flags(verb, *flags, "a folder, which keeps the names of the models");
  add_regroup_names(verb, *flags);
  verb.footer(kExamples);
  verb.callback([&cli, flags] {
    cli.action = [flags] { return regroup_models(*flags, RegroupOutput::kFolder); };
  });
}

}  // namespace ctxgen::cli
