#pragma once

#include <span>
#include <vector>

#include "plan/builder.h"
#include "plan/plan.h"

namespace ctxgen::onednn {

struct PlanRequest {
  const Program& program;
  std::span<const Dims> input_dims;
  const WeightForms* forms = nullptr;   // null while packing
  std::span<const PlanChoice> choices;  // of a stored plan, else empty
  const TunedForms* tuned = nullptr;    // while packing; null: there is none
  int threads = 1;
  bool create_primitives = true;
  /// Reference kernels are taken where no other way of planning succeeds: slow, but right.
  References references = References::kRefused;
};

/// Program and dims to steps, buffers and arena; weights are not yet bound to memory.
///
/// Determinism  the same program, dims, forms, choices, threads and machine give the same plan.
/// Errors       those of infer_value_dims and build_node; RESOURCE_LIMIT.
[[nodiscard]] Result<Plan> make_plan(const PlanRequest& request);

/// Gives each kArena buffer of `plan` its offset, 64-byte aligned; buffers whose lives overlap do
/// not. Sets arena_bytes. Errors  RESOURCE_LIMIT when the sum passes kMaxTensorBytes.
[[nodiscard]] Status assign_arena(Plan& plan);

}  // namespace ctxgen::onednn
