#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen::onednn {

/// No stored form was chosen for this op.
inline constexpr std::uint16_t kNoChoice = 0xffff;

/// The payload of a StoredPlan: per op, which stored form of its weight the plan uses. Everything
/// else of a plan follows from program and dims by fixed rules in microseconds, so that a hostile
/// payload has nothing to lie about but an index, which is checked.
///
/// Layout  u8 version, u32 op count, u16 per op.
[[nodiscard]] std::vector<std::byte> encode_choices(std::span<const std::uint16_t> choices);

/// Errors  kCorruptContext (version, count other than `op_count`, short or long).
[[nodiscard]] Result<std::vector<std::uint16_t>> decode_choices(std::span<const std::byte> payload,
                                                                std::size_t op_count);

}  // namespace ctxgen::onednn
