#include "bundle/bundle_content.h"

#include <algorithm>
#include <format>
#include <set>
#include <system_error>

#include "ctxgen/base/file.h"
#include "ctxgen/ctxfile/fingerprint.h"
#include "ctxgen/ctxfile/workspace.h"
#include "ctxgen/partition/provider.h"

#include "regroup/kept_model.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

/// Reads models one after the other into one content.
class ContentReader {
 public:
  ContentReader(BundleContent& content, const ProviderList& providers)
      : content_(content), providers_(providers) {}

  Status add(const fs::path& path) {
    KeptModel kept = CTXGEN_TRY(read_kept_model(path, providers_, *workspace_));
    BundledModel& model = content_.models.emplace_back();
    model.path = path;
    model.folder = CTXGEN_TRY(folder_of_model(path));
    describe(kept, model);
    auto status = add_files(kept, model);
    if (status) status = verify(kept);
    if (!status) return std::unexpected(with_context(std::move(status).error(), kept.name));
    return {};
  }

 private:
  Result<std::size_t> folder_of_model(const fs::path& path) {
    std::error_code error;
    const fs::path folder =
        fs::canonical(path.has_parent_path() ? path.parent_path() : fs::path("."), error);
    if (error)
      return fail(ErrorCode::kIoError, "\"{}\": {}", path.parent_path().string(), error.message());
    const auto [at, added] = folders_.emplace(folder, content_.folders.size());
    if (added) content_.folders.emplace_back();
    return at->second;
  }

  void describe(const KeptModel& kept, BundledModel& model) const {
    for (const auto& ids : {kept.model->graph.inputs, kept.model->graph.outputs})
      for (const ValueId id : ids) {
        const Value& value = kept.model->graph.value(id);
        if (!value.initializer)
          model.interface.emplace_back(std::string(value.name), value.type.element);
      }
    std::set<std::string> precisions;
    for (const KeptContext& context : kept.contexts) {
      const Provider& provider = *providers_.all()[context.provider];
      if (model.source.empty()) {
        model.source = provider.source();
        model.fingerprint = context.reader->info().fingerprint;
        model.instruction_sets = instruction_sets_of(model.fingerprint);
      }
      for (const OpPrecision& op :
           provider.loader()->precisions(context.reader->programs()[context.program]))
        precisions.insert(op.precision);
    }
    model.precisions.assign(precisions.begin(), precisions.end());
  }

  /// Bins first, the model last, as a compile writes them.
  Status add_files(const KeptModel& kept, BundledModel& model) {
    const fs::path folder = kept.path.has_parent_path() ? kept.path.parent_path() : fs::path(".");
    for (const KeptContext& context : kept.contexts) {
      const EpContextAttributes& attributes = context.node->attributes;
      if (attributes.main_context != 1 || attributes.embed_mode != 0) continue;
      const std::string& name = attributes.ep_cache_context;
      Blob bytes = CTXGEN_TRY(map_file_beneath(folder, name));
      add_file(model, FileReport::Kind::kBin, folder / name, name, std::move(bytes));
    }
    for (const FileRead& file : kept.external_files)
      add_file(model, FileReport::Kind::kExternalInitializers, file.path, file.location,
               file.bytes);
    // A load looks for the file that the model's metadata names, even if no tensor is in it.
    const std::string& entry = kept.external_entry;
    if (const std::string name = entry.substr(0, std::min(entry.rfind(':'), entry.size()));
        !name.empty()) {
      Blob bytes = CTXGEN_TRY(map_file_beneath(folder, name));
      add_file(model, FileReport::Kind::kExternalInitializers, folder / name, name,
               std::move(bytes));
    }
    for (const auto& [name, file] : kept.foreign_bins)
      add_file(model, FileReport::Kind::kForeignBin, file.path, name, file.bytes);
    add_file(model, FileReport::Kind::kModel, kept.path, kept.path.filename().string(),
             kept.model->source);
    return {};
  }

  void add_file(BundledModel& model, FileReport::Kind kind, fs::path path, const std::string& name,
                Blob bytes) {
    SourceFolder& folder = content_.folders[model.folder];
    const std::string plain = fs::path(name).lexically_normal().string();
    const auto [at, added] = folder.by_name.emplace(plain, folder.files.size());
    if (added) folder.files.push_back({kind, std::move(path), plain, std::move(bytes)});
    if (!std::ranges::contains(model.files, at->second)) model.files.push_back(at->second);
  }

  /// Nothing that is damaged goes on as if it were not. Models were compared when they were read.
  Status verify(const KeptModel& kept) {
    for (const KeptContext& context : kept.contexts)
      if (verified_.insert(context.reader).second) CTXGEN_CHECK(context.reader->verify_blobs());
    return {};
  }

  BundleContent& content_;
  const ProviderList& providers_;
  std::shared_ptr<Workspace> workspace_ = Workspace::join();
  std::map<fs::path, std::size_t> folders_;
  std::set<std::shared_ptr<const ContextReader>> verified_;
};

}  // namespace

Result<BundleContent> read_bundle_content(const std::vector<fs::path>& models,
                                          const ProviderList& providers,
                                          const std::function<bool()>& cancelled) {
  BundleContent content;
  ContentReader reader(content, providers);
  for (const fs::path& model : models) {
    if (cancelled && cancelled()) return fail(ErrorCode::kCancelled, "interrupted");
    CTXGEN_CHECK(reader.add(model));
  }
  return content;
}

}  // namespace ctxgen
