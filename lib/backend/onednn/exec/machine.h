#pragma once

#include <string>
#include <string_view>

#include "ctxgen/ctxfile/executable.h"

namespace ctxgen::onednn {

/// "format=1;onednn=3.12.1;isa=avx512_core_bf16;threads=2;cache=48/1024/32768": what oneDNN's
/// choice of layouts depends on. Cache sizes in KiB, levels 1 to 3.
[[nodiscard]] std::string make_fingerprint(int threads);

/// Another format or oneDNN version, or an instruction set that this machine lacks: unsupported.
/// Other threads, caches or a smaller instruction set: it runs, recompiling would pay.
[[nodiscard]] CompatibilityVerdict compare_fingerprint(std::string_view found, int threads);

}  // namespace ctxgen::onednn
