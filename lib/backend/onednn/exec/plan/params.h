#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/onednn/kind_params.h"

namespace ctxgen::onednn {

/// "op "conv_12" (conv)", for messages.
[[nodiscard]] std::string label(const ProgramOp& op);

/// A list parameter that has one number per dim: `count` times `fallback` where it is empty.
/// Errors  INVALID_GRAPH for another length; kCorruptContext for a number beyond kMaxParam.
[[nodiscard]] Result<IntList> per_dim(const ProgramOp& op, std::string_view name,
                                      const IntList& list, std::size_t count,
                                      std::int64_t fallback);

/// `axis` counted from the front. Errors  INVALID_GRAPH outside [-rank, rank).
[[nodiscard]] Result<std::size_t> normal_axis(const ProgramOp& op, std::int64_t axis,
                                              std::size_t rank);

/// The parameter `axis` of a kind, counted from the front.
template <class Params>
[[nodiscard]] Result<std::size_t> axis_param(const ProgramOp& op, std::size_t rank) {
  const auto params = CTXGEN_TRY(decode<Params>(op));
  return normal_axis(op, params.axis, rank);
}

}  // namespace ctxgen::onednn
