#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "../lowered.h"

namespace ctxgen::onednn {

/// The operand of an op that kernels read as bf16 or f16, where it is a constant in f32; nothing for
/// other ops.
[[nodiscard]] std::optional<std::size_t> narrow_operand(const Lowered& lowered,
                                                        const ProgramOp& op);

/// Makes narrow weights of f32 ones, each once.
class WeightNarrower {
 public:
  explicit WeightNarrower(Lowered& lowered) : lowered_(&lowered) {}

  /// The same weight where the type does not hold its values.
  /// Errors  RESOURCE_LIMIT, IO_ERROR of the spill file.
  [[nodiscard]] Result<Operand> narrow(Operand weight, DataType type);

 private:
  Lowered* lowered_;
  std::map<std::pair<std::uint32_t, DataType>, Operand> made_;
};

}  // namespace ctxgen::onednn
