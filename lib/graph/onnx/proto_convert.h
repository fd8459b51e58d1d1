#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <onnx/onnx_pb.h>

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Tensors below this size go into skeletons with their data: shape inference reads the values of
/// shapes, axes, pads and the like, never those of weights.
inline constexpr std::uint64_t kInlineBytes = 1024;

/// The value of a symbolic dim under a profile; nothing: it stays symbolic.
using SymbolValues = std::function<std::optional<std::int64_t>(SymbolId)>;

[[nodiscard]] onnx::TypeProto to_proto(const ValueType& type, const Model& model,
                                       const SymbolValues& values);
/// The symbol that a dim_param stands for.
using SymbolOf = std::function<SymbolId(const std::string&)>;

/// Unknown where the message says nothing.
[[nodiscard]] ValueType from_proto(const onnx::TypeProto& type, const SymbolOf& symbol_of);

[[nodiscard]] bool is_small(const Tensor& tensor);
/// Dims and type; the data too if it is small.
[[nodiscard]] onnx::TensorProto to_proto(const Tensor& tensor);

[[nodiscard]] ValueType exact_type(const Tensor& tensor);

}  // namespace ctxgen
