#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/plan_view.h"

#include "plan/plan.h"

namespace ctxgen::onednn {

/// A plan of `program` as tools show it.
[[nodiscard]] PlanView view_of(const Program& program, const Plan& plan);

/// As ShowsPlans has it.
[[nodiscard]] std::string layout_name(const ProgramWeight& weight, const PackedWeight& packed);

}  // namespace ctxgen::onednn
