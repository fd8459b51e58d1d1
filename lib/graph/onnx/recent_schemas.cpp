// Shape functions of operators that are newer than the onnx package (opsets 26 and 27), or than an older one (opsets 23
// and 24), and of those of com.microsoft from which they come or that came with them.
#include <algorithm>

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include "shape_functions.h"

namespace ctxgen {
namespace {

constexpr std::int64_t kMostOfAttribute = std::int64_t{1} << 20;

/// Nothing where a is not known, b is not a count, or the product is none.
Dimension times(const Dimension& a, std::int64_t b) {
  std::int64_t result = 0;
  if (!a.has_dim_value() || b < 0 || __builtin_mul_overflow(a.dim_value(), b, &result)) return {};
  return fixed(result);
}

bool has_element(InferenceContext& context, std::int32_t type) {
  return has_type(context, 0) && context.getInputType(0)->has_tensor_type() &&
         context.getInputType(0)->tensor_type().elem_type() == type;
}

void bit_cast(InferenceContext& context) {
  const std::int64_t to = std::min(int_of(context, "to", 0), kMostOfAttribute);
  if (to <= 0 || to == onnx::TensorProto::STRING ||
      !onnx::TensorProto_DataType_IsValid(static_cast<int>(to)))
    return;
  onnx::updateOutputElemType(context, 0, static_cast<std::int32_t>(to));
  if (onnx::hasInputShape(context, 0)) onnx::propagateShapeFromInputToOutput(context, 0, 0);
}

/// Of numbers that onnx's function counts with; how many 16-bit floats there are is not known before the run.
void range(InferenceContext& context) {
  if (has_element(context, onnx::TensorProto::FLOAT16) ||
      has_element(context, onnx::TensorProto::BFLOAT16)) {
    set_type(context, 0, 0);
    return set_shape(context, 0, shape_of({Dimension()}));
  }
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema("Range", 11, "");
  if (has_type(context, 0) && schema != nullptr)
    schema->GetTypeAndShapeInferenceFunction()(context);
}

/// Query [B, T, q_num_heads x K], value [B, T, kv_num_heads x V], state [B, kv_num_heads, K, V]. Outputs:
/// [B, T, heads x V], for the larger number of heads; the state.
void linear_attention(InferenceContext& context) {
  set_type(context, 0, 0);
  set_type(context, 1, has_type(context, 3) ? 3 : 0);
  const std::int64_t heads = int_of(context, "q_num_heads", 0);
  const std::int64_t states = int_of(context, "kv_num_heads", 0);
  if (heads <= 0 || states <= 0 || heads > kMostOfAttribute || states > kMostOfAttribute) return;
  const auto *query = shape_of(context, 0, 3), *value = shape_of(context, 2, 3);
  if (query == nullptr || value == nullptr) return;
  const Dimension size = quotient(value->dim(2), states);
  set_shape(context, 0,
            shape_of({query->dim(0), query->dim(1), times(size, std::max(heads, states))}));
  if (int_of(context, "state_window", 0) != 0) return;
  set_shape(context, 1,
            shape_of({query->dim(0), fixed(states), quotient(query->dim(2), heads), size}));
}

/// Input [B, C, L], or [B, L, ...] where com.microsoft's has its channels last; weights [C, 1, K].
/// Outputs: as the input; the positions before the next one.
void causal_conv(InferenceContext& context) {
  set_like(context, 0, 0);
  set_type(context, 1, 0);
  const auto* weights = shape_of(context, 1, 3);
  if (weights == nullptr || !onnx::hasInputShape(context, 0) ||
      int_of(context, "state_window", 0) != 0)
    return;
  Dimension before;
  if (weights->dim(2).has_dim_value() && weights->dim(2).dim_value() > 0)
    before = times(fixed(weights->dim(2).dim_value() - 1), int_of(context, "dilation", 1));
  TensorShapeProto shape = onnx::getInputShape(context, 0);
  const bool last = int_of(context, "channels_last", 0) != 0;
  if (shape.dim_size() < 3 || (!last && shape.dim_size() != 3)) return;
  *shape.mutable_dim(last ? 1 : 2) = before;
  set_shape(context, 1, shape);
}

/// As onnx's, without the score output: query [B, heads, S, size] or [B, S, heads x size], key and value likewise of
/// kv_num_heads heads. Outputs: as the query with the value's size, present key and value [B, kv heads, ?, size].
void attention(InferenceContext& context) {
  for (const std::size_t i : {0, 1}) set_type(context, i, 0);
  set_type(context, 2, has_type(context, 2) ? 2 : 0);
  set_type(context, 3, 0);
  if (const auto *query = shape_of(context, 0, 4), *value = shape_of(context, 2, 4);
      query != nullptr && value != nullptr) {
    set_shape(context, 0, shape_of({query->dim(0), query->dim(1), query->dim(2), value->dim(3)}));
    set_shape(context, 1, shape_of({value->dim(0), value->dim(1), Dimension(), query->dim(3)}));
    set_shape(context, 2, shape_of({value->dim(0), value->dim(1), Dimension(), value->dim(3)}));
    return;
  }
  const auto *query = shape_of(context, 0, 3), *value = shape_of(context, 2, 3);
  const std::int64_t heads = int_of(context, "q_num_heads", 0);
  const std::int64_t shared = int_of(context, "kv_num_heads", 0);
  if (query == nullptr || value == nullptr || heads <= 0 || shared <= 0 ||
      heads > kMostOfAttribute || shared > kMostOfAttribute)
    return;
  const Dimension size = quotient(value->dim(2), shared);
  set_shape(context, 0, shape_of({query->dim(0), query->dim(1), times(size, heads)}));
  set_shape(context, 1,
            shape_of({query->dim(0), fixed(shared), Dimension(), quotient(query->dim(2), heads)}));
  set_shape(context, 2, shape_of({query->dim(0), fixed(shared), Dimension(), size}));
}

constexpr ShapeRow kOnnxRows23[] = {
    {"Attention", attention, 23},           {"RMSNormalization", same_as_input, 23},
    {"RotaryEmbedding", same_as_input, 23}, {"Swish", same_as_input, 24},
    {"TensorScatter", same_as_input, 24},
};

constexpr ShapeRow kOnnxRows26[] = {
    {"BitCast", bit_cast, 26},      {"CausalConvWithState", causal_conv, 27},
    {"CumProd", same_as_input, 26}, {"LinearAttention", linear_attention, 27},
    {"Range", range, 27},
};

constexpr ShapeRow kMicrosoftRows26[] = {
    {"CausalConvWithState", causal_conv},
    {"LinearAttention", linear_attention},
    {"MoE", same_as_input},
    {"QMoE", same_as_input},
};

}  // namespace

std::span<const ShapeRow> older_package_rows() { return kOnnxRows23; }
std::span<const ShapeRow> recent_onnx_rows() { return kOnnxRows26; }
std::span<const ShapeRow> recent_microsoft_rows() { return kMicrosoftRows26; }

}  // namespace ctxgen
