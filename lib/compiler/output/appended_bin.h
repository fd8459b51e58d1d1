#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "ctxgen/base/file_lock.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen {

/// The bin of CompileOptions::append, read and verified whole. While it lives, other compiles that
/// want to add to the same file wait for it.
class AppendedBin {
 public:
  /// Errors  IO_ERROR, CANCELLED, those of ContextReader::open.
  [[nodiscard]] static Result<AppendedBin> open(const std::filesystem::path& path,
                                                const std::function<bool()>& cancelled);
  [[nodiscard]] const ContextReader& reader() const { return *reader_; }

 private:
  FileLock lock_;
  std::shared_ptr<const ContextReader> reader_;
};

/// Contradictions of CompileOptions::append that need no look at a file.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Status check_append_options(const CompileOptions& options);

/// Whether programs may be added to what `reader` holds: same provider's target, same versions.
/// Errors  kVersionMismatch, with found and expected values.
[[nodiscard]] Status check_same_target(const ContextReader& reader, std::string_view fingerprint,
                                       const CompileOptions& options);

}  // namespace ctxgen
