#include "regroup/merged_bin.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "ctxgen/ctxfile/fingerprint.h"
#include "ctxgen/ctxfile/needs.h"
#include "ctxgen/weights/codec.h"

#include "output/target_fields.h"

namespace ctxgen {
namespace {

bool equal_bytes(const Blob& a, const Blob& b) {
  const std::size_t size = a.bytes.size();
  if (size != b.bytes.size()) return false;
  return size == 0 || a.bytes.data() == b.bytes.data() ||
         std::memcmp(a.bytes.data(), b.bytes.data(), size) == 0;
}

/// What is copied is verified: nothing that is damaged gets a new place. A compressed blob is decompressed for that,
/// one at a time.
Status check_blob(const BlobEntry& entry, const Blob& stored) {
  const Blob content = entry.encoding == BlobEncoding::kNone
                           ? stored
                           : CTXGEN_TRY(decompress(stored.bytes, entry.size));
  const Hash128 found = hash_bytes(content.bytes);
  if (found == entry.hash) return {};
  return fail(ErrorCode::kCorruptContext,
              "a blob of {} bytes at offset {}: checksum is {}, expected {}", entry.size,
              entry.offset, found.hex(), entry.hash.hex());
}

}  // namespace

Status MergedBin::check_alike(const ContextInfo& info, const std::string& owner) {
  if (first_owner_.empty()) {
    first_owner_ = owner;
    content_.source = info.source;
    content_.fingerprint = info.fingerprint;
    content_.producer = info.producer;
    return {};
  }
  if (info.producer != content_.producer)
    return fail(ErrorCode::kVersionMismatch,
                "{}: its context binary was written by \"{}\", expected \"{}\" as that of {}",
                owner, info.producer, content_.producer, first_owner_);
  if (info.fingerprint == content_.fingerprint) return {};
  const TargetDifference difference = difference_of(info.fingerprint, content_.fingerprint);
  return fail(ErrorCode::kVersionMismatch, "{}: its context binary is for {}, expected {} as in {}",
              owner, difference.found, difference.expected, first_owner_);
}

Result<BlobIndex> MergedBin::add_blob(const ContextReader& reader, BlobIndex index) {
  const BlobEntry& entry = reader.blobs()[index.value];
  const Blob stored = reader.stored(index);
  std::vector<BlobIndex>& same_hash = by_hash_[entry.hash];
  for (const BlobIndex known : same_hash) {
    const bool compressed = encodings_[known.value] != BlobEncoding::kNone;
    const Blob& there = compressed ? content_.compressed[known.value] : content_.blobs[known.value];
    if (encodings_[known.value] == entry.encoding && equal_bytes(there, stored)) return known;
    if (compressed || entry.encoding != BlobEncoding::kNone)
      return fail(
          ErrorCode::kVersionMismatch,
          "a blob of {} bytes is compressed in another way than in the context binary of {}",
          entry.size, first_owner_);
  }
  CTXGEN_CHECK(check_blob(entry, stored));
  if (content_.blobs.size() >= std::numeric_limits<std::uint32_t>::max())
    return fail(ErrorCode::kResourceLimit, "more than {} weights", content_.blobs.size());
  const BlobIndex next{static_cast<std::uint32_t>(content_.blobs.size())};
  const bool compressed = entry.encoding != BlobEncoding::kNone;
  content_.blobs.push_back(compressed ? Blob() : stored);
  content_.compressed.push_back(compressed ? stored : Blob());
  content_.compressed_sizes.push_back(compressed ? entry.size : 0);
  content_.blob_hashes.push_back(entry.hash);
  encodings_.push_back(entry.encoding);
  same_hash.push_back(next);
  return next;
}

Result<BlobIndex> MergedBin::take(const ContextReader& reader, BlobIndex index) {
  const auto key = std::pair(&reader, index);
  if (const auto known = taken_.find(key); known != taken_.end()) return known->second;
  const BlobIndex next = CTXGEN_TRY(add_blob(reader, index));
  taken_.emplace(key, next);
  return next;
}

Status MergedBin::add(std::shared_ptr<const ContextReader> reader, std::size_t index,
                      const std::string& owner) {
  CTXGEN_CHECK(check_alike(reader->info(), owner));
  Program program = reader->programs()[index];
  for (ProgramWeight& weight : program.weights)
    for (PackedWeight& packed : weight.packed) {
      bytes_added_ += reader->blobs()[packed.blob.bin_index().value].size;
      auto blob = take(*reader, packed.blob.bin_index());
      if (!blob) return std::unexpected(with_context(std::move(blob).error(), owner));
      packed.blob = *blob;
    }
  if (!std::ranges::contains(readers_, reader)) readers_.push_back(std::move(reader));
  const auto [at, added] = names_.try_emplace(program.name, content_.programs.size());
  if (added) {
    content_.programs.push_back(std::move(program));
    return {};
  }
  if (content_.programs[at->second] != program)
    return fail(
        ErrorCode::kInvalidGraph,
        "{}: its program \"{}\" is not that of another model: they were not compiled by one "
        "version of ctxgen",
        owner, program.name);
  shared_ += 1;
  return {};
}

std::vector<std::string> MergedBin::isas() const {
  return std::ranges::any_of(content_.programs, [](const Program& p) { return !p.isa.empty(); })
             ? instruction_sets_of(content_.fingerprint)
             : std::vector<std::string>();
}

std::uint64_t MergedBin::bytes_stored() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < content_.blobs.size(); ++i)
    bytes += content_.blobs[i].bytes.size() + content_.compressed_sizes[i];
  return bytes;
}

ContextContent MergedBin::finish(const ProgramLoader& loader) {
  content_.needs = needs_of(loader, content_.programs);
  if (std::ranges::all_of(encodings_, [](BlobEncoding e) { return e == BlobEncoding::kNone; })) {
    content_.compressed.clear();
    content_.compressed_sizes.clear();
  }
  return content_;
}

}  // namespace ctxgen
