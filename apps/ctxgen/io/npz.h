#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/tensor.h"

namespace ctxgen::cli {

/// An array of a .npz file: a name and, in the archive, a .npy file of that name.
struct NamedArray {
  std::string name;
  Tensor tensor;
};

/// NumPy's .npz format: a ZIP archive of .npy files, stored or deflated (numpy.savez, savez_compressed).
/// Arrays come in the order of the archive.
///
/// Checks  sizes before memory is taken for them (an archive may claim any), checksums, no name twice.
/// Errors  INVALID_ARGUMENT naming file, array and rule; RESOURCE_LIMIT (more than 65,536 arrays, an
///         array above the limit of tensors, out of memory).
[[nodiscard]] Result<std::vector<NamedArray>> read_npz(const Blob& file, std::string_view name);

/// Only the array `array`, or the only one of the file, whatever it is called.
/// Errors  as read_npz; INVALID_ARGUMENT naming the arrays where none is called so.
[[nodiscard]] Result<Tensor> read_npz_array(const Blob& file, std::string_view name,
                                            std::string_view array);

/// The bytes of an archive with these arrays, stored, without times. Equal arrays give equal bytes.
///
/// Requires  npy_can_hold() of every type, names that are there once.
/// Errors    RESOURCE_LIMIT.
[[nodiscard]] Result<std::vector<std::byte>> write_npz(std::span<const NamedArray> arrays);

}  // namespace ctxgen::cli
