#include <algorithm>
#include <cstring>
#include <map>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/checked.h"
#include "ctxgen/ctxfile/context_file.h"

#include "blob_cache.h"
#include "header.h"
#include "manifest.h"
#include "variants.h"

namespace ctxgen {
namespace {

std::unexpected<Error> named(Error error, std::string_view name) {
  return std::unexpected(with_context(std::move(error), std::format("context \"{}\"", name)));
}

/// The same bytes at an address that primitives can use: a payload inside a model may be at any address.
Result<Blob> align(Blob file) {
  if (reinterpret_cast<std::uintptr_t>(file.bytes.data()) % kBlobAlignment == 0) return file;
  Tensor copy = CTXGEN_TRY(
      Tensor::allocate(DataType::kUint8, Dims{static_cast<std::int64_t>(file.bytes.size())}));
  std::memcpy(copy.mutable_bytes().data(), file.bytes.data(), file.bytes.size());
  return Blob{copy.owner(), copy.bytes()};
}

Status check_manifest_hash(const Header& header, std::span<const std::byte> file) {
  const Hash128 found = hash_bytes(file.subspan(header.manifest_offset, header.manifest_size));
  if (found == header.manifest_hash) return {};
  return fail(ErrorCode::kCorruptContext, "manifest checksum is {}, expected {}", found.hex(),
              header.manifest_hash.hex());
}

/// Only what shrinks is compressed, and the sizes of tensors bound it.
Status check_content_size(std::size_t i, const ManifestBlob& blob, BlobEncoding encoding) {
  const bool right = encoding == BlobEncoding::kNone
                         ? blob.content_size == 0
                         : blob.content_size > blob.size && blob.content_size <= kMaxTensorBytes;
  if (right) return {};
  return fail(ErrorCode::kCorruptContext, "blob {}: {} bytes of encoding {} hold {}", i, blob.size,
              blob.encoding, blob.content_size);
}

/// Blobs are in order, disjoint, aligned and inside the file.
Result<std::vector<BlobEntry>> check_blobs(const Header& header,
                                           std::span<const ManifestBlob> blobs) {
  const std::uint64_t data_size = header.file_size - header.data_offset;
  std::vector<BlobEntry> entries;
  entries.reserve(blobs.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    const ManifestBlob& blob = blobs[i];
    if (blob.encoding > static_cast<std::uint32_t>(BlobEncoding::kZstd))
      return fail(ErrorCode::kVersionMismatch,
                  "blob {} has encoding {}, expected 0 (none) or 1 (zstd)", i, blob.encoding);
    const auto encoding = static_cast<BlobEncoding>(blob.encoding);
    CTXGEN_CHECK(check_content_size(i, blob, encoding));
    if (!range_fits(blob.offset, blob.size, data_size))
      return fail(ErrorCode::kCorruptContext,
                  "blob {}: {} bytes at offset {} of a data section of {}", i, blob.size,
                  blob.offset, data_size);
    if (blob.offset % blob_alignment(blob.size) != 0)
      return fail(ErrorCode::kCorruptContext, "blob {}: offset {} is not a multiple of {}", i,
                  blob.offset, blob_alignment(blob.size));
    if (blob.offset < end)
      return fail(ErrorCode::kCorruptContext,
                  "blob {}: offset {} is before the end {} of the blob "
                  "before",
                  i, blob.offset, end);
    end = blob.offset + blob.size;
    entries.push_back({header.data_offset + blob.offset,
                       encoding == BlobEncoding::kNone ? blob.size : blob.content_size, blob.hash,
                       blob.size, encoding});
  }
  // Newer minor versions may add sections after the blobs.
  if (header.info.format_minor <= kFormatMinor && end != data_size)
    return fail(ErrorCode::kCorruptContext, "the data section has {} bytes, its blobs end at {}",
                data_size, end);
  return entries;
}

Status check_programs(const Manifest& manifest) {
  const auto blob_hash = [&](BlobRef blob) { return manifest.blobs[blob.bin_index().value].hash; };
  std::map<std::string_view, std::size_t> names;
  for (std::size_t i = 0; i < manifest.programs.size(); ++i) {
    const Program& program = manifest.programs[i];
    CTXGEN_CHECK(validate(program, manifest.blobs.size()));
    if (!names.emplace(program.name, i).second)
      return fail(ErrorCode::kCorruptContext, "two programs are named \"{}\"", program.name);
    const Hash128 found = hash_program(program, blob_hash);
    if (found != manifest.program_hashes[i])
      return fail(ErrorCode::kCorruptContext, "program \"{}\": content hash is {}, expected {}",
                  program.name, found.hex(), manifest.program_hashes[i].hex());
    if (program.certificate)
      CTXGEN_CHECK_AT(check_certificate(*program.certificate, found), "program \"{}\"",
                      program.name);
  }
  return check_variants(manifest.programs);
}

Status check_zero(std::span<const std::byte> file, std::uint64_t begin, std::uint64_t end) {
  const auto gap = file.subspan(begin, end - begin);
  const auto bad = std::ranges::find_if(gap, [](std::byte b) { return b != std::byte{0}; });
  if (bad == gap.end()) return {};
  return fail(ErrorCode::kCorruptContext, "padding at offset {} is {}, expected 0",
              begin + static_cast<std::uint64_t>(bad - gap.begin()), std::to_integer<int>(*bad));
}

}  // namespace

Result<ContextInfo> read_context_info(std::span<const std::byte> file, std::string_view name) {
  auto header = decode_header(file);
  if (!header) return named(std::move(header).error(), name);
  return std::move(header->info);
}

Result<ContextReader> ContextReader::open(Blob file, std::string_view name, VerifyBlobs verify) {
  ContextReader reader;
  const auto load = [&]() -> Status {
    reader.name_ = name;
    Header header = CTXGEN_TRY(decode_header(file.bytes));
    if (header.file_size != file.bytes.size())
      return fail(ErrorCode::kCorruptContext, "the file has {} bytes, expected {}",
                  file.bytes.size(), header.file_size);
    CTXGEN_CHECK(check_manifest_hash(header, file.bytes));
    Manifest manifest = CTXGEN_TRY(
        decode_manifest(file.bytes.subspan(header.manifest_offset, header.manifest_size)));
    reader.blobs_ = CTXGEN_TRY(check_blobs(header, manifest.blobs));
    reader.cache_ = std::make_shared<BlobCache>(reader.blobs_.size());
    CTXGEN_CHECK(check_programs(manifest));
    reader.file_ = CTXGEN_TRY(align(std::move(file)));
    reader.info_ = std::move(header.info);
    reader.manifest_begin_ = header.manifest_offset;
    reader.manifest_end_ = header.manifest_end();
    reader.header_end_ = header.header_size;
    reader.data_begin_ = header.data_offset;
    reader.programs_ = std::move(manifest.programs);
    reader.program_hashes_ = std::move(manifest.program_hashes);
    return {};
  };
  return at_boundary("opening a context", [&]() -> Result<ContextReader> {
    auto status = load();
    if (!status) return named(std::move(status).error(), name);
    if (verifies(verify, reader.file_size())) CTXGEN_CHECK(reader.verify_blobs());
    return std::move(reader);
  });
}

Result<std::size_t> ContextReader::find(std::string_view partition_name) const {
  const auto found = std::ranges::find(programs_, partition_name, &Program::name);
  if (found != programs_.end() && found->variant_of.empty())
    return static_cast<std::size_t>(found - programs_.begin());
  constexpr std::size_t kListed = 20;
  std::string names;
  for (std::size_t i = 0; i < std::min(programs_.size(), kListed); ++i)
    names += std::format("{}\"{}\"", i == 0 ? "" : ", ", programs_[i].name);
  if (programs_.size() > kListed) names += std::format(" and {} more", programs_.size() - kListed);
  return fail(ErrorCode::kCorruptContext, "context \"{}\" has no partition \"{}\"; it has {}",
              name_, partition_name, names.empty() ? "none" : names);
}

std::vector<std::size_t> ContextReader::variants(std::size_t index) const {
  std::vector<std::size_t> all{index};
  if (programs_[index].isa.empty()) return all;
  for (std::size_t i = 0; i < programs_.size(); ++i)
    if (programs_[i].variant_of == programs_[index].name) all.push_back(i);
  return all;
}

Result<Blob> ContextReader::blob(BlobIndex index) const {
  if (index.value >= blobs_.size())
    return fail(ErrorCode::kCorruptContext, "context \"{}\" has {} blobs, blob {} was asked for",
                name_, blobs_.size(), index.value);
  auto found = content(index);
  if (!found) return named(std::move(found).error(), name_);
  return found;
}

Blob ContextReader::stored(BlobIndex index) const {
  const BlobEntry& entry = blobs_[index.value];
  return file_.slice(entry.offset, entry.stored);
}

Result<Blob> ContextReader::content(BlobIndex index) const {
  const BlobEntry& entry = blobs_[index.value];
  Blob as_stored = stored(index);
  if (entry.encoding == BlobEncoding::kNone) return as_stored;
  return cache_->get(index, entry, as_stored.bytes);
}

Status ContextReader::decompress_blobs(std::span<const BlobIndex> indices, int threads) const {
  std::vector<BlobIndex> compressed;
  for (const BlobIndex index : indices)
    if (index.value < blobs_.size() && blobs_[index.value].encoding != BlobEncoding::kNone)
      compressed.push_back(index);
  return for_each_index(compressed.size(), threads, [&](std::size_t i) -> Status {
    (void)CTXGEN_TRY(blob(compressed[i]));
    return {};
  });
}

Status ContextReader::verify_blobs() const {
  const auto check = [&]() -> Status {
    CTXGEN_CHECK(check_zero(file_.bytes, header_end_, manifest_begin_));
    CTXGEN_CHECK(check_zero(file_.bytes, manifest_end_, data_begin_));
    std::uint64_t end = data_begin_;
    for (std::size_t i = 0; i < blobs_.size(); ++i) {
      const BlobEntry& entry = blobs_[i];
      CTXGEN_CHECK(check_zero(file_.bytes, end, entry.offset));
      end = entry.offset + entry.stored;
      const Blob content = CTXGEN_TRY(this->content(BlobIndex{static_cast<std::uint32_t>(i)}));
      const Hash128 found = hash_bytes(content.bytes);
      if (found != entry.hash)
        return fail(ErrorCode::kCorruptContext, "blob {} ({} bytes): checksum is {}, expected {}",
                    i, entry.size, found.hex(), entry.hash.hex());
    }
    return {};
  };
  auto status = check();
  if (!status) return named(std::move(status).error(), name_);
  return {};
}

}  // namespace ctxgen
