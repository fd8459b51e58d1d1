#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/version.h"
#include "ctxgen/ctxfile/context_file.h"

#include "header.h"
#include "manifest.h"
#include "variants.h"

namespace ctxgen {
namespace {

/// Everything of a file but the blobs' bytes, and where those go.
struct Layout {
  std::vector<std::byte> header;
  std::vector<std::byte> manifest;
  std::vector<ManifestBlob> blobs;
  std::uint64_t manifest_offset = 0;
  std::uint64_t data_offset = 0;
  std::uint64_t file_size = 0;
};

Status check_content(const ContextContent& content) {
  if (content.blobs.size() != content.blob_hashes.size())
    return fail(ErrorCode::kInternal, "{} blobs with {} hashes", content.blobs.size(),
                content.blob_hashes.size());
  if (!content.compressed.empty() && content.compressed.size() != content.blobs.size())
    return fail(ErrorCode::kInternal, "{} blobs, {} of them compressed", content.blobs.size(),
                content.compressed.size());
  if (!content.compressed_sizes.empty() &&
      (content.compressed_sizes.size() != content.blobs.size() ||
       content.compressed.size() != content.blobs.size()))
    return fail(ErrorCode::kInternal, "{} blobs, {} with the size of what is compressed",
                content.blobs.size(), content.compressed_sizes.size());
  if (std::ranges::adjacent_find(content.needs, std::greater_equal()) != content.needs.end())
    return fail(ErrorCode::kInternal, "needs of a context must ascend");
  std::set<std::string_view> names;
  for (const Program& program : content.programs) {
    auto status = validate(program, content.blobs.size());
    if (!status) return fail(ErrorCode::kInternal, "{}", status.error().message);
    if (!names.insert(program.name).second)
      return fail(ErrorCode::kInternal, "two programs are named \"{}\"", program.name);
  }
  auto variants = check_variants(content.programs);
  if (!variants) return fail(ErrorCode::kInternal, "{}", variants.error().message);
  return {};
}

/// What the file has for blob `i`, and whether that is its compressed form.
std::pair<std::span<const std::byte>, bool> stored_form(const ContextContent& content,
                                                        std::size_t i) {
  if (content.compressed.empty() || content.compressed[i].owner == nullptr)
    return {content.blobs[i].bytes, false};
  return {content.compressed[i].bytes, true};
}

Result<std::vector<ManifestBlob>> place_blobs(const ContextContent& content) {
  std::vector<ManifestBlob> blobs;
  blobs.reserve(content.blobs.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < content.blobs.size(); ++i) {
    const auto [bytes, compressed] = stored_form(content, i);
    const std::uint64_t size = bytes.size();
    const std::uint64_t offset = align_up(end, blob_alignment(size));
    const auto next = checked_add(offset, size);
    if (!next || *next > std::uint64_t{1} << 62)
      return fail(ErrorCode::kResourceLimit, "the weights take more than 2^62 bytes");
    ManifestBlob& blob = blobs.emplace_back();
    blob = {.offset = offset, .size = size, .hash = content.blob_hashes[i]};
    if (compressed) {
      blob.encoding = static_cast<std::uint32_t>(BlobEncoding::kZstd);
      blob.content_size = content.compressed_sizes.empty() ? content.blobs[i].bytes.size()
                                                           : content.compressed_sizes[i];
    }
    end = *next;
  }
  return blobs;
}

/// The oldest minor version that has all that the content needs.
std::uint16_t minor_of(const ContextContent& content) {
  constexpr std::uint16_t kCertificateMinor = 3;
  for (const Program& program : content.programs)
    if (program.certificate) return kCertificateMinor;
  if (!content.needs.empty()) return kNeedsMinor;
  for (std::size_t i = 0; i < content.compressed.size(); ++i)
    if (stored_form(content, i).second) return 1;
  for (const Program& program : content.programs)
    if (!program.isa.empty()) return 1;
  return 0;
}

Result<Layout> lay_out(const ContextContent& content) {
  CTXGEN_CHECK(check_content(content));
  Layout layout;
  layout.blobs = CTXGEN_TRY(place_blobs(content));
  std::vector<Hash128> hashes;
  for (const Program& program : content.programs)
    hashes.push_back(hash_program(
        program, [&](BlobRef blob) { return content.blob_hashes[blob.bin_index().value]; }));
  layout.manifest = CTXGEN_TRY(encode_manifest(content.programs, hashes, layout.blobs));

  Header header;
  header.info = {
      .format_major = kFormatMajor,
      .format_minor = minor_of(content),
      .source = content.source,
      .fingerprint = content.fingerprint,
      .producer = content.producer.empty() ? "ctxgen " CTXGEN_VERSION_STRING : content.producer,
      .needs = content.needs};
  header.manifest_offset = align_up(header_size_of(header.info), kManifestAlignment);
  header.manifest_size = layout.manifest.size();
  header.manifest_hash = hash_bytes(layout.manifest);
  header.data_offset = align_up(header.manifest_end(), kDataAlignment);
  header.file_size = header.data_offset;
  if (!layout.blobs.empty())
    header.file_size += layout.blobs.back().offset + layout.blobs.back().size;
  layout.header = CTXGEN_TRY(encode_header(header));
  layout.manifest_offset = header.manifest_offset;
  layout.data_offset = header.data_offset;
  layout.file_size = header.file_size;
  return layout;
}

/// Counts what it hands on, so that padding can be told by the place it leads to.
class PaddedSink {
 public:
  explicit PaddedSink(const ByteSink& sink) : sink_(sink) {}
  Status write(std::span<const std::byte> bytes) {
    position_ += bytes.size();
    return bytes.empty() ? Status() : sink_(bytes);
  }
  Status pad_to(std::uint64_t position) {
    static constexpr std::array<std::byte, kDataAlignment> kZeros{};
    CTXGEN_ASSERT(position >= position_ && position - position_ <= kZeros.size());
    return write(std::span(kZeros).first(position - position_));
  }
  [[nodiscard]] std::uint64_t position() const { return position_; }

 private:
  const ByteSink& sink_;
  std::uint64_t position_ = 0;
};

}  // namespace

Status write_context(const ContextContent& content, const ByteSink& sink) {
  const Layout layout = CTXGEN_TRY(lay_out(content));
  PaddedSink out(sink);
  CTXGEN_CHECK(out.write(layout.header));
  CTXGEN_CHECK(out.pad_to(layout.manifest_offset));
  CTXGEN_CHECK(out.write(layout.manifest));
  CTXGEN_CHECK(out.pad_to(layout.data_offset));
  for (std::size_t i = 0; i < layout.blobs.size(); ++i) {
    CTXGEN_CHECK(out.pad_to(layout.data_offset + layout.blobs[i].offset));
    CTXGEN_CHECK(out.write(stored_form(content, i).first));
  }
  CTXGEN_ASSERT(out.position() == layout.file_size);
  return {};
}

Result<std::uint64_t> context_size(const ContextContent& content) {
  return CTXGEN_TRY(lay_out(content)).file_size;
}

}  // namespace ctxgen
