#pragma once

#include <optional>
#include <vector>

#include "ctxgen/ctxfile/certificate.h"
#include "ctxgen/ctxfile/executable.h"

#include "load/context_set.h"

namespace ctxgen {

/// certificate_of() of what is open.
[[nodiscard]] Result<std::optional<Certificate>> read_certificate(const ContextSet& set,
                                                                  int threads);

/// What the ops of the programs with a constant compute in, program by program.
[[nodiscard]] std::vector<OpPrecision> read_precisions(const ContextSet& set);

}  // namespace ctxgen
