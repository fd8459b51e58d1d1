#include "header.h"

#include <cstring>

#include "ctxgen/base/byte_io.h"

#include "manifest.h"

namespace ctxgen {
namespace {

/// XXH3-128 of the header with the checksum's own bytes taken as zero.
Hash128 checksum_of(std::span<const std::byte> header) {
  static constexpr std::array<std::byte, kChecksumBytes> kZeros{};
  Hasher hasher;
  hasher.add(header.first(kChecksumOffset));
  hasher.add(std::span<const std::byte>(kZeros));
  hasher.add(header.subspan(kChecksumOffset + kChecksumBytes));
  return hasher.finish();
}

Result<Hash128> read_hash(ByteReader& reader) {
  const auto high = CTXGEN_TRY(reader.u64());
  const auto low = CTXGEN_TRY(reader.u64());
  return Hash128{.high = high, .low = low};
}

void write_hash(ByteWriter& writer, const Hash128& hash) {
  writer.u64(hash.high);
  writer.u64(hash.low);
}

/// Magic and version: what every reader of every version can judge.
Status read_prefix(ByteReader& reader, Header& header) {
  const auto magic = CTXGEN_TRY(reader.take(kContextMagic.size()));
  if (std::memcmp(magic.data(), kContextMagic.data(), kContextMagic.size()) != 0)
    return fail(ErrorCode::kCorruptContext, "not a context binary: its first bytes are not \"{}\"",
                "\\x89CTXGEN\\n");
  header.info.format_major = CTXGEN_TRY(reader.u16());
  header.info.format_minor = CTXGEN_TRY(reader.u16());
  if (header.info.format_major != kFormatMajor)
    return fail(ErrorCode::kVersionMismatch, "format version {}.{} found, expected {}.x",
                header.info.format_major, header.info.format_minor, kFormatMajor);
  header.header_size = CTXGEN_TRY(reader.u32());
  return {};
}

Status check_checksum(std::span<const std::byte> file, std::uint64_t header_size) {
  if (header_size < kFixedHeaderBytes || header_size > kMaxHeaderBytes)
    return fail(ErrorCode::kCorruptContext, "header size is {}, expected {} to {}", header_size,
                kFixedHeaderBytes, kMaxHeaderBytes);
  if (header_size > file.size())
    return fail(ErrorCode::kCorruptContext, "the header has {} bytes, the file {}", header_size,
                file.size());
  ByteReader reader(file.subspan(kChecksumOffset, kChecksumBytes), "header");
  const auto expected = CTXGEN_TRY(read_hash(reader));
  const Hash128 found = checksum_of(file.first(header_size));
  if (found != expected)
    return fail(ErrorCode::kCorruptContext, "header checksum is {}, expected {}", found.hex(),
                expected.hex());
  return {};
}

Status read_texts(ByteReader& reader, Header& header) {
  const auto source = CTXGEN_TRY(reader.u32());
  const auto fingerprint = CTXGEN_TRY(reader.u32());
  const auto producer = CTXGEN_TRY(reader.u32());
  header.info.source = as_text(CTXGEN_TRY(reader.take(source)));
  header.info.fingerprint = as_text(CTXGEN_TRY(reader.take(fingerprint)));
  header.info.producer = as_text(CTXGEN_TRY(reader.take(producer)));
  return {};
}

Status read_needs(ByteReader& reader, Header& header) {
  if (header.info.format_minor < kNeedsMinor) return {};
  const auto count = CTXGEN_TRY(reader.u32());
  if (count > reader.remaining() / kNeedBytes)
    return fail(ErrorCode::kCorruptContext, "{} needs in {} bytes of the header", count,
                reader.remaining());
  for (std::uint32_t i = 0; i < count; ++i) {
    Need need;
    need.group = CTXGEN_TRY(reader.u16());
    need.number = CTXGEN_TRY(reader.u16());
    if (!header.info.needs.empty() && need <= header.info.needs.back())
      return fail(ErrorCode::kCorruptContext, "needs must ascend, {}.{} comes after {}.{}",
                  need.group, need.number, header.info.needs.back().group,
                  header.info.needs.back().number);
    header.info.needs.push_back(need);
  }
  return {};
}

/// What follows belongs to fields of newer minor versions.
Status check_end(const ByteReader& reader, const Header& header) {
  if (header.info.format_minor > kFormatMinor || reader.remaining() == 0) return {};
  return fail(ErrorCode::kCorruptContext, "{} bytes too many in the header", reader.remaining());
}

/// Sections are in one order, each as near to the one before as its alignment allows.
Status check_places(const Header& header) {
  const std::uint64_t manifest = align_up(header.header_size, kManifestAlignment);
  if (header.manifest_offset != manifest)
    return fail(ErrorCode::kCorruptContext, "manifest offset is {}, expected {}",
                header.manifest_offset, manifest);
  if (header.manifest_size > kMaxManifestBytes)
    return fail(ErrorCode::kCorruptContext, "manifest size is {}, at most {} are allowed",
                header.manifest_size, kMaxManifestBytes);
  const std::uint64_t data = align_up(header.manifest_end(), kDataAlignment);
  if (header.data_offset != data)
    return fail(ErrorCode::kCorruptContext, "data offset is {}, expected {}", header.data_offset,
                data);
  if (header.file_size < data)
    return fail(ErrorCode::kCorruptContext, "file size is {}, expected at least {}",
                header.file_size, data);
  return {};
}

}  // namespace

std::uint64_t header_size_of(const ContextInfo& info) {
  std::uint64_t size =
      kFixedHeaderBytes + info.source.size() + info.fingerprint.size() + info.producer.size();
  if (info.format_minor >= kNeedsMinor)
    size += sizeof(std::uint32_t) + kNeedBytes * info.needs.size();
  return size;
}

Result<std::vector<std::byte>> encode_header(const Header& header) {
  const std::uint64_t size = header_size_of(header.info);
  if (size > kMaxHeaderBytes)
    return fail(ErrorCode::kResourceLimit, "the header takes {} bytes, at most {} are allowed",
                size, kMaxHeaderBytes);
  ByteWriter out;
  out.text(kContextMagic);
  out.u16(header.info.format_major);
  out.u16(header.info.format_minor);
  out.u32(static_cast<std::uint32_t>(size));
  write_hash(out, Hash128{});  // the checksum, put in below
  out.u64(header.file_size);
  out.u64(header.manifest_offset);
  out.u64(header.manifest_size);
  write_hash(out, header.manifest_hash);
  out.u64(header.data_offset);
  out.u32(static_cast<std::uint32_t>(header.info.source.size()));
  out.u32(static_cast<std::uint32_t>(header.info.fingerprint.size()));
  out.u32(static_cast<std::uint32_t>(header.info.producer.size()));
  out.text(header.info.source);
  out.text(header.info.fingerprint);
  out.text(header.info.producer);
  if (header.info.format_minor >= kNeedsMinor) {
    out.u32(static_cast<std::uint32_t>(header.info.needs.size()));
    for (const Need& need : header.info.needs) {
      out.u16(need.group);
      out.u16(need.number);
    }
  }

  ByteWriter checksum;
  write_hash(checksum, checksum_of(out.buffer()));
  std::memcpy(out.buffer().data() + kChecksumOffset, checksum.buffer().data(), kChecksumBytes);
  return out.release();
}

Result<Header> decode_header(std::span<const std::byte> file) {
  Header header;
  ByteReader prefix(file.first(std::min<std::size_t>(file.size(), kPrefixBytes)), "prefix");
  CTXGEN_CHECK(read_prefix(prefix, header));
  CTXGEN_CHECK(check_checksum(file, header.header_size));
  constexpr std::uint64_t kBehindChecksum = kChecksumOffset + kChecksumBytes;
  ByteReader reader(file.subspan(kBehindChecksum, header.header_size - kBehindChecksum), "header");
  header.file_size = CTXGEN_TRY(reader.u64());
  header.manifest_offset = CTXGEN_TRY(reader.u64());
  header.manifest_size = CTXGEN_TRY(reader.u64());
  header.manifest_hash = CTXGEN_TRY(read_hash(reader));
  header.data_offset = CTXGEN_TRY(reader.u64());
  CTXGEN_CHECK(read_texts(reader, header));
  CTXGEN_CHECK(read_needs(reader, header));
  CTXGEN_CHECK(check_end(reader, header));
  CTXGEN_CHECK(check_places(header));
  return header;
}

}  // namespace ctxgen
