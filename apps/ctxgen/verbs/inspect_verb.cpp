#include <filesystem>
#include <format>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/base/json.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "cli.h"
#include "show/inspect_context.h"
#include "show/inspect_model.h"
#include "term/console.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen inspect model.onnx\n"
    "  ctxgen inspect model_ctx.onnx           with the context binaries that it names\n"
    "  ctxgen inspect model_dnnl.bin --json\n";

struct Flags {
  std::string file;
  bool json = false;
  Verbosity verbosity;
};

/// A context binary that a model names, or why it cannot be read.
struct NamedContext {
  std::string name;
  Result<ContextReader> reader;
};

std::vector<NamedContext> contexts_of(const ModelFacts& facts, const fs::path& folder) {
  std::vector<NamedContext> contexts;
  std::set<std::string> seen;
  for (const auto& partition : facts.partitions) {
    const std::string& name = partition.attributes.ep_cache_context;
    if (name.empty() || partition.attributes.main_context == 0 || !seen.insert(name).second)
      continue;
    const auto file = map_file_beneath(folder, name);
    contexts.push_back({name, file ? ContextReader::open(*file, name, VerifyBlobs::kNever)
                                   : Result<ContextReader>(std::unexpected(file.error()))});
  }
  return contexts;
}

Status show_context(const Flags& flags, const ContextReader& reader) {
  const std::string name = fs::path(flags.file).filename().string();
  if (!flags.json) return print(context_text(name, reader, flags.verbosity.verbose > 0));
  JsonWriter json;
  json.begin_object().field("kind", "context").key("context");
  write_context(json, name, reader);
  json.end_object();
  return print(json.finish());
}

Status show_model(const Flags& flags, const Model& model) {
  const ModelFacts facts = model_facts(model);
  const fs::path path = flags.file;
  const auto contexts =
      contexts_of(facts, path.has_parent_path() ? path.parent_path() : fs::path("."));
  if (!flags.json) {
    std::string text = model_text(facts);
    for (const NamedContext& context : contexts)
      text += "\n" + (context.reader
                          ? context_text(context.name, *context.reader, flags.verbosity.verbose > 0)
                          : std::format("{}: {}\n", context.name, context.reader.error().message));
    return print(text);
  }
  JsonWriter json;
  json.begin_object()
      .field("kind", facts.partitions.empty() ? "model" : "context_model")
      .key("model");
  write_model(json, facts);
  json.key("contexts").begin_array();
  for (const NamedContext& context : contexts) {
    if (context.reader)
      write_context(json, context.name, *context.reader);
    else
      json.begin_object()
          .field("name", context.name)
          .field("error", context.reader.error().message)
          .end_object();
  }
  json.end_array().end_object();
  return print(json.finish());
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  const Blob file = CTXGEN_TRY(map_file(flags.file));
  const auto reader = ContextReader::open(file, flags.file, VerifyBlobs::kNever);
  if (reader) {
    CTXGEN_CHECK(show_context(flags, *reader));
    return 0;
  }
  const auto model = read_model_file(flags.file);
  if (model) {
    CTXGEN_CHECK(show_model(flags, *model));
    return 0;
  }
  // Neither: the error of what the file seems to be. A context of another version says so itself.
  const bool looks_like_context = fs::path(flags.file).extension() == ".bin" ||
                                  reader.error().code == ErrorCode::kVersionMismatch;
  return std::unexpected(looks_like_context ? reader.error() : model.error());
}

}  // namespace

void add_inspect(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand(
      "inspect", "show what is in a model, a context model or a context binary");
  verb.add_option("file", flags->file, "an ONNX model, context model or context binary")
      ->type_name("FILE")
      ->required();
  verb.add_flag("--json", flags->json, "print JSON");
  add_verbosity(verb, flags->verbosity);
  verb.footer(kExamples);
  verb.callback([&cli, flags] { cli.action = [flags] { return run(*flags); }; });
}

}  // namespace ctxgen::cli
