#include "stages/import_models.h"

#include "ctxgen/partition/provider.h"

namespace ctxgen {

std::vector<Blob> ImportedModels::bytes() const {
  std::vector<Blob> all;
  for (const ImportedModel& imported : models) {
    all.push_back(imported.model.source);
    for (const FileRead& file : imported.external_files) all.push_back(file.bytes);
    for (const auto& [name, bin] : imported.foreign_bins) all.push_back(bin.bytes);
  }
  return all;
}

Result<ImportedModels> import_models(const std::vector<ModelInput>& inputs, const CompileEnv& env) {
  ImportedModels imported;
  ModelSources& sources = imported.sources;
  for (const Provider* provider : env.providers.all())
    sources.bin_references.push_back(CTXGEN_TRY(env.bin_reference(*provider)));
  for (std::size_t m = 0; m < inputs.size(); ++m) {
    CTXGEN_CHECK(env.enter(CompileStage::kImport,
                           static_cast<double>(m) / static_cast<double>(inputs.size())));
    imported.models.push_back(
        CTXGEN_TRY(import_model(inputs[m], env.options, env.providers, env.spill.get())));
    sources.external_data.push_back(inputs[m].external_data);
    const auto folder = env.output_folder(m);
    const SourceIndex::Source source{.name = inputs[m].name,
                                     .path = inputs[m].path,
                                     .external_data_in_memory = !inputs[m].external_data.empty()};
    CTXGEN_CHECK(sources.index.add(imported.models.back().model, source, env.options.weightless,
                                   folder ? &*folder : nullptr));
    const bool named =
        env.options.weightless != WeightlessMode::kNone && folder && !source.path.empty();
    // Mode 1 does not need the source itself, which may be anywhere.
    const auto reference =
        named ? file_reference(*folder, source.path) : Result<std::string>(std::string());
    sources.source_references.push_back(reference.value_or(std::string()));
  }
  CTXGEN_CHECK(check_external_data_folder(imported.models, env.options));
  const std::vector<std::string> source_files = sources.index.files();
  Sha256 strong;
  FileHashes hashes(env.remote == nullptr ? nullptr : &strong);
  for (const ImportedModel& model : imported.models)
    sources.keys.push_back(
        key_of(model, env.providers, env.target, source_files, env.options, hashes));
  sources.key = key_of_group(sources.keys, sources.bin_references, env.options, hashes);
  sources.strong_key = strong.finish();
  sources.files_read = files_read(imported.models);
  return imported;
}

}  // namespace ctxgen
