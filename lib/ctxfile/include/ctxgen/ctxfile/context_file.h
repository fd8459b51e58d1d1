#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/need.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen {

/// The context binary (docs/format.md is normative).
inline constexpr std::uint16_t kFormatMajor = 1;
inline constexpr std::uint16_t kFormatMinor = 3;  // written only where it is needed

/// Small facts that are in the header and can be read without the manifest.
struct ContextInfo {
  std::uint16_t format_major = 0;
  std::uint16_t format_minor = 0;
  std::string source;            // provider that wrote it
  std::string fingerprint;       // ProgramLoader::fingerprint at compile time
  std::string producer;          // "ctxgen 0.1.0"
  std::vector<Need> needs = {};  // ascending, each once; before format 1.2: empty
};

/// Reads them from the first bytes of a file (its whole header; more is not looked at), for checks
/// of fitness that cost the same for a file of any size.
/// Errors  as ContextReader::open. An info with another format_major is never returned.
[[nodiscard]] Result<ContextInfo> read_context_info(std::span<const std::byte> file,
                                                    std::string_view name);

/// How a blob's bytes are stored in the file.
enum class BlobEncoding : std::uint32_t { kNone = 0, kZstd = 1 };

struct BlobEntry {
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t size = 0;    // bytes of the content
  Hash128 hash;              // of the content
  std::uint64_t stored = 0;  // bytes in the file
  BlobEncoding encoding = BlobEncoding::kNone;
};

enum class VerifyBlobs { kAuto, kAlways, kNever };  // auto: when the file is below 16 MiB
[[nodiscard]] constexpr bool verifies(VerifyBlobs when, std::uint64_t file_bytes) {
  constexpr std::uint64_t kVerifyBelowBytes = std::uint64_t{16} << 20;
  return when == VerifyBlobs::kAlways ||
         (when == VerifyBlobs::kAuto && file_bytes < kVerifyBelowBytes);
}

class BlobCache;  // decompressed blobs

/// A context binary opened for reading: header and manifest verified, blobs used in place.
class ContextReader {
 public:
  /// `file` is a mapped file or a payload embedded in a model. A payload that is not 64-byte
  /// aligned is copied once.
  /// Errors  kVersionMismatch (another major), kCorruptContext (all else), each with found and
  ///         expected values; `name` is used in messages.
  [[nodiscard]] static Result<ContextReader> open(Blob file, std::string_view name,
                                                  VerifyBlobs verify = VerifyBlobs::kAuto);

  [[nodiscard]] const ContextInfo& info() const { return info_; }
  [[nodiscard]] std::span<const Program> programs() const { return programs_; }
  /// The program's content hash, as written in EPContext `notes`.
  [[nodiscard]] Hash128 program_hash(std::size_t index) const { return program_hashes_[index]; }
  /// Index of the program with this partition_name, or kCorruptContext listing what there is.
  [[nodiscard]] Result<std::size_t> find(std::string_view partition_name) const;
  /// Indices of all programs of the partition whose program find() gave: one per instruction set,
  /// that one first.
  [[nodiscard]] std::vector<std::size_t> variants(std::size_t index) const;
  [[nodiscard]] std::span<const BlobEntry> blobs() const { return blobs_; }
  /// A blob's content, in place or decompressed; the latter is kept while the reader lives.
  /// Errors  kCorruptContext, RESOURCE_LIMIT (decompressed weights of the process pass the
  ///         memory that it may use).
  [[nodiscard]] Result<Blob> blob(BlobIndex index) const;
  /// A blob as it is in the file. Requires  index is in range.
  [[nodiscard]] Blob stored(BlobIndex index) const;
  /// Decompresses these blobs, where they are compressed, on up to `threads` threads; blob() then has
  /// them at hand.
  [[nodiscard]] Status decompress_blobs(std::span<const BlobIndex> indices, int threads) const;
  /// Every blob against its hash and all padding against zero. Not in question: header and manifest,
  /// which open() always verifies.
  [[nodiscard]] Status verify_blobs() const;
  [[nodiscard]] std::uint64_t file_size() const { return file_.bytes.size(); }
  /// Where the file is in memory: the same for readers of one mapping; of two files that are there at the same time, each has
  /// another.
  [[nodiscard]] const std::byte* address() const { return file_.bytes.data(); }

 private:
  [[nodiscard]] Result<Blob> content(BlobIndex index) const;  // index is in range

  Blob file_;
  std::string name_;
  ContextInfo info_;
  std::vector<Program> programs_;
  std::vector<Hash128> program_hashes_;
  std::vector<BlobEntry> blobs_;
  std::shared_ptr<BlobCache> cache_;
  // Where the sections are in the file: verify_blobs() finds the padding by them.
  std::uint64_t header_end_ = 0;
  std::uint64_t manifest_begin_ = 0;
  std::uint64_t manifest_end_ = 0;
  std::uint64_t data_begin_ = 0;
};

/// The content hash of a program: everything but names (its own, of values and weights) and with
/// each blob replaced by its hash, which `blob_hash` gives.
[[nodiscard]] Hash128 hash_program(const Program& program,
                                   const std::function<Hash128(BlobRef)>& blob_hash);

/// What goes into a context binary. Blob indices of programs refer to `blobs`.
struct ContextContent {
  std::string source;
  std::string fingerprint;
  std::vector<Program> programs;
  std::vector<Blob> blobs;
  std::vector<Hash128> blob_hashes;
  std::string producer = {};     // empty: this version of ctxgen
  std::vector<Need> needs = {};  // needs_of() of the programs
  /// Of compress_blobs(): empty, or one per blob, without an owner where it is stored as it is.
  std::vector<Blob> compressed = {};
  /// Empty, or one per blob: the bytes of its content where that is not in `blobs` but only, compressed, in
  /// `compressed`.
  std::vector<std::uint64_t> compressed_sizes = {};
};

/// Has each blob that shrinks by it stored as zstd. `threads` never change the bytes.
/// Errors  RESOURCE_LIMIT. The compressed bytes are held in memory.
[[nodiscard]] Status compress_blobs(ContextContent& content, int level, int threads);

/// Receives the file's bytes in order (an AtomicFile, a vector).
using ByteSink = std::function<Status(std::span<const std::byte>)>;

/// Writes the file. Deterministic: blobs are laid out in order of `blobs`, programs in order.
/// Errors  those of `sink`; INTERNAL if the content breaks validate(); RESOURCE_LIMIT if header or
///         manifest pass the format's limits.
[[nodiscard]] Status write_context(const ContextContent& content, const ByteSink& sink);

/// The size that write_context would produce, in bytes.
[[nodiscard]] Result<std::uint64_t> context_size(const ContextContent& content);

}  // namespace ctxgen
