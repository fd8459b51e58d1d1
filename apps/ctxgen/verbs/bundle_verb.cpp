#include <format>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/compiler/bundle.h"

#include "cli.h"
#include "compile/compile_outputs.h"
#include "flags/value_checks.h"
#include "term/console.h"
#include "term/interrupt.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen bundle model_ctx.onnx -o layout --format oci --tag v1\n"
    "      an OCI image layout, which oras and skopeo copy into a registry\n"
    "  ctxgen bundle encoder_ctx.onnx decoder_ctx.onnx -o image --format oci-image\n"
    "      an image that Kubernetes mounts as a volume\n"
    "  ctxgen bundle avx2/model_ctx.onnx avx512/model_ctx.onnx -o package --format onnxruntime\n"
    "      a model package of which ONNX Runtime takes the variant for its machine\n";

const std::vector<std::pair<std::string, int>> kFormats = {
    {"oci", static_cast<int>(BundleFormat::kOciArtifact)},
    {"oci-image", static_cast<int>(BundleFormat::kOciImage)},
    {"onnxruntime", static_cast<int>(BundleFormat::kModelPackage)},
};

struct Flags {
  std::vector<std::string> models;
  std::string output;
  BundleFormat format = BundleFormat::kOciArtifact;
  std::string tag;
  bool json = false;
  Verbosity verbosity;
};

std::string json_text(const Flags& flags, const BundleReport& report) {
  JsonWriter json;
  json.begin_object().field("folder", flags.output);
  for (const auto& [name, format] : kFormats)
    if (format == static_cast<int>(flags.format)) json.field("format", name);
  json.key("models").begin_array();
  for (const BundleReport::Model& model : report.models) {
    json.begin_object()
        .field("input", model.input.string())
        .field("file", model.file)
        .list("instruction_sets", model.instruction_sets)
        .list("precisions", model.precisions);
    if (!model.component.empty())
      json.field("component", model.component).field("variant", model.variant);
    json.end_object();
  }
  json.end_array().key("files").begin_array();
  for (const BundleReport::File& file : report.files) {
    json.begin_object()
        .field("name", file.name)
        .field("kind", file.kind)
        .field("bytes", file.bytes);
    if (!file.digest.empty())
      json.field("media_type", file.media_type).field("digest", file.digest);
    json.end_object();
  }
  json.end_array();
  if (!report.manifest_digest.empty()) json.field("manifest_digest", report.manifest_digest);
  json.field("bytes", report.bytes).key("files_read").begin_array();
  for (const auto& file : report.files_read) json.value(file.string());
  json.end_array().field("seconds", report.seconds).end_object();
  return json.finish();
}

std::string plain_text(const Flags& flags, const BundleReport& report) {
  std::string text;
  for (const BundleReport::File& file : report.files) {
    text += std::format("{} ({})", file.name, size_text(file.bytes));
    if (!file.digest.empty()) text += " " + file.digest;
    text += "\n";
  }
  for (const BundleReport::Model& model : report.models)
    if (!model.component.empty())
      text += std::format("{}: variant \"{}\" of component \"{}\"\n", model.input.string(),
                          model.variant, model.component);
  text += std::format("{} ({}), {:.2f} s", flags.output, size_text(report.bytes), report.seconds);
  if (!report.manifest_digest.empty()) text += " " + report.manifest_digest;
  return text + "\n";
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  BundleOptions options;
  options.format = flags.format;
  options.cancelled = interrupted;
  if (!flags.tag.empty()) {
    if (flags.format == BundleFormat::kModelPackage)
      return fail(ErrorCode::kInvalidArgument,
                  "--tag names a manifest in an OCI layout; --format onnxruntime has none");
    options.tag = flags.tag;
  }
  std::vector<std::filesystem::path> models;
  for (const std::string& model : expand_models(flags.models)) {
    if (model.empty()) return fail(ErrorCode::kInvalidArgument, "an empty model name");
    models.emplace_back(model);
  }
  handle_interrupts(Interrupt::kCooperative);
  const BundleReport report = CTXGEN_TRY(make_bundle(models, flags.output, options));
  if (flags.json || !flags.verbosity.quiet)
    CTXGEN_CHECK(print(flags.json ? json_text(flags, report) : plain_text(flags, report)));
  return 0;
}

}  // namespace

void add_bundle(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand(
      "bundle", "copy context models and their files into an OCI layout or a model package");
  verb.add_option("context", flags->models, "context models, separated by commas or blanks")
      ->type_name("CONTEXT[,CONTEXT...]")
      ->required();
  verb.add_option("-o,--output", flags->output, "the folder: a new one, or an empty one")
      ->type_name("DIR")
      ->required();
  verb.add_option("--format", flags->format,
                  "an OCI artifact of files, an OCI image, or ONNX Runtime's model package "
                  "(default: oci)")
      ->type_name("oci|oci-image|onnxruntime")
      ->transform(one_word_of(kFormats));
  verb.add_option("--tag", flags->tag, "the tag of an artifact or image (default: latest)")
      ->type_name("TAG");
  verb.add_flag("--json", flags->json, "print JSON");
  add_verbosity(verb, flags->verbosity);
  verb.footer(kExamples);
  verb.callback([&cli, flags] { cli.action = [flags] { return run(*flags); }; });
}

}  // namespace ctxgen::cli
