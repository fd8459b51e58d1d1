#pragma once

#include <span>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen {

/// Programs for several instruction sets: each variant has a program of its partition that is none
/// itself, all of them different instruction sets, the same provider and the same interface.
/// Requires  names are unique, programs are valid.  Errors  kCorruptContext.
[[nodiscard]] Status check_variants(std::span<const Program> programs);

}  // namespace ctxgen
