#pragma once

#include "ctxgen/ctxfile/op_rounding.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen::onednn {

/// How an op of a program rounds, its post-ops included. Parameters of a wrong type count as absent:
/// load() refuses them.
[[nodiscard]] OpRounding rounding_of(const Program& program, const ProgramOp& op);

}  // namespace ctxgen::onednn
