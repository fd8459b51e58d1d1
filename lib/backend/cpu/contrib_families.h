#pragma once

#include <span>

#include "ctxgen/cpu/kernel.h"

// Tables of com.microsoft that are built on other kernels. As families.h, apart from it so that a
// new one does not rebuild every family.

namespace ctxgen::cpu {

extern const std::span<const OpRow> kContribMatmulOps;
extern const std::span<const OpRow> kContribMultiHeadOps;

}  // namespace ctxgen::cpu
