#pragma once

#include <vector>

#include "ctxgen/ctxfile/executable.h"

namespace ctxgen::onednn {

/// ProgramLoader::precisions() of a program of dnnl.
[[nodiscard]] std::vector<OpPrecision> precisions_of(const Program& program);

}  // namespace ctxgen::onednn
