#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen::onednn {

/// Dims of an operand: those of the value or of the weight; rank 0 for an absent one.
[[nodiscard]] Dims operand_dims(const Program& program, const Operand& operand,
                                std::span<const Dims> value_dims);

/// What the names of parameters that are code end with.
inline constexpr std::string_view kDimCodeSuffix = "_code";

/// How many of the op's last inputs are there for their dims only; at most all, whatever it says.
[[nodiscard]] std::size_t sized_inputs(const ProgramOp& op);

/// Whether a parameter of the op is computed from dims (dim_code.h).
[[nodiscard]] bool has_dim_code(const ProgramOp& op);

/// The op with such parameters computed, and without the inputs that only they read.
///
/// In      value_dims: of the program's values; those of the op's inputs are known.
/// Errors  those of run_dim_code; kCorruptContext for a parameter "sized" that does not fit.
[[nodiscard]] Result<ProgramOp> without_dim_code(const Program& program, const ProgramOp& op,
                                                 std::span<const Dims> value_dims);

/// The same for all ops of a program. Requires  has_dim_code of one of them.
[[nodiscard]] Result<Program> without_dim_code(const Program& program,
                                               std::span<const Dims> value_dims);

}  // namespace ctxgen::onednn
