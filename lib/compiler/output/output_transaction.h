#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cache/output_cache.h"
#include "output/appended_bin.h"
#include "output/bin_users.h"
#include "output/file_uses.h"
#include "stages/rewrite_models.h"

namespace ctxgen {

/// The outputs of one compile to files: what may be replaced, what is kept from an equal compile, and writing all
/// or nothing. The folder that it made goes again, and others may add to the bin, when it ends.
class OutputTransaction {
 public:
  /// Refuses, before anything is read or written, what is known to be refused when the files are; makes
  /// the outputs' folder.
  /// Lifetime  `inputs` and `env` must outlive it.
  /// Errors    INVALID_ARGUMENT (two uses of one file, an output that may not be replaced), IO_ERROR.
  [[nodiscard]] static Result<OutputTransaction> begin(const std::vector<ModelInput>& inputs,
                                                       const CompileEnv& env);

  /// Refuses what the models name and the outputs would replace. Then writes what an equal compile
  /// wrote, if the cache has it: nothing is left to do.
  [[nodiscard]] Result<std::optional<CompileReport>> replay(const ImportedModels& imported);

  /// The bin that programs are added to; null: a new one is made. Others that add to it wait.
  /// Errors  those of AppendedBin::open(), kVersionMismatch.
  [[nodiscard]] Result<const ContextReader*> open_appended();

  /// Writes everything, keeps it for the next equal compile, and completes the report of `built`.
  /// Errors  NOT_SATISFIED: other models need what is in a bin; INVALID_ARGUMENT, IO_ERROR, CANCELLED.
  [[nodiscard]] Result<CompileReport> commit(const PreparedModels& prepared, BuiltModels& built,
                                             const RewrittenModels& rewritten);

 private:
  OutputTransaction(const std::vector<ModelInput>& inputs, const CompileEnv& env)
      : inputs_(&inputs), env_(&env) {}
  [[nodiscard]] Result<CompileReport> write_kept(KeptOutputs kept,
                                                 const ModelSources& sources) const;
  [[nodiscard]] CacheFolder* output_cache() const;
  void keep(const OutputRecorder& recorder, const CompileReport& report) const;

  const std::vector<ModelInput>* inputs_;
  const CompileEnv* env_;
  std::unique_ptr<OutputFolder> folder_ = std::make_unique<OutputFolder>();
  std::vector<Blob> read_;  // the bytes of all inputs
  std::vector<BinUsers> users_;
  std::optional<AppendedBin> appended_;
  Hash128 key_;                             // in the cache
  std::optional<Sha256Digest> remote_key_;  // where a remote one was asked
};

/// Which files have to take what is written.
enum class Writable { kAll, kOtherFiles };

/// Reads the models of a compile, with what is asked before and after: whether its files are apart, and take what is
/// written. Writes and makes nothing.
/// Errors  INVALID_ARGUMENT, IO_ERROR; those of import_models().
[[nodiscard]] Result<ImportedModels> import_checked(const std::vector<ModelInput>& inputs,
                                                    const PlannedOutputs& outputs,
                                                    Writable writable, const CompileEnv& env);

}  // namespace ctxgen
