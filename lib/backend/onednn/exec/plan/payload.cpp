#include "plan/payload.h"

#include <algorithm>

#include "ctxgen/base/byte_io.h"

namespace ctxgen::onednn {
namespace {

constexpr std::uint8_t kPayloadVersion = 1;
constexpr unsigned kFormMask = 0xfff, kFirstBit = 12, kStepsBit = 14, kWayMask = 3;
static_assert(kMostForms == kFormMask);  // its last index differs from every bit being set

std::uint16_t to_number(const PlanChoice& choice) {
  if (choice.form >= kMostForms) return kNoChoice;
  const auto first = static_cast<unsigned>(choice.way.first);
  const auto steps = static_cast<unsigned>(choice.way.steps);
  return static_cast<std::uint16_t>(choice.form | first << kFirstBit | steps << kStepsBit);
}

/// A way that there is not is that of a later release.
PlanChoice to_choice(std::uint16_t number) {
  if (number == kNoChoice) return {};
  const unsigned first = number >> kFirstBit & kWayMask, steps = number >> kStepsBit & kWayMask;
  PlanChoice choice{static_cast<std::uint16_t>(number & kFormMask)};
  if (first < kWayMask) choice.way.first = static_cast<KernelWay::First>(first);
  if (steps < kWayMask) choice.way.steps = static_cast<KernelWay::Steps>(steps);
  return choice;
}

}  // namespace

std::vector<std::byte> encode_choices(std::span<const PlanChoice> choices) {
  ByteWriter writer;
  writer.u8(kPayloadVersion);
  writer.u32(static_cast<std::uint32_t>(choices.size()));
  for (const PlanChoice& choice : choices) writer.u16(to_number(choice));
  return writer.release();
}

Result<std::vector<PlanChoice>> decode_choices(std::span<const std::byte> payload,
                                               std::size_t op_count) {
  ByteReader reader(payload, "plan payload");
  const std::uint8_t version = CTXGEN_TRY(reader.u8());
  if (version != kPayloadVersion)
    return fail(ErrorCode::kCorruptContext, "plan payload: version {}, expected {}", version,
                kPayloadVersion);
  const std::uint32_t count = CTXGEN_TRY(reader.count(sizeof(std::uint16_t)));
  if (count != op_count || reader.remaining() != count * sizeof(std::uint16_t))
    return fail(ErrorCode::kCorruptContext, "plan payload: {} ops in {} bytes, expected {} ops",
                count, payload.size(), op_count);
  std::vector<PlanChoice> choices(count);
  for (PlanChoice& choice : choices) choice = to_choice(CTXGEN_TRY(reader.u16()));
  return choices;
}

}  // namespace ctxgen::onednn
