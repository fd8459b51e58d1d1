#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/partition/provider.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen::cli {

/// Reads a tensor for an input: .npy, .pb (a serialised TensorProto), anything else as raw
/// little-endian elements of the input's type and shape.
/// Errors  IO_ERROR, INVALID_ARGUMENT (.npz; a size that does not fit), those of the readers.
[[nodiscard]] Result<Tensor> read_tensor_file(const std::filesystem::path& path,
                                              const IoInfo& info, const ShapeProfile& shapes);

/// --input NAME=FILE options; the name is the longest input name that the text starts with, so that
/// names with "=" work.
[[nodiscard]] Result<std::vector<NamedTensor>> read_inputs(const std::vector<std::string>& options,
                                                           std::span<const IoInfo> infos,
                                                           const ShapeProfile& shapes);

/// Writes NAME.npy (NAME.pb for types that NumPy lacks) and returns the file names, in order. Names
/// of outputs lose what does not belong into a file name.
[[nodiscard]] Result<std::vector<std::string>> write_outputs(const std::filesystem::path& folder,
                                                             std::span<const IoInfo> infos,
                                                             std::span<const Tensor> outputs);

}  // namespace ctxgen::cli
