#pragma once

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen::onednn {

/// Whether every op reads and writes element types that its kind has kernels for. Programs come
/// from files: what follows relies on this for the widths of everything it reads.
///
/// Errors  UNSUPPORTED naming the op or value, the type, and what is expected.
[[nodiscard]] Status check_types(const Program& program);

}  // namespace ctxgen::onednn
