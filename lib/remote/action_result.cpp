#include "action_result.h"

#include "ctxgen/base/protobuf_wire.h"

namespace ctxgen {
namespace {

// ActionResult.output_files, OutputFile.path and .digest, Digest.hash and .size_bytes.
constexpr std::uint32_t kOutputFiles = wire::bytes(2);
constexpr std::uint32_t kPath = wire::bytes(1), kDigest = wire::bytes(2);
constexpr std::uint32_t kHash = wire::bytes(1), kSizeBytes = wire::varint(2);

using Bytes = std::vector<std::byte>;

void add_varint(Bytes& out, std::uint64_t number) {
  const wire::EncodedVarint encoded(number);
  out.insert(out.end(), encoded.bytes().begin(), encoded.bytes().end());
}
void add_field(Bytes& out, std::uint32_t tag, std::span<const std::byte> body) {
  add_varint(out, tag);
  add_varint(out, body.size());
  out.insert(out.end(), body.begin(), body.end());
}

Status read_digest(std::span<const std::byte> message, ResultFile& file) {
  wire::Reader reader(message);
  bool named = false;
  while (const wire::Field* field = reader.next()) {
    if (field->tag == kSizeBytes) file.bytes = field->number;
    if (field->tag != kHash) continue;
    const auto digest = Sha256Digest::parse(field->text());
    if (!digest) return fail(ErrorCode::kCorruptContext, "a digest that is not SHA-256");
    file.digest = *digest;
    named = true;
  }
  if (!named) return fail(ErrorCode::kCorruptContext, "a file without a digest");
  return reader.status(ErrorCode::kCorruptContext);
}

Result<ResultFile> read_file(std::span<const std::byte> message) {
  wire::Reader reader(message);
  ResultFile file;
  bool has_digest = false;
  while (const wire::Field* field = reader.next()) {
    if (field->tag == kPath) file.path = field->text();
    if (field->tag != kDigest) continue;
    CTXGEN_CHECK(read_digest(field->body, file));
    has_digest = true;
  }
  CTXGEN_CHECK(reader.status(ErrorCode::kCorruptContext));
  if (!has_digest) return fail(ErrorCode::kCorruptContext, "a file without a digest");
  return file;
}

}  // namespace

std::vector<std::byte> encode_action_result(std::span<const ResultFile> files) {
  Bytes result;
  for (const ResultFile& file : files) {
    Bytes digest, output;
    add_field(digest, kHash, as_bytes(file.digest.hex()));
    if (file.bytes > 0) {  // proto3: a zero is left out
      add_varint(digest, kSizeBytes);
      add_varint(digest, file.bytes);
    }
    add_field(output, kPath, as_bytes(file.path));
    add_field(output, kDigest, digest);
    add_field(result, kOutputFiles, output);
  }
  return result;
}

Result<std::vector<ResultFile>> decode_action_result(std::span<const std::byte> message) {
  wire::Reader reader(message);
  std::vector<ResultFile> files;
  while (const wire::Field* field = reader.next())
    if (field->tag == kOutputFiles) files.push_back(CTXGEN_TRY(read_file(field->body)));
  CTXGEN_CHECK(reader.status(ErrorCode::kCorruptContext));
  return files;
}

}  // namespace ctxgen
