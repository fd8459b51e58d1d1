#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ctxgen/compiler/compile.h"

namespace ctxgen::cli {

/// What --if-needed finds.
struct Currency {
  std::string why_not;            // empty: everything is current
  std::vector<FileReport> files;  // then: the outputs, bins first
};

/// Whether every output exists, comes from the compile that `key` identifies, and fits this
/// machine: its metadata, its context binaries (without their weights) and its external initializers
/// are looked at. An output that cannot be read is one to be made again, not an error; one with
/// EPContext nodes of another vendor does not load here and is never current.
[[nodiscard]] Currency look_at_outputs(const std::vector<std::filesystem::path>& outputs,
                                       const CompileOptions& options, const CompileKey& key);

}  // namespace ctxgen::cli
