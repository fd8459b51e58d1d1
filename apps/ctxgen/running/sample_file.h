#pragma once

#include <filesystem>

#include "ctxgen/base/status.h"
#include "ctxgen/tuning/samples.h"

namespace ctxgen::cli {

/// A .npz file of samples: for each input an array of its name, the samples one after the other.
/// Errors  IO_ERROR, INVALID_ARGUMENT.
[[nodiscard]] Result<SampleArrays> read_sample_file(const std::filesystem::path& path);

}  // namespace ctxgen::cli
