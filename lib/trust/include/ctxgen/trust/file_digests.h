#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/trust/signature.h"

namespace ctxgen {

/// Which files below a folder belong to a set.
struct DigestOptions {
  /// Files and folders to leave out. Git's own at the top of the folder are always left out.
  std::vector<std::filesystem::path> ignored;
  std::function<bool()> cancelled;
};

/// `given`, or where the signature of a folder is if it is "".
/// Errors  INVALID_ARGUMENT: one file, which has no such place.
[[nodiscard]] Result<std::filesystem::path> signature_path(const std::filesystem::path& path,
                                                           const std::filesystem::path& given);

/// What is in `path`: all files below a folder, by name, or one file, which is called by its file name.
///
/// Errors  INVALID_ARGUMENT (no file, a link or a device: what it leads to may change), IO_ERROR, CANCELLED.
[[nodiscard]] Result<SignedSet> digest_files(const std::filesystem::path& path,
                                             const DigestOptions& options);

struct CheckFilesOptions {
  DigestOptions digests;
  bool ignore_unsigned = false;  // files that the set does not list
};

/// Whether the files of `path` are those of `set`, all of them and unless ignored no others.
/// Errors  NOT_SATISFIED naming what differs; those of digest_files().
[[nodiscard]] Status check_files(const std::filesystem::path& path, const SignedSet& set,
                                 const CheckFilesOptions& options);

}  // namespace ctxgen
