#pragma once

#include <memory>

#include "kernel/value_kernel.h"

namespace ctxgen::cpu {

/// An empty sequence with room for `count` items, charged to the run's memory.
/// Errors  RESOURCE_LIMIT before memory is taken.
[[nodiscard]] Result<std::shared_ptr<SequenceValue>> new_sequence(const KernelContext& context,
                                                                  std::size_t count);
/// Input `index`, a sequence, as one that may be changed and has room for `more` items: itself
/// where nothing else sees it, else a copy.
[[nodiscard]] Result<RuntimeValue> own_sequence(KernelContext& context, std::size_t index,
                                                std::size_t more);

}  // namespace ctxgen::cpu
