#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/remote/remote_cache.h"

#include "output/write_outputs.h"

namespace ctxgen {

/// The cache that the options or the environment name; null: none.
/// Errors  INVALID_ARGUMENT (a size without a cache), IO_ERROR (not a folder).
[[nodiscard]] Result<std::unique_ptr<CacheFolder>> open_cache(const CompileOptions& options);

/// The cache on a server that the options or the environment name; null: none.
/// Errors  INVALID_ARGUMENT: one without a cache in a folder, a URL or headers that cannot be; IO_ERROR: its header file.
[[nodiscard]] Result<std::unique_ptr<RemoteCache>> open_remote(const CompileOptions& options,
                                                               CacheFolder* cache);

/// Whether the key of such a compile says all about its outputs, so that a cache may have them.
[[nodiscard]] bool is_kept_whole(const std::vector<ModelInput>& inputs,
                                 const CompileOptions& options);

/// Where a whole compile stands in the cache: its key, and the files that it writes, as they are to
/// each other.
[[nodiscard]] Hash128 output_key(Hash128 compile_key,
                                 const std::vector<std::filesystem::path>& outputs,
                                 const CompileOptions& options);

/// The same on a server.
[[nodiscard]] Sha256Digest remote_key(const Sha256Digest& strong_key, Hash128 output_key);

/// The outputs of an earlier compile. `report` lacks what is new in every compile.
struct KeptOutputs {
  std::vector<OutputFile> files;  // in the order in which they were written
  CompileReport report;
};

/// `inputs`: the bytes of every file that was read, in the order of the compile that kept them.
/// Nothing if a part is missing or damaged, or a file would be outside the outputs' folder.
[[nodiscard]] std::optional<KeptOutputs> find_outputs(
    CacheFolder& cache, Hash128 key, std::span<const Blob> inputs,
    const std::vector<std::filesystem::path>& outputs, const CompileOptions& options);

/// Notes what is written, so that the next compile can write it without compiling. Runs of bytes
/// that inputs or blobs of the cache hold are noted as such, and not stored again.
class OutputRecorder {
 public:
  /// `cache` must outlive it. Blobs of `contents` may be in the cache by their hashes.
  OutputRecorder(CacheFolder& cache, std::span<const Blob> inputs,
                 std::span<const std::optional<ContextContent>> contents);
  ~OutputRecorder();
  /// The same files, whose writing is noted. They must not outlive the recorder.
  [[nodiscard]] std::vector<OutputFile> record(std::vector<OutputFile> files);
  /// What to keep of them, once all are written; nothing if a part could not be noted.
  struct Kept {
    std::vector<std::byte> entry;
    std::vector<Hash128> blobs;  // of the cache, which the entry refers to
  };
  [[nodiscard]] std::optional<Kept> kept(const std::vector<std::filesystem::path>& outputs,
                                         const CompileOptions& options,
                                         const CompileReport& report) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ctxgen
