#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ctxgen/base/tensor.h"

namespace ctxgen {

/// The typed fields of a TensorProto (float_data, int32_data, ...) and the dense form of sparse
/// tensors. `message` is the body of the TensorProto.

/// The bytes of the field in place if they have the wanted form: one packed run of floats or doubles
/// of `size_bytes`. Nothing where they must be decoded.
[[nodiscard]] Result<std::optional<std::span<const std::byte>>> packed_in_place(
    std::span<const std::byte> message, DataType type, std::uint64_t size_bytes);

/// Decodes the field that belongs to `type` (not strings) into new memory.
/// Errors  INVALID_GRAPH if the number of elements is not that of the dims.
[[nodiscard]] Result<Tensor> decode_numbers(std::span<const std::byte> message, DataType type,
                                            const Dims& dims);
[[nodiscard]] Result<Tensor> decode_strings(std::span<const std::byte> message, const Dims& dims);

/// `values` [n] put at `indices` ([n] positions, or [n, rank] coordinates; int64) of zeros.
/// Requires a size of the dense form that was checked.
[[nodiscard]] Result<Tensor> densify(const Tensor& values, const Tensor& indices, const Dims& dims);

}  // namespace ctxgen
