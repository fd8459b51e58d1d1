#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ctxgen/compiler/compile.h"

namespace ctxgen::cli {

/// Starts `ctxgen` once more, with the arguments of this process, as the compile for `isa` (hidden
/// option --variant). A model from stdin is handed over as its stdin.
/// Errors  IO_ERROR; what the other process says about `isa`.
[[nodiscard]] Result<std::unique_ptr<VariantProcess>> start_variant(
    const std::string& isa, const std::vector<std::string>& arguments,
    const std::vector<ModelInput>& inputs);

/// The work of such a process, over the files that start_variant() left open for it.
[[nodiscard]] Result<int> run_variant(const std::vector<ModelInput>& inputs,
                                      const CompileOptions& options);

}  // namespace ctxgen::cli
