#pragma once

#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/context_builder.h"
#include "prepare.h"

namespace ctxgen {

/// What happened to each node of one model; partitions are in the order of `built`.
[[nodiscard]] ModelReport report_model(const PreparedModel& prepared, const ProviderList& providers,
                                       std::span<const BuiltPartition> built);

/// --strict and --require-runnable.
/// Errors  NOT_SATISFIED naming the first nodes.
[[nodiscard]] Status check_requirements(const ModelReport& report, const CompileOptions& options);

}  // namespace ctxgen
