#include "ctxgen/ctxfile/weight_reference.h"

#include <algorithm>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/byte_io.h"

namespace ctxgen {
namespace {

constexpr std::string_view kMagic = "CTXGENWR";
constexpr std::uint64_t kMostFileNameBytes = 4096;

}  // namespace

std::vector<std::byte> reference_layout() { return {std::byte{0}, std::byte{1}}; }

bool is_reference_layout(std::span<const std::byte> layout) {
  return std::ranges::equal(layout, reference_layout());
}

std::vector<std::byte> encode_reference(const WeightReference& reference) {
  ByteWriter out;
  out.text(kMagic);
  out.u64(reference.file_size);
  out.u64(reference.offset);
  out.u64(reference.size);
  out.u64(reference.hash.high);
  out.u64(reference.hash.low);
  out.u32(static_cast<std::uint32_t>(reference.file.size()));
  out.text(reference.file);
  return out.release();
}

Result<WeightReference> decode_reference(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "weight reference");
  if (as_text(CTXGEN_TRY(reader.take(kMagic.size()))) != kMagic)
    return fail(ErrorCode::kCorruptContext, "weight reference: wrong magic");
  WeightReference reference;
  reference.file_size = CTXGEN_TRY(reader.u64());
  reference.offset = CTXGEN_TRY(reader.u64());
  reference.size = CTXGEN_TRY(reader.u64());
  reference.hash.high = CTXGEN_TRY(reader.u64());
  reference.hash.low = CTXGEN_TRY(reader.u64());
  const std::uint32_t name_bytes = CTXGEN_TRY(reader.count(1));
  if (name_bytes == 0 || name_bytes > kMostFileNameBytes || name_bytes != reader.remaining())
    return fail(ErrorCode::kCorruptContext, "weight reference: a file name of {} bytes in {}",
                name_bytes, reader.remaining());
  reference.file = as_text(CTXGEN_TRY(reader.take(name_bytes)));
  if (!range_fits(reference.offset, reference.size, reference.file_size))
    return fail(ErrorCode::kCorruptContext,
                "weight reference: {} bytes at offset {} of \"{}\", which has {}", reference.size,
                reference.offset, reference.file, reference.file_size);
  return reference;
}

}  // namespace ctxgen
