#pragma once

#include <string_view>

#include <onnx/defs/shape_inference.h>

namespace ctxgen {

/// What onnx's functions leave open although sizes say it. Exporters make positions, masks and shapes so.
struct FurtherDims {
  std::string_view op_type;  // of the default domain
  /// To be called after the shape function: a Range counts up to a size, a Reshape's -1 is what is left of the dims, a Tile
  /// repeats a dim of 1.
  void (*find)(onnx::InferenceContext& context) = nullptr;
  /// Instead of a function that follows lists of sizes, where onnx has none: Equal and Where, which put other sizes in the
  /// place of -1, and a Reshape to a list.
  void (*follow)(onnx::DataPropagationContext& context) = nullptr;
};

/// nullptr: there is no more to say of such nodes.
[[nodiscard]] const FurtherDims* further_dims(std::string_view op_type);

}  // namespace ctxgen
