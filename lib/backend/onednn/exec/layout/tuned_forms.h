#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/ctxfile/tuning_table.h"

#include "plan/builder.h"

namespace ctxgen::onednn {

/// The packings in which the constant of an op of this shape may be stored: those that its kernels read
/// with any number of threads, the table's among them. Fewer than two: there is nothing to choose.
/// Whether a kernel takes one, planning shows. A form is a packing, where both read it followed by ":own" or
/// ":onednn" (which kernel is asked first) and ":fused" or ":apart" (KernelWay::Steps).
[[nodiscard]] std::vector<std::string> forms_of(const TunedShape& shape);

/// What a table wants for each op of a program, for each of the `profiles` that its inputs may have the dims of; where
/// there are none, one that is for any. An op has one packing for all of them, that of the first one for which there is
/// a row, and in each the way that goes with this packing there.
[[nodiscard]] Result<std::vector<TunedForms>> tuned_forms(
    const Program& program, const TuningTable& table, std::span<const std::vector<Dims>> profiles);

/// KnowsTuning::tunable_ops().
[[nodiscard]] Result<std::vector<TunableOp>> tunable_ops_of(const Program& program);

}  // namespace ctxgen::onednn
