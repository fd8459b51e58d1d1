#include "ctxgen/ctxfile/source_weights.h"

#include "ctxgen/base/file.h"
#include "ctxgen/ctxfile/weight_reference.h"

namespace ctxgen {

namespace {

/// `name` as seen from the folder of the source; empty: it is not below that.
std::filesystem::path from_source(const std::filesystem::path& name,
                                  const std::filesystem::path& source_name) {
  if (source_name.parent_path().empty()) return name;
  const auto relative = name.lexically_relative(source_name.parent_path());
  return relative.empty() || *relative.begin() == ".." ? std::filesystem::path() : relative;
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

Result<Blob> opened(const std::filesystem::path& path, Result<Blob> mapped) {
  if (mapped) return mapped;
  return fail(ErrorCode::kCorruptContext, "weights are in \"{}\", which cannot be opened: {}",
              path.string(), mapped.error().message);
}

}  // namespace

Result<Blob> SourceWeights::map(const std::string& name) const {
  const bool is_source = !source_.name.empty() && name == source_.name;
  if (is_source && !source_.bytes.bytes.empty()) return source_.bytes;
  if (!source_.path.empty()) {
    if (is_source) return opened(source_.path, map_file(source_.path));
    const auto beneath = from_source(name, source_.name);
    const auto folder = folder_of(source_.path);
    if (!beneath.empty())
      return opened(folder / beneath, map_file_beneath(folder, beneath.string()));
  }
  if (folder_.empty())
    return fail(
        ErrorCode::kInvalidArgument,
        "weights are in \"{}\": a model from memory needs ep.context_file_path (context_file_path) or "
        "ep.context_source_model_path to find it",
        name);
  return opened(folder_ / name, map_file_beneath(folder_, name));
}

Result<Blob> SourceWeights::file(const std::string& name, std::uint64_t size) {
  auto known = files_.find(name);
  if (known == files_.end()) {
    Blob mapped = CTXGEN_TRY(map(name));
    if (accept_) CTXGEN_CHECK(accept_(name, mapped.bytes));
    known = files_.emplace(name, std::move(mapped)).first;
  }
  if (known->second.bytes.size() != size)
    return fail(
        ErrorCode::kCorruptContext,
        "weights are in \"{}\", which has {} bytes, expected {}: it is not the file that was compiled",
        name, known->second.bytes.size(), size);
  return known->second;
}

Result<Blob> SourceWeights::open(const Blob& blob) {
  const WeightReference reference = CTXGEN_TRY(decode_reference(blob.bytes));
  const Blob whole = CTXGEN_TRY(file(reference.file, reference.file_size));
  const Blob weight =
      whole.slice(reference.offset, reference.size);  // decode_reference checked the range
  if (verifies(verify_, reference.file_size))
    if (const Hash128 found = hash_bytes(weight.bytes); found != reference.hash)
      return fail(ErrorCode::kCorruptContext,
                  "weight of {} bytes at offset {} of \"{}\": checksum is {}, expected {}",
                  reference.size, reference.offset, reference.file, found.hex(),
                  reference.hash.hex());
  return weight;
}

BlobSource SourceWeights::blobs_of(const Program& program,
                                   std::shared_ptr<const ContextReader> reader) {
  return blobs_of(program, [reader = std::move(reader)](BlobIndex index) -> Result<Blob> {
    return reader->blob(index);
  });
}

BlobSource SourceWeights::blobs_of(const Program& program, BlobSource blobs) {
  std::set<BlobIndex> references;
  for (const ProgramWeight& weight : program.weights)
    for (const PackedWeight& packed : weight.packed)
      if (is_reference_layout(packed.layout)) references.insert(packed.blob.bin_index());
  return [this, references = std::move(references),
          blobs = std::move(blobs)](BlobIndex index) -> Result<Blob> {
    Blob blob = CTXGEN_TRY(blobs(index));
    if (!references.contains(index)) return blob;
    return open(blob);
  };
}

}  // namespace ctxgen
