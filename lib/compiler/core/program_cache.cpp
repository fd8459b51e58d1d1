#include "core/program_cache.h"

#include "ctxgen/base/byte_io.h"
#include "ctxgen/ctxfile/context_file.h"

#include "core/blob_table.h"

namespace ctxgen {
namespace {

// An entry is a context binary of one program, whose blobs are empty and known by their hashes; for
// each of them the hash of what it was packed from; the size of the context binary.

constexpr std::uint64_t kHashBytes = 16;
constexpr const char* kSource = "ctxgen compile cache";

/// The program with indices into a table of its blobs.
ContextContent content_of(Program program, const WeightStore& store, BlobTable& table) {
  ContextContent content;
  content.source = kSource;
  table.renumber(program);
  for (const StoreId id : table.ids()) {
    content.blobs.emplace_back();
    content.blob_hashes.push_back(store.hash(id));
  }
  if (program.name.empty()) program.name = "program";
  content.programs.push_back(std::move(program));
  return content;
}

struct Entry {
  Program program;
  std::vector<Hash128> blobs, contents;
};

Result<Entry> read_entry(const Blob& bytes) {
  if (bytes.bytes.size() < sizeof(std::uint64_t))
    return fail(ErrorCode::kCorruptContext, "a program of {} bytes", bytes.bytes.size());
  ByteReader tail(bytes.bytes.last(sizeof(std::uint64_t)), "program");
  const std::uint64_t size = CTXGEN_TRY(tail.u64());
  const std::uint64_t rest = bytes.bytes.size() - sizeof(std::uint64_t);
  if (size > rest) return fail(ErrorCode::kCorruptContext, "a program of {} bytes", size);
  const ContextReader context =
      CTXGEN_TRY(ContextReader::open(bytes.slice(0, size), "cache", VerifyBlobs::kNever));
  if (context.info().source != kSource || context.programs().size() != 1 ||
      (rest - size) / kHashBytes != context.blobs().size())
    return fail(ErrorCode::kCorruptContext, "it is not a program entry");
  Entry entry{.program = context.programs().front(), .blobs = {}, .contents = {}};
  ByteReader table(bytes.bytes.subspan(size, rest - size), "program");
  for (const BlobEntry& blob : context.blobs()) {
    entry.blobs.push_back(blob.hash);
    const std::uint64_t high = CTXGEN_TRY(table.u64());
    entry.contents.push_back({.high = high, .low = CTXGEN_TRY(table.u64())});
  }
  return entry;
}

}  // namespace

Result<std::optional<CachedProgram>> find_program(CacheFolder& cache, const ProgramKey& key,
                                                  WeightStore& store) {
  const std::optional<Blob> bytes = cache.find(CacheKind::kProgram, key.key);
  if (!bytes) return std::nullopt;
  auto entry = read_entry(*bytes);
  if (!entry) return std::nullopt;
  CachedProgram found;
  std::vector<Blob> blobs;
  for (const Hash128 hash : entry->blobs) {
    const auto constant = key.constants.find(hash);
    auto blob = constant != key.constants.end() ? std::optional(constant->second)
                                                : cache.find(CacheKind::kBlob, hash);
    if (!blob) return std::nullopt;
    if (constant == key.constants.end()) found.weight_bytes += blob->bytes.size();
    blobs.push_back(std::move(*blob));
  }
  std::vector<StoreId> ids;
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    ids.push_back(CTXGEN_TRY(store.add(entry->blobs[i], std::move(blobs[i]))));
    if (entry->contents[i] != entry->blobs[i]) found.contents.emplace(ids[i], entry->contents[i]);
  }
  found.program = std::move(entry->program);
  for (ProgramWeight& weight : found.program.weights)
    for (PackedWeight& packed : weight.packed) packed.blob = ids[packed.blob.bin_index().value];
  found.program.name.clear();
  return found;
}

void keep_program(CacheFolder& cache, const ProgramKey& key, const Program& program,
                  const WeightStore& store) {
  BlobTable table(store);
  const ContextContent content = content_of(program, store, table);
  for (const StoreId id : table.ids())
    if (!key.constants.contains(store.hash(id)) && !cache.holds(CacheKind::kBlob, store.hash(id)) &&
        !cache.add(CacheKind::kBlob, store.hash(id), store.blob(id).bytes))
      return;
  ByteWriter writer;
  const Status written = write_context(content, [&](std::span<const std::byte> part) -> Status {
    writer.bytes(part);
    return {};
  });
  if (!written) return;  // too large for a manifest: the compile itself says so
  const std::uint64_t size = writer.size();
  for (const StoreId id : table.ids()) {
    writer.u64(store.content_of(id).high);
    writer.u64(store.content_of(id).low);
  }
  writer.u64(size);
  static_cast<void>(cache.add(CacheKind::kProgram, key.key, writer.buffer()));
}

}  // namespace ctxgen
