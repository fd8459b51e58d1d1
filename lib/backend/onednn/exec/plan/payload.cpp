#include "plan/payload.h"

#include "ctxgen/base/byte_io.h"

namespace ctxgen::onednn {
namespace {
constexpr std::uint8_t kPayloadVersion = 1;
}

std::vector<std::byte> encode_choices(std::span<const std::uint16_t> choices) {
  ByteWriter writer;
  writer.u8(kPayloadVersion);
  writer.u32(static_cast<std::uint32_t>(choices.size()));
  for (const std::uint16_t choice : choices) writer.u16(choice);
  return writer.release();
}

Result<std::vector<std::uint16_t>> decode_choices(std::span<const std::byte> payload,
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
  std::vector<std::uint16_t> choices(count);
  for (std::uint16_t& choice : choices) choice = CTXGEN_TRY(reader.u16());
  return choices;
}

}  // namespace ctxgen::onednn
