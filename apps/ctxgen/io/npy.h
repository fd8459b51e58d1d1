#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/tensor.h"

namespace ctxgen::cli {

/// NumPy's .npy format, versions 1.0 to 3.0: a dictionary in ASCII, then the elements.
///
/// Reads   bool, (u)int8..64, float16/32/64, complex64/128, either byte order, C or Fortran order.
/// Errors  INVALID_ARGUMENT naming the rule that `name` breaks, RESOURCE_LIMIT.
[[nodiscard]] Result<Tensor> read_npy(const Blob& file, std::string_view name);

/// Whether NumPy has a type for it (no bfloat16, no 8- and 4-bit floats, no 4-bit integers, and
/// strings only as Python objects).
[[nodiscard]] bool npy_can_hold(DataType type);

/// Requires npy_can_hold(tensor.type()).
[[nodiscard]] std::vector<std::byte> write_npy(const Tensor& tensor);

}  // namespace ctxgen::cli
