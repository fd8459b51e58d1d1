#pragma once

#include "ctxgen/ctxfile/op_rounding.h"

#include "kinds/kind_rows.h"

namespace ctxgen::onednn {

/// How an op of a program rounds, its post-ops included. Parameters of a wrong type count as absent:
/// load() refuses them.
[[nodiscard]] OpRounding rounding_of(const Program& program, const ProgramOp& op);

/// Products of a convolution of either direction: what an output sums up of the weights.
TermsRule conv_terms;

/// A dim of an operand, counted from the back; unknown ones count as kUnknownTerms.
[[nodiscard]] std::int64_t dim_from_back(const Program& program, const ProgramOp& op,
                                         std::size_t input, std::size_t back);

/// Sums of more terms count as so many.
inline constexpr std::int64_t kMostTerms = std::int64_t{1} << 31;

}  // namespace ctxgen::onednn
