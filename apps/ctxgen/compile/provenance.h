#pragma once

#include <span>
#include <string>

#include "ctxgen/compiler/compile.h"

namespace ctxgen::cli {

/// Where the outputs of a compile come from: an in-toto statement (version 1) with the predicate of SLSA provenance 1,
/// with the SHA-256 of every file that was written and read. Says nothing of time and machine, so equal compiles have
/// equal statements.
///
/// `builder`    a URI that names who compiled; "" for ctxgen's own name.
/// `arguments`  the command line, the program's name first.
/// Errors  IO_ERROR: a file is gone.
[[nodiscard]] Result<std::string> provenance_text(const CompileReport& report,
                                                  const std::string& builder,
                                                  std::span<const std::string> arguments);

}  // namespace ctxgen::cli
