#include "cache/output_cache.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ctxgen/base/byte_io.h"
#include "ctxgen/cache/build_identity.h"
#include "ctxgen/compiler/option_table.h"

#include "cache/report_codec.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

/// A run of bytes of an output file.
enum class PieceKind : std::uint8_t { kLiteral, kInput, kBlob };

/// Shorter runs are stored as they are; longer ones that are not stored yet become blobs.
constexpr std::uint64_t kShortBytes = 4096;
constexpr std::uint64_t kLongBytes = 65536;

void write_hash(ByteWriter& writer, Hash128 hash) {
  writer.u64(hash.high);
  writer.u64(hash.low);
}
Result<Hash128> read_hash(ByteReader& reader) {
  const std::uint64_t high = CTXGEN_TRY(reader.u64());
  return Hash128{.high = high, .low = CTXGEN_TRY(reader.u64())};
}

/// Reads the pieces of one file, with what keeps each alive.
class PieceReader {
 public:
  PieceReader(CacheFolder& cache, const Blob& entry, std::span<const Blob> inputs)
      : cache_(cache), entry_(entry), inputs_(inputs) {}

  Result<Blob> read(ByteReader& reader) {
    const auto kind = static_cast<PieceKind>(CTXGEN_TRY(reader.u8()));
    if (kind == PieceKind::kLiteral) {
      const std::uint64_t size = CTXGEN_TRY(reader.u64());
      return Blob{entry_.owner, CTXGEN_TRY(reader.take(size))};
    }
    Blob whole;
    if (kind == PieceKind::kInput) {
      const std::uint64_t index = CTXGEN_TRY(reader.u64());
      if (index >= inputs_.size()) return fail(ErrorCode::kCorruptContext, "input {}", index);
      whole = inputs_[index];
    } else {
      const Hash128 hash = CTXGEN_TRY(read_hash(reader));
      whole = CTXGEN_TRY(blob(hash));
    }
    const std::uint64_t offset = CTXGEN_TRY(reader.u64());
    const std::uint64_t size = CTXGEN_TRY(reader.u64());
    if (!range_fits(offset, size, whole.bytes.size()))
      return fail(ErrorCode::kCorruptContext, "{} bytes at {} of {}", size, offset,
                  whole.bytes.size());
    return whole.slice(offset, size);
  }

 private:
  Result<Blob> blob(Hash128 hash) {
    const auto [at, added] = blobs_.try_emplace(hash);
    if (added) {
      auto found = cache_.find(CacheKind::kBlob, hash);
      if (!found) return fail(ErrorCode::kCorruptContext, "blob {} is missing", hash.hex());
      at->second = std::move(*found);
    }
    return at->second;
  }
  CacheFolder& cache_;
  const Blob& entry_;
  std::span<const Blob> inputs_;
  std::map<Hash128, Blob> blobs_;
};

/// Where outputs go. An entry names files relative to the folder of the first one.
struct OutputPlace {
  fs::path folder;            // absolute
  fs::path spelled;           // as the caller spells it
  fs::path bin, spelled_bin;  // that was asked for, relative to the folder; empty: none

  OutputPlace(const std::vector<fs::path>& outputs, const CompileOptions& options)
      : folder(fs::absolute(outputs.front()).lexically_normal().parent_path()),
        spelled(outputs.front().parent_path()),
        bin(options.bin.empty() ? fs::path() : relative(options.bin)),
        spelled_bin(options.bin) {}
  [[nodiscard]] fs::path path_of(const fs::path& name) const {
    return name == bin ? spelled_bin : spelled / name;
  }
  [[nodiscard]] fs::path relative(const fs::path& path) const {
    return fs::absolute(path).lexically_normal().lexically_relative(folder);
  }
  /// Nothing in a cache makes a compile write elsewhere.
  [[nodiscard]] bool allows(const fs::path& name) const {
    if (name.empty()) return false;
    if (name == bin) return true;
    return !name.is_absolute() && std::ranges::find(name, fs::path("..")) == name.end();
  }
};

Result<KeptOutputs> read_outputs(CacheFolder& cache, const Blob& entry,
                                 std::span<const Blob> inputs, const OutputPlace& place) {
  ByteReader reader(entry.bytes, "outputs");
  KeptOutputs kept;
  const std::uint64_t report_bytes = CTXGEN_TRY(reader.u64());
  const auto report = CTXGEN_TRY(reader.take(report_bytes));
  kept.report = CTXGEN_TRY(decode_report(report));
  PieceReader pieces(cache, entry, inputs);
  const std::uint32_t files = CTXGEN_TRY(reader.count(1));
  for (std::uint32_t f = 0; f < files; ++f) {
    const std::uint32_t name_bytes = CTXGEN_TRY(reader.count(1));
    const fs::path name = as_text(CTXGEN_TRY(reader.take(name_bytes)));
    if (!place.allows(name))
      return fail(ErrorCode::kCorruptContext, "an output \"{}\"", name.string());
    const std::uint8_t number = CTXGEN_TRY(reader.u8());
    if (number > static_cast<std::uint8_t>(FileReport::Kind::kModel))
      return fail(ErrorCode::kCorruptContext, "an output of kind {}", number);
    const auto kind = static_cast<FileReport::Kind>(number);
    std::vector<Blob> runs;
    const std::uint32_t count = CTXGEN_TRY(reader.count(1));
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      runs.push_back(CTXGEN_TRY(pieces.read(reader)));
      bytes += runs.back().bytes.size();
    }
    kept.files.push_back({place.path_of(name), kind, bytes,
                          [runs = std::move(runs)](const ByteSink& sink) -> Status {
                            for (const Blob& run : runs) CTXGEN_CHECK(sink(run.bytes));
                            return {};
                          }});
  }
  return kept;
}

}  // namespace

Result<std::unique_ptr<CacheFolder>> open_cache(const CompileOptions& options) {
  const fs::path folder = options.cache_dir ? *options.cache_dir : cache_folder_from_environment();
  if (folder.empty() && options.cache_max_bytes != kDefaultCacheBytes)
    return fail(ErrorCode::kInvalidArgument,
                "a cache size of {} bytes without a cache: give {} or set CTXGEN_CACHE_DIR",
                options.cache_max_bytes, option_name(options, &CompileOptions::cache_dir));
  if (folder.empty()) return nullptr;
  return CacheFolder::open(folder, options.cache_max_bytes);
}

Result<std::unique_ptr<RemoteCache>> open_remote(const CompileOptions& options,
                                                 CacheFolder* cache) {
  const auto name = [&](OptionSlot slot) { return option_name(options, slot); };
  const bool named = !options.cache_url.empty();
  const bool has_details =
      !options.cache_headers.empty() || options.cache_timeout_seconds != kDefaultCacheSeconds;
  if (!named && has_details && cache_url_from_environment().empty())
    return fail(ErrorCode::kInvalidArgument, "{} and {} need a remote cache: give {}",
                name(&CompileOptions::cache_headers), name(&CompileOptions::cache_timeout_seconds),
                name(&CompileOptions::cache_url));
  if (named && cache == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "a remote cache ({}) needs a local one, too: give {} or set CTXGEN_CACHE_DIR",
                name(&CompileOptions::cache_url), name(&CompileOptions::cache_dir));
  const std::string url = named ? options.cache_url : cache_url_from_environment();
  if (url.empty() || cache == nullptr) return nullptr;
  if (options.cache_timeout_seconds < 1)
    return fail(ErrorCode::kInvalidArgument, "{} must be 1 or more, got {}",
                name(&CompileOptions::cache_timeout_seconds), options.cache_timeout_seconds);
  return RemoteCache::open({.url = url,
                            .headers = options.cache_headers,
                            .seconds = static_cast<double>(options.cache_timeout_seconds),
                            .cancelled = options.cancelled},
                           *cache);
}

bool is_kept_whole(const std::vector<ModelInput>& inputs, const CompileOptions& options) {
  return !options.initializer_location && options.append.empty() && options.like.empty() &&
         std::ranges::all_of(inputs,
                             [](const ModelInput& input) { return input.external_data.empty(); });
}

Sha256Digest remote_key(const Sha256Digest& strong_key, Hash128 output_key) {
  Sha256 sha;
  sha.add(std::string_view("ctxgen outputs"));
  sha.add(std::span<const std::byte>(strong_key.bytes));
  sha.add(output_key.high);
  sha.add(output_key.low);
  return sha.finish();
}

Hash128 output_key(Hash128 compile_key, const std::vector<fs::path>& outputs,
                   const CompileOptions& options) {
  const OutputPlace place(outputs, options);
  Hasher hasher;
  hasher.add(build_identity());
  hasher.add(compile_key.high);
  hasher.add(compile_key.low);
  for (const fs::path& output : outputs)
    hasher.add(std::string_view(place.relative(output).native()));
  hasher.add(std::string_view(place.bin.native()));
  hasher.add(static_cast<std::uint64_t>(options.names));  // warnings name options
  return hasher.finish();
}

std::optional<KeptOutputs> find_outputs(CacheFolder& cache, Hash128 key,
                                        std::span<const Blob> inputs,
                                        const std::vector<fs::path>& outputs,
                                        const CompileOptions& options) {
  const auto entry = cache.find(CacheKind::kOutput, key);
  if (!entry) return std::nullopt;
  auto kept = read_outputs(cache, *entry, inputs, OutputPlace(outputs, options));
  if (!kept) return std::nullopt;
  return std::move(*kept);
}

struct OutputRecorder::Impl {
  /// Bytes in memory that can be found again.
  struct Region {
    std::span<const std::byte> bytes;
    std::optional<std::uint64_t> input;  // nothing: a blob
    Hash128 blob;
  };
  struct File {
    fs::path path;
    FileReport::Kind kind = FileReport::Kind::kModel;
    ByteWriter pieces;
    std::uint32_t count = 0;
    std::set<Hash128> blobs;  // that pieces are of
  };

  explicit Impl(CacheFolder& folder) : cache(folder) {}

  void add_region(const Region& region) {
    if (region.bytes.size() >= kShortBytes) regions.try_emplace(region.bytes.data(), region);
  }
  /// The region that holds all of `bytes`.
  const Region* region_of(std::span<const std::byte> bytes) const {
    auto at = regions.upper_bound(bytes.data());
    if (at == regions.begin()) return nullptr;
    const Region& region = (--at)->second;
    const auto offset = static_cast<std::uint64_t>(bytes.data() - region.bytes.data());
    return range_fits(offset, bytes.size(), region.bytes.size()) ? &region : nullptr;
  }
  void add_literal(File& file, std::span<const std::byte> bytes) {
    file.pieces.u8(static_cast<std::uint8_t>(PieceKind::kLiteral));
    file.pieces.u64(bytes.size());
    file.pieces.bytes(bytes);
  }
  void add_blob(File& file, Hash128 hash, std::uint64_t offset, std::uint64_t size) {
    file.pieces.u8(static_cast<std::uint8_t>(PieceKind::kBlob));
    write_hash(file.pieces, hash);
    file.blobs.insert(hash);
    file.pieces.u64(offset);
    file.pieces.u64(size);
  }
  void note(File& file, std::span<const std::byte> bytes);

  CacheFolder& cache;
  std::map<const std::byte*, Region, std::less<>> regions;
  std::vector<File> files;
  bool whole = true;  // everything could be noted
};

void OutputRecorder::Impl::note(File& file, std::span<const std::byte> bytes) {
  if (!whole) return;
  file.count += 1;
  const Region* region = bytes.size() < kShortBytes ? nullptr : region_of(bytes);
  if (region != nullptr) {
    const auto offset = static_cast<std::uint64_t>(bytes.data() - region->bytes.data());
    if (!region->input) return add_blob(file, region->blob, offset, bytes.size());
    file.pieces.u8(static_cast<std::uint8_t>(PieceKind::kInput));
    file.pieces.u64(*region->input);
    file.pieces.u64(offset);
    file.pieces.u64(bytes.size());
    return;
  }
  if (bytes.size() < kLongBytes) return add_literal(file, bytes);
  const Hash128 hash = hash_bytes(bytes);
  whole = cache.holds(CacheKind::kBlob, hash) || cache.add(CacheKind::kBlob, hash, bytes);
  add_blob(file, hash, 0, bytes.size());
}

OutputRecorder::OutputRecorder(CacheFolder& cache, std::span<const Blob> inputs,
                               std::span<const std::optional<ContextContent>> contents)
    : impl_(std::make_unique<Impl>(cache)) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    impl_->add_region({.bytes = inputs[i].bytes, .input = i, .blob = {}});
  for (const auto& content : contents) {
    if (!content) continue;
    for (std::size_t i = 0; i < content->blobs.size(); ++i) {
      const auto bytes = content->blobs[i].bytes;
      if (bytes.size() < kShortBytes || impl_->region_of(bytes) != nullptr) continue;
      if (cache.holds(CacheKind::kBlob, content->blob_hashes[i]))
        impl_->add_region({.bytes = bytes, .input = {}, .blob = content->blob_hashes[i]});
    }
  }
}

OutputRecorder::~OutputRecorder() = default;

std::vector<OutputFile> OutputRecorder::record(std::vector<OutputFile> files) {
  impl_->files.clear();
  impl_->files.resize(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    Impl::File& noted = impl_->files[i];
    noted.path = files[i].path;
    noted.kind = files[i].kind;
    files[i].write = [this, &noted, write = std::move(files[i].write)](const ByteSink& sink) {
      noted.pieces = {};  // it may be called again: to compare, then to write
      noted.count = 0;
      noted.blobs.clear();
      return write([&](std::span<const std::byte> bytes) -> Status {
        impl_->note(noted, bytes);
        return sink(bytes);
      });
    };
  }
  return files;
}

std::optional<OutputRecorder::Kept> OutputRecorder::kept(const std::vector<fs::path>& outputs,
                                                         const CompileOptions& options,
                                                         const CompileReport& report) const {
  if (!impl_->whole) return std::nullopt;
  const OutputPlace place(outputs, options);
  ByteWriter entry;
  const std::vector<std::byte> text = encode_report(report);
  entry.u64(text.size());
  entry.bytes(text);
  entry.u32(static_cast<std::uint32_t>(impl_->files.size()));
  std::set<Hash128> blobs;
  for (Impl::File& file : impl_->files) {
    blobs.insert(file.blobs.begin(), file.blobs.end());
    const std::string name = place.relative(file.path).string();
    entry.u32(static_cast<std::uint32_t>(name.size()));
    entry.text(name);
    entry.u8(static_cast<std::uint8_t>(file.kind));
    entry.u32(file.count);
    entry.bytes(file.pieces.buffer());
  }
  return Kept{entry.release(), {blobs.begin(), blobs.end()}};
}

}  // namespace ctxgen
