#pragma once

#include <span>

#include "ctxgen/cpu/kernel.h"

// Tables with operators of com.microsoft. As families.h, apart from it so that a new one does not
// rebuild every family.

namespace ctxgen::cpu {

extern const std::span<const OpRow> kContribGatherOps;
extern const std::span<const OpRow> kContribGroupQueryOps;
extern const std::span<const OpRow> kContribMatmulOps;
extern const std::span<const OpRow> kContribMoeOps;
extern const std::span<const OpRow> kContribMultiHeadOps;
extern const std::span<const OpRow> kRecurrenceOps;

}  // namespace ctxgen::cpu
