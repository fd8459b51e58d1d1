#pragma once

#include "ctxgen/compiler/compile.h"
#include "stages/prepare_model.h"

namespace ctxgen {

/// The machines that the options name.
/// Errors  INVALID_ARGUMENT: options that contradict each other, or unknown instruction sets.
[[nodiscard]] Result<CompileTarget> make_target(const CompileOptions& options,
                                                const ProviderList& providers);

/// Limits this process to the smallest instruction set of the target, if it names any. Has to come
/// before anything uses the providers' libraries.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Status limit_process(const CompileTarget& target, const ProviderList& providers);

}  // namespace ctxgen
