#include "plan/params.h"

#include <format>

namespace ctxgen::onednn {

std::string label(const ProgramOp& op) { return std::format("op \"{}\" ({})", op.name, op.kind); }

Result<IntList> per_dim(const ProgramOp& op, std::string_view name, const IntList& list,
                        std::size_t count, std::int64_t fallback) {
  if (list.empty()) return IntList(count, fallback);
  if (list.size() != count)
    return fail(ErrorCode::kInvalidGraph, "{}: {} has {} values, expected {}", label(op), name,
                list.size(), count);
  for (const std::int64_t value : list)
    if (value < -kMaxParam || value > kMaxParam)
      return fail(ErrorCode::kCorruptContext, "{}: {} holds {}, expected at most 2^31", label(op),
                  name, value);
  return list;
}

Result<std::size_t> normal_axis(const ProgramOp& op, std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank)
    return fail(ErrorCode::kInvalidGraph, "{}: axis {} outside rank {}", label(op), axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

}  // namespace ctxgen::onednn
