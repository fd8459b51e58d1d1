#include "stages/import_model.h"

#include <algorithm>
#include <format>
#include <set>

#include "ctxgen/base/file.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "stages/cut_model.h"

namespace ctxgen {
namespace {

Result<Model> read(const ModelInput& input, const CompileOptions& options,
                   std::vector<FileRead>& external_files, SpillFile* spill) {
  ReadModelOptions how;
  how.spill = spill;
  how.file_name = input.name;
  how.external_data_folder = options.external_data_folder;
  how.external_buffers = input.external_data;
  how.external_files = &external_files;
  Model model = input.path.empty() ? CTXGEN_TRY(read_model(input.bytes, how))
                                   : CTXGEN_TRY(read_model_file(input.path, how));
  if (!asks_for_part(options)) return model;
  const Blob part = CTXGEN_TRY(cut_model(model, input, options));
  ReadModelOptions again;  // all is inline now
  again.spill = spill;
  again.file_name = model.file_name;
  Model cut = CTXGEN_TRY(read_model(part, again));
  cut.folder = std::move(model.folder);
  return cut;
}

/// Looks at the EPContext nodes of a model before anything is compiled.
class EpContextReader {
 public:
  EpContextReader(ImportedModel& imported, const ProviderList& providers)
      : imported_(imported),
        providers_(providers),
        folder_(imported.path.empty() ? imported.model.folder : imported.path.parent_path()) {}

  /// In the graph and in the bodies of its nodes.
  Status read(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      if (node.op_type == kEpContextOpType && node.domain == kMicrosoftDomain)
        CTXGEN_CHECK(read_node(node));
      for (const Attribute& attribute : node.attributes)
        for (const auto& body : attribute.graphs) CTXGEN_CHECK(read(*body));
    }
    return {};
  }

 private:
  /// Ours is refused, a foreign one brings its bin, which is next to the model wherever its external
  /// data is.
  Status read_node(const Node& node) {
    const std::string_view source = node.string_or("source", "");
    if (providers_.find_source(source) >= 0)
      return fail(ErrorCode::kInvalidGraph,
                  "{} is an EPContext node of {}: the model is already compiled", node.describe(),
                  source);
    imported_.warnings.push_back(
        std::format("{} is an EPContext node of \"{}\": passed through", node.describe(), source));
    const bool embedded = node.int_or("embed_mode", 1) == 1;
    const std::string file(node.string_or("ep_cache_context", ""));
    if (embedded || file.empty() || !seen_.insert(file).second) return {};
    auto bin = map_file_beneath(folder_.empty() ? "." : folder_, file);
    if (!bin)
      return std::unexpected(with_context(
          bin.error(), std::format("{}: context binary \"{}\"", node.describe(), file)));
    imported_.foreign_bins.emplace_back(file, FileRead{folder_ / file, std::move(*bin)});
    return {};
  }

  ImportedModel& imported_;
  const ProviderList& providers_;
  std::filesystem::path folder_;
  std::set<std::string> seen_;
};

}  // namespace

Result<ImportedModel> import_model(const ModelInput& input, const CompileOptions& options,
                                   const ProviderList& providers, SpillFile* spill) {
  ImportedModel imported;
  imported.name = input.name;
  imported.path = input.path;
  imported.model = CTXGEN_TRY(read(input, options, imported.external_files, spill));
  CTXGEN_CHECK(EpContextReader(imported, providers).read(imported.model.graph));
  return imported;
}

Status check_external_data_folder(std::span<const ImportedModel> models,
                                  const CompileOptions& options) {
  const std::filesystem::path& folder = options.external_data_folder;
  if (folder.empty()) return {};
  const std::string name = option_name(options, &CompileOptions::external_data_folder);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return fail(ErrorCode::kIoError, "folder of external data ({}) \"{}\": no such folder", name,
                folder.string());
  if (std::ranges::any_of(models,
                          [](const ImportedModel& model) { return !model.external_files.empty(); }))
    return {};
  return fail(ErrorCode::kInvalidArgument,
              "folder of external data ({}) \"{}\": it has no effect, {} no external data", name,
              folder.string(), models.size() == 1 ? "the model has" : "the models have");
}

std::vector<std::filesystem::path> files_read(std::span<const ImportedModel> models) {
  std::vector<std::filesystem::path> files;
  std::set<std::string> seen;
  const auto add = [&](const std::filesystem::path& path) {
    if (!path.empty() && seen.insert(path.string()).second) files.push_back(path);
  };
  for (const ImportedModel& imported : models) {
    add(imported.path);
    for (const FileRead& file : imported.external_files) add(file.path);
    for (const auto& [name, file] : imported.foreign_bins) add(file.path);
  }
  return files;
}

}  // namespace ctxgen
