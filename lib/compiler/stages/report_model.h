#pragma once

#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/context_builder.h"

#include "stages/prepare_model.h"

namespace ctxgen {

/// What became of one model, without its `assignment`; partitions are in the order of `built`.
[[nodiscard]] ModelReport report_model(const PreparedModel& prepared, const ProviderList& providers,
                                       const CompileTarget& target,
                                       std::span<const BuiltPartition> built);

/// Adds what happened to each node: a row per node, so only when memory is not needed otherwise.
void report_assignment(ModelReport& report, const PreparedModel& prepared,
                       const ProviderList& providers, std::span<const BuiltPartition> built);

/// What of a model is not planned ahead: which dims have no size, and the options that give one. "" if
/// every partition has a plan.
[[nodiscard]] std::string unplanned_text(const PreparedModel& prepared,
                                         const CompileOptions& options,
                                         std::span<const BuiltPartition> built);

/// --strict and --require-runnable.
/// Errors  NOT_SATISFIED naming the first nodes.
[[nodiscard]] Status check_requirements(const PreparedModel& prepared,
                                        const CompileOptions& options);

}  // namespace ctxgen
