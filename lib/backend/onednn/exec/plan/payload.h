#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ctxgen/base/status.h"

#include "rules/kernel_way.h"

namespace ctxgen::onednn {

/// No stored form was chosen for this op.
inline constexpr std::uint16_t kNoChoice = 0xffff;
/// Forms that a plan can choose from: an index has 12 bits, and kNoChoice has all bits set.
inline constexpr std::size_t kMostForms = 0xfff;

/// What a stored plan says of an op.
struct PlanChoice {
  std::uint16_t form = kNoChoice;  // of its weight, an index into ProgramWeight::packed
  KernelWay way = {};              // by our rules where there is no form
  [[nodiscard]] bool operator==(const PlanChoice&) const = default;
};

/// The payload of a StoredPlan. Everything else of a plan follows from program and dims by fixed rules in
/// microseconds, so that a hostile payload has nothing to lie about but an index, which is checked.
///
/// Layout  u8 version, u32 op count, u16 per op: its form in bits 0 to 11, KernelWay::First in bits 12 and
/// 13, KernelWay::Steps in bits 14 and 15; or kNoChoice. Readers that know of forms only find an index
/// that there is not, and take the form that is stored, by their own rules.
[[nodiscard]] std::vector<std::byte> encode_choices(std::span<const PlanChoice> choices);

/// Errors  kCorruptContext (version, count other than `op_count`, short or long).
[[nodiscard]] Result<std::vector<PlanChoice>> decode_choices(std::span<const std::byte> payload,
                                                             std::size_t op_count);

}  // namespace ctxgen::onednn
