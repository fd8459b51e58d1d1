#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/compiler/compile.h"

namespace ctxgen {

/// How context models are written again by regroup(). Fields that CompileOptions has, too, mean the same.
struct RegroupOptions {
  OptionNames names = OptionNames::kFields;
  /// The context binary inside the model: one model only.
  bool embed = false;
  /// Where the context binary goes; empty: next to the first model, named after it.
  std::filesystem::path bin;
  /// The file of initializers that the models keep outside; empty: named as that of the first model that has one.
  std::string external_initializers;
  bool no_clobber = false;
  bool force = false;
  bool keep_unchanged = false;
  bool dry_run = false;
  bool make_folder = false;
  std::vector<FileUse> other_files;  // that the caller writes
  std::function<bool()> cancelled;
};

struct RegroupReport {
  struct Model {
    std::string input_name, output_name;
    std::size_t partitions = 0;  // of ctxgen's providers
    std::uint64_t model_bytes = 0;
  };
  std::vector<Model> models;
  std::vector<CompileReport::Bin> bins;
  std::size_t programs = 0,
              programs_shared = 0;  // written; that several models needed and that are there once
  std::uint64_t bytes_added = 0, bytes_stored = 0;  // weights before and after deduplication
  std::vector<FileReport> files;
  std::vector<std::filesystem::path> files_read;
  bool dry_run = false;
  double seconds = 0;
};

/// Writes context models again with their programs in another set of files: those of separate compiles with
/// one context binary for all (merge), one of a group with a binary of its own (split), with the binary inside of the
/// model or in a file (embed, extract). Nothing is compiled. The outputs are, byte for byte, those of one compile of
/// the same models with the same options; what is not ctxgen's passes through.
///
/// In       models: context models in files, their binaries where they say; any form. outputs: one per model,
///          in one folder; none of them is a file that is read.
/// Memory   manifests and models; weights go from map to file.
/// Errors   INVALID_ARGUMENT: two uses of a file, models whose options, or another thing, one compile cannot have;
///          kVersionMismatch: models of different targets or versions; INVALID_GRAPH, kCorruptContext: a model
///          or binary that is damaged or not compiled by ctxgen; NOT_SATISFIED: a model that was changed since
///          it was compiled, a binary that other models need; UNSUPPORTED: weightless models, initializers in files of
///          their sources; IO_ERROR, CANCELLED. Nothing is replaced then.
[[nodiscard]] Result<RegroupReport> regroup(const std::vector<std::filesystem::path>& models,
                                            const std::vector<std::filesystem::path>& outputs,
                                            const RegroupOptions& options);

}  // namespace ctxgen
