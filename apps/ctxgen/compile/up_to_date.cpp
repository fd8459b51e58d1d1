#include "compile/up_to_date.h"

#include <algorithm>
#include <format>

#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/runtime/check.h"
#include "ctxgen/weights/external_file.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;
using Kind = FileReport::Kind;

/// Adds a file that is there, once.
void add_file(std::vector<FileReport>& files, const fs::path& path, Kind kind) {
  if (std::ranges::contains(files, path, &FileReport::path)) return;
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  files.push_back({path, kind, error ? 0 : bytes, FileReport::State::kUnchanged});
}

bool is_ours(const Node& node) {
  return node.op_type == kEpContextOpType && node.domain == kMicrosoftDomain &&
         node.string_or("source", "").starts_with("Ctxgen");
}

/// Why the nodes of a graph, and of the bodies in it, do not have their programs where this compile would put them;
/// empty: they do.
std::string other_place(const Graph& graph, const CompileOptions& options, const CompileKey& key) {
  for (const Node& node : graph.nodes()) {
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs)
        if (std::string why = other_place(*body, options, key); !why.empty()) return why;
    if (!is_ours(node) || node.int_or("main_context", 1) == 0) continue;
    const bool embedded = node.int_or("embed_mode", 1) == 1;
    if (embedded != options.embed)
      return embedded ? "its context binary is inside it" : "its context binary is not inside it";
    const std::string_view bin = node.string_or("ep_cache_context", "");
    if (!embedded && !std::ranges::contains(key.bin_references, bin))
      return std::format("it names another context binary, \"{}\"", bin);
  }
  return "";
}

/// The same for initializers that are in a file of their own.
std::string other_initializers(const Model& model, const CompileOptions& options) {
  const auto entry = std::ranges::find(model.metadata, kExternalFileKey,
                                       &std::pair<std::string, std::string>::first);
  if (entry == model.metadata.end()) return "";
  const std::string_view name = std::string_view(entry->second).substr(0, entry->second.rfind(':'));
  if (name == options.external_initializers) return "";
  return std::format("its initializers are in another file, \"{}\"", name);
}

/// The bins that a graph and the bodies in it name.
void add_bins(std::vector<FileReport>& files, const Graph& graph, const fs::path& folder) {
  for (const Node& node : graph.nodes()) {
    if (is_ours(node) && node.int_or("main_context", 1) == 1 && node.int_or("embed_mode", 1) == 0)
      add_file(files, folder / node.string_or("ep_cache_context", ""), Kind::kBin);
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) add_bins(files, *body, folder);
  }
}

struct KeyPart {
  std::string_view name, meaning;
};
constexpr KeyPart kKeyParts[] = {
    {"model", "another model (or other external data)"},
    {"options", "other options"},
    {"target", "another target (providers or instruction set)"},
    {"versions", "other versions of ctxgen, its format or onnx"},
};

/// How the compile that made a model differs from the one that has `key`.
std::string other_parts(const Model& model, const ModelKey& key) {
  const auto entry = std::ranges::find(model.metadata, kCompileKeyPartsMetadata,
                                       &std::pair<std::string, std::string>::first);
  std::string others;
  if (entry != model.metadata.end())
    for (const auto& [name, meaning] : kKeyParts)
      if (key_part(entry->second, name) != key_part(key.parts, name))
        others += std::format("{}{}", others.empty() ? "" : ", ", meaning);
  return "it was compiled from different inputs: " +
         (others.empty() ? "model, options, target or versions" : others);
}

std::string why_not_current(const fs::path& output, const CompileOptions& options,
                            const CompileKey& key, const ModelKey& model_key,
                            std::vector<FileReport>& files) {
  std::error_code ignored;
  if (!fs::exists(output, ignored)) return "it does not exist";
  const auto model = read_model_file(output);
  if (!model) return model.error().message;
  const auto entry = std::ranges::find(model->metadata, kCompileKeyMetadata,
                                       &std::pair<std::string, std::string>::first);
  if (entry == model->metadata.end())
    return "it was not compiled by ctxgen, or by an older version";
  if (entry->second != model_key.hash.hex()) return other_parts(*model, model_key);
  if (std::string why = other_place(model->graph, options, key); !why.empty()) return why;
  if (std::string why = other_initializers(*model, options); !why.empty()) return why;
  SessionOptions session;
  session.threads = options.threads;
  const auto check = check_context(output, session);
  if (!check) return check.error().message;
  // The keys are equal, so it is for the machine that was asked for, which may be a smaller one.
  if (check->verdict == Compatibility::kUnsupported) return check->reason;
  add_bins(files, model->graph, output.parent_path());
  if (!options.external_initializers.empty()) {
    const fs::path file = output.parent_path() / options.external_initializers;
    if (!fs::is_regular_file(file, ignored))
      return std::format("\"{}\" does not exist", file.string());
    add_file(files, file, Kind::kExternalInitializers);
  }
  return "";
}

}  // namespace

Currency look_at_outputs(const std::vector<fs::path>& outputs, const CompileOptions& options,
                         const CompileKey& key) {
  Currency currency;
  for (std::size_t m = 0; m < outputs.size(); ++m)
    if (const std::string why =
            why_not_current(outputs[m], options, key, key.models[m], currency.files);
        !why.empty())
      return {std::format("\"{}\": {}", outputs[m].string(), why), {}};
  for (const fs::path& output : outputs) add_file(currency.files, output, Kind::kModel);
  return currency;
}

}  // namespace ctxgen::cli
