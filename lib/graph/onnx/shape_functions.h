#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include <onnx/defs/shape_inference.h>

// What shape functions of our own are made of, and the tables that contrib_schemas.cpp takes from elsewhere.

namespace ctxgen {

using onnx::InferenceContext;
using onnx::TensorShapeProto;
using Dimension = onnx::TensorShapeProto_Dimension;

struct ShapeRow {
  const char* op_type;
  void (*infer)(InferenceContext& context);
  int since = 1;  // a node of an earlier version has the onnx package's function, if any
};

/// Operators that onnx packages before 1.20 lack (Debian 13 has 1.17); where a package has them, its functions are taken.
[[nodiscard]] std::span<const ShapeRow> older_package_rows();
/// Operators that are newer than the onnx package, and those of com.microsoft that came with them.
[[nodiscard]] std::span<const ShapeRow> recent_onnx_rows();
[[nodiscard]] std::span<const ShapeRow> recent_microsoft_rows();

inline Dimension fixed(std::int64_t size) {
  Dimension dim;
  if (size >= 0) dim.set_dim_value(size);
  return dim;
}

/// Nothing where a or b is not known, or b does not divide a.
inline Dimension quotient(const Dimension& a, std::int64_t b) {
  if (!a.has_dim_value() || b <= 0 || a.dim_value() % b != 0) return {};
  return fixed(a.dim_value() / b);
}

inline TensorShapeProto shape_of(std::initializer_list<Dimension> dims) {
  TensorShapeProto shape;
  for (const Dimension& dim : dims) *shape.add_dim() = dim;
  return shape;
}

/// nullptr: not known, or not of that rank.
inline const TensorShapeProto* shape_of(InferenceContext& context, std::size_t input, int rank) {
  if (!onnx::hasInputShape(context, input)) return nullptr;
  const TensorShapeProto& shape = onnx::getInputShape(context, input);
  return shape.dim_size() == rank ? &shape : nullptr;
}

inline std::int64_t int_of(InferenceContext& context, const char* name, std::int64_t otherwise) {
  return onnx::getAttribute(context, name, otherwise);
}

inline bool has_type(InferenceContext& context, std::size_t input) {
  return input < context.getNumInputs() && context.getInputType(input) != nullptr;
}

inline void set_type(InferenceContext& context, std::size_t output, std::size_t input) {
  if (output < context.getNumOutputs() && has_type(context, input))
    onnx::propagateElemTypeFromInputToOutput(context, input, output);
}

inline void set_shape(InferenceContext& context, std::size_t output,
                      const TensorShapeProto& shape) {
  if (output < context.getNumOutputs()) onnx::updateOutputShape(context, output, shape);
}

inline void set_like(InferenceContext& context, std::size_t output, std::size_t input) {
  if (output >= context.getNumOutputs()) return;
  set_type(context, output, input);
  if (onnx::hasInputShape(context, input))
    onnx::propagateShapeFromInputToOutput(context, input, output);
}

inline void same_as_input(InferenceContext& context) { set_like(context, 0, 0); }

}  // namespace ctxgen
