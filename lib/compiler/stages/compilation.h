#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/context_builder.h"
#include "ctxgen/onnx_lite/write_model.h"
#include "ctxgen/partition/rewrite.h"
#include "ctxgen/weights/external_file.h"
#include "output/source_index.h"
#include "stages/import_model.h"
#include "stages/prepare_model.h"
#include "stages/provider_list.h"

namespace ctxgen {

class CacheFolder;

/// One compile, from inputs to the bytes of every output. Stages in order: import, prepare (check,
/// infer, fold, partition), compile and store, rewrite; the callers write.
class Compilation {
 public:
  /// `bin_name(p)`: how context models name the bin of provider p.
  using BinName = std::function<Result<std::string>(std::string_view provider)>;

  /// `options` must outlive the compilation, `cache` (null: there is none) too. `beside`: an output
  /// that is a file; empty: everything stays in memory.
  Compilation(const CompileOptions& options, ProviderList providers, CompileTarget target,
              BinName bin_name, const std::filesystem::path& beside = {},
              CacheFolder* cache = nullptr);

  /// Where the context models will be written; not called: nowhere that is known.
  void set_outputs(std::vector<std::filesystem::path> outputs) { outputs_ = std::move(outputs); }
  /// Reads the inputs; then report() has the key of the compile and the files that were read.
  [[nodiscard]] Status import(const std::vector<ModelInput>& inputs);
  /// Requires  import(), and not yet prepare().
  [[nodiscard]] std::span<const ImportedModel> imported() const { return imported_; }
  /// The bytes of those files. Requires  import(), and not yet prepare().
  [[nodiscard]] std::vector<Blob> input_bytes() const;
  /// Before prepare(): adds to what this bin holds.
  /// Errors  kVersionMismatch: another provider's, or another target's.
  [[nodiscard]] Status append_to(const ContextReader& bin);
  [[nodiscard]] Status prepare();
  [[nodiscard]] Status compile();
  [[nodiscard]] Status rewrite();
  /// When the outputs are written, and before they replace others: gives report() what happened to
  /// each node.
  void report_nodes();
  /// Tells the caller where the compile is.
  /// Errors  CANCELLED.
  [[nodiscard]] Status enter(CompileStage stage, double fraction) const;

  [[nodiscard]] const std::vector<PreparedModel>& models() const { return models_; }
  [[nodiscard]] const ModelRewrite& rewrite_of(std::size_t m) const { return rewrites_[m]; }
  /// Empty where no initializer was moved.
  [[nodiscard]] const ExternalFileBuilder& external() const { return external_; }
  [[nodiscard]] const ProviderList& providers() const { return providers_; }
  [[nodiscard]] CompileReport& report() { return report_; }
  /// By provider; nothing where no program was made, or where it is embedded in the models.
  [[nodiscard]] const std::vector<std::optional<ContextContent>>& contents() const {
    return contents_;
  }

 private:
  [[nodiscard]] Status start_variants();
  [[nodiscard]] Status add_variants();
  [[nodiscard]] Result<std::vector<BuiltPartition>> build(PreparedModel& prepared);
  [[nodiscard]] Result<std::vector<BuiltPartition>> build_graph(
      const Model& model, const Graph& graph, Assignment& assignment,
      std::span<const ProviderCompileOptions> options, std::size_t first_ordinal);
  [[nodiscard]] Result<ModelRewrite> rewrite_model(std::size_t m);
  [[nodiscard]] Status check_nothing_to_compile(const PreparedModel& prepared) const;
  [[nodiscard]] Status check_optimal() const;
  [[nodiscard]] Result<std::vector<CompiledNode>> compiled_nodes(std::size_t m, int body);
  [[nodiscard]] Result<std::vector<BodyRewrite>> rewrite_bodies(
      std::size_t m, std::span<const std::size_t> bodies);
  [[nodiscard]] Status report_models();
  void report_sharing();
  void report_weightless();
  [[nodiscard]] Status report_external();

  const CompileOptions& options_;
  std::unique_ptr<SpillFile> spill_;
  ProviderList providers_;
  CompileTarget target_;
  BinName bin_name_;
  ContextBuilder builder_;
  std::vector<std::unique_ptr<VariantProcess>> variants_;  // of target_.isas but the first
  std::vector<ImportedModel> imported_;      // empty again after prepare()
  std::vector<std::string> bin_references_;  // by provider; "" where there is no bin to name
  std::vector<PreparedModel> models_;
  std::vector<std::vector<BuiltPartition>> built_;
  std::vector<std::optional<ContextContent>> contents_;
  std::vector<ModelRewrite> rewrites_;
  SourceIndex sources_;  // empty unless weightless
  ExternalFileBuilder external_;
  std::vector<std::filesystem::path> outputs_;
  std::vector<std::vector<std::pair<std::string, Blob>>> external_data_;  // of the inputs, in memory
  CompileReport report_;
};

/// Adds one written bin to the report.
[[nodiscard]] Status add_bin_report(CompileReport& report, std::string name,
                                    const ContextContent& content);

}  // namespace ctxgen
