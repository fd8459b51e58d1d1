#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/partition/provider.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen::cli {

/// Reads a value for an input: .npy, .npz (the array called as the input, or the only one), .pb (a serialised TensorProto, or SequenceProto, OptionalProto
/// or MapProto where the input is such), anything else as raw little-endian elements of the input's
/// type and shape.
/// Errors  IO_ERROR, INVALID_ARGUMENT (a size that does not fit), those of the readers.
[[nodiscard]] Result<RuntimeValue> read_value_file(const std::filesystem::path& path,
                                                   const IoInfo& info, const ShapeProfile& shapes);

/// --input NAME=FILE options; the name is the longest input name that the text starts with, so that
/// names with "=" work. FILE.npz alone gives every array in it to the input of its name.
[[nodiscard]] Result<std::vector<NamedValue>> read_inputs(const std::vector<std::string>& options,
                                                          std::span<const IoInfo> infos,
                                                          const ShapeProfile& shapes);

/// The inputs that these options read from raw bytes.
[[nodiscard]] std::vector<std::string> raw_inputs(const std::vector<std::string>& options,
                                                  std::span<const IoInfo> infos);

/// What files of outputs of these names are called, without their endings: names lose what does not
/// belong into a file name, and stay different.
[[nodiscard]] std::vector<std::string> output_stems(std::span<const std::string> names);
/// The ending of the file of an output: ".npy", or ".pb" for types that NumPy lacks; both where the type
/// is not known.
[[nodiscard]] std::vector<const char*> output_endings(DataType type);

/// Writes one tensor in the form of output_endings().front(); `name` goes into a .pb. Errors  IO_ERROR.
[[nodiscard]] Status write_tensor_file(const std::filesystem::path& path, const std::string& name,
                                       const Tensor& tensor);

/// Writes NAME.npy (NAME.pb for types that NumPy lacks) and returns the file names, in order.
/// Errors  UNSUPPORTED for an output that is not a tensor, before anything is written; IO_ERROR.
[[nodiscard]] Result<std::vector<std::string>> write_outputs(const std::filesystem::path& folder,
                                                             std::span<const IoInfo> infos,
                                                             std::span<const RuntimeValue> outputs);

/// Writes all outputs into one .npz file, each under its name.
/// Errors  UNSUPPORTED for an output that NumPy has no type for or that is not a tensor, before anything
///         is written; IO_ERROR.
[[nodiscard]] Status write_npz_file(const std::filesystem::path& path,
                                    std::span<const IoInfo> infos,
                                    std::span<const RuntimeValue> outputs);

}  // namespace ctxgen::cli
