#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/compiler/context_builder.h"
#include "ctxgen/ctxfile/context_file.h"

#include "stages/prepare_models.h"

namespace ctxgen {

/// The programs of all models.
struct BuiltModels {
  std::unique_ptr<ContextBuilder> builder;              // keeps what the contents refer to
  std::vector<std::vector<BuiltPartition>> partitions;  // by model, those of the main graph first
  /// By provider; nothing where no program was made.
  std::vector<std::optional<ContextContent>> contents;
  CompileReport report;
};

/// Whether programs may be added to `bin`.
/// Errors  kVersionMismatch: another provider's, or another target's.
[[nodiscard]] Status check_appendable(const ContextReader& bin, const CompileEnv& env);

/// Compiles all partitions and stores their weights. `appended`: the bin that they are added to (null: none).
/// Lifetime  `prepared` must outlive the result, in its place.
[[nodiscard]] Result<BuiltModels> build_models(PreparedModels& prepared,
                                               const ContextReader* appended,
                                               const CompileEnv& env);

/// Adds one written bin to the report.
[[nodiscard]] Status add_bin_report(CompileReport& report, std::string name,
                                    const ContextContent& content);

/// When the outputs are written, and before they replace others: adds what happened to each node.
void report_nodes(BuiltModels& built, const PreparedModels& prepared, const CompileEnv& env);

}  // namespace ctxgen
