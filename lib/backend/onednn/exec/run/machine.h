#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ctxgen/ctxfile/executable.h"

namespace ctxgen::onednn {

/// "format=1;onednn=3.12.1;isa=avx512_core_bf16": what programs and layouts depend on. Older
/// files add ";threads=2;cache=48/1024/32768" (sizes in KiB, levels 1 to 3): oneDNN's own choice of
/// layouts, which they hold, depends on these, too.
/// `isas`: what the programs were made for, if not for this process.
[[nodiscard]] std::string make_fingerprint(std::span<const std::string> isas = {});

/// "format=1;onednn=3;isa=portable": nothing in the file depends on a machine, or on more of
/// oneDNN's version than its major number.
[[nodiscard]] std::string portable_fingerprint();

/// A portable file runs wherever format and oneDNN's major number are the same, and packs its
/// weights at each load: recompiling would pay.
/// Another format, another major version of oneDNN, or an instruction set that this machine lacks:
/// unsupported. A smaller instruction set, or other threads or caches where it names them: it runs,
/// recompiling would pay. Another minor version of oneDNN counts as the same: what it does not take as
/// it is stored is packed at load, which only planning shows (PredictsPacking). Of several
/// instruction sets the best one that the machine has counts.
[[nodiscard]] CompatibilityVerdict compare_fingerprint(std::string_view found, int threads);

/// Whether `found` names this version of oneDNN, whatever the instruction set.
[[nodiscard]] bool is_of_this_library(std::string_view found);

}  // namespace ctxgen::onednn
