// Shape functions of com.microsoft operators, by ONNX Runtime's ContribOperators.md, and of ONNX's for
// which the onnx package has none. Models that transformer optimizers wrote are full of them: without
// their types nothing after them is compiled.
#include "contrib_schemas.h"

#include <map>
#include <span>
#include <string>
#include <vector>

#include <onnx/defs/shape_inference.h>

#include "shape_functions.h"

namespace ctxgen {
namespace {

/// Nothing where a is not known, or the product has no place in 64 bits.
Dimension product(const Dimension& a, std::int64_t b) {
  std::int64_t size = 0;
  if (!a.has_dim_value() || __builtin_mul_overflow(a.dim_value(), b, &size)) return {};
  return fixed(size);
}

/// Outputs: the sum normalized; mean; inverse deviation; the sum. The second and third are for training.
void skip_norm(InferenceContext& context) {
  set_like(context, 0, 0);
  set_like(context, 3, 0);
}

/// Inputs: ids [B, S], segments, word embedding [V, H], ... Outputs: [B, S, H], mask index [B], the sum.
void embed_norm(InferenceContext& context) {
  set_type(context, 0, 2);
  if (context.getNumOutputs() > 1) onnx::updateOutputElemType(context, 1, onnx::TensorProto::INT32);
  set_type(context, 2, 2);
  const auto* ids = shape_of(context, 0, 2);
  const auto* words = shape_of(context, 2, 2);
  if (ids == nullptr || words == nullptr) return;
  const TensorShapeProto shape = shape_of({ids->dim(0), ids->dim(1), words->dim(1)});
  set_shape(context, 0, shape);
  set_shape(context, 1, shape_of({ids->dim(0)}));
  set_shape(context, 2, shape);
}

/// Of weights [., q + k + v], or what qkv_hidden_sizes says of v.
Dimension value_size(InferenceContext& context, const TensorShapeProto& weights) {
  std::vector<std::int64_t> sizes;
  if (onnx::getRepeatedAttribute(context, "qkv_hidden_sizes", sizes) && sizes.size() == 3)
    return fixed(sizes[2]);
  return quotient(weights.dim(1), 3);
}

/// Input [B, S, .], weights [., 3 H]. Outputs: [B, S, H], present [2, B, heads, ?, H / heads].
void attention_of(InferenceContext& context, std::size_t type_of) {
  set_type(context, 0, type_of);
  set_type(context, 1, type_of);
  const auto* input = shape_of(context, 0, 3);
  const auto* weights = shape_of(context, 1, 2);
  if (input == nullptr || weights == nullptr) return;
  const Dimension hidden = value_size(context, *weights);
  set_shape(context, 0, shape_of({input->dim(0), input->dim(1), hidden}));
  const std::int64_t heads = int_of(context, "num_heads", 0);
  if (heads > 0)
    set_shape(
        context, 1,
        shape_of({fixed(2), input->dim(0), fixed(heads), Dimension(), quotient(hidden, heads)}));
}

void attention(InferenceContext& context) { attention_of(context, 0); }
/// 8-bit input and weights; input 3 is the input's scale, of the output's type.
void quantized_attention(InferenceContext& context) { attention_of(context, 3); }

/// Query [B, S, H], value [B, L, H'] or [B, heads, L, size], or the query packed [B, S, heads, 3, size].
void multi_head_attention(InferenceContext& context) {
  for (std::size_t i = 0; i < 3; ++i) set_type(context, i, 0);
  if (const auto* packed = shape_of(context, 0, 5)) {
    const Dimension &heads = packed->dim(2), &size = packed->dim(4);
    const bool known = heads.has_dim_value() && size.has_dim_value();
    set_shape(context, 0,
              shape_of({packed->dim(0), packed->dim(1),
                        known ? fixed(heads.dim_value() * size.dim_value()) : Dimension()}));
    return;
  }
  const auto* query = shape_of(context, 0, 3);
  if (query == nullptr) return;
  Dimension hidden;
  if (const auto* rows = shape_of(context, 2, 3)) hidden = rows->dim(2);
  if (const auto* heads = shape_of(context, 2, 4);
      heads != nullptr && heads->dim(1).has_dim_value() && heads->dim(3).has_dim_value())
    hidden = fixed(heads->dim(1).dim_value() * heads->dim(3).dim_value());
  if (!onnx::hasInputShape(context, 2) && onnx::hasInputShape(context, 1))
    return;  // packed key, value
  set_shape(context, 0, shape_of({query->dim(0), query->dim(1), hidden}));
  const std::int64_t heads = int_of(context, "num_heads", 0);
  if (heads <= 0) return;
  for (const std::size_t i : {1, 2})
    set_shape(context, i,
              shape_of({query->dim(0), fixed(heads), Dimension(),
                        quotient(i == 1 ? query->dim(2) : hidden, heads)}));
}

/// Of the integers in a GroupQueryAttention's caches; 0: they hold floats.
std::int64_t cache_bits(InferenceContext& context) {
  const onnx::AttributeProto* type = context.getAttribute("k_quant_type");
  if (type == nullptr || type->s() == "NONE") return 0;
  return int_of(context, "kv_cache_bit_width", 0);
}

/// Presents are of the type of their pasts, or else of the query's, or of the integers that attributes name.
void set_present_types(InferenceContext& context) {
  const std::int64_t bits = cache_bits(context);
  for (std::size_t i = 1; i < 3; ++i)
    if (bits == 0 || has_type(context, i + 2))
      set_type(context, i, has_type(context, i + 2) ? i + 2 : 0);
    else if (context.getNumOutputs() > i)
      onnx::updateOutputElemType(context, i,
                                 bits == 4 ? onnx::TensorProto::UINT8 : onnx::TensorProto::INT8);
}

/// Query [B, S, heads x size], or with key and value next to it in its rows where input 1 is missing.
/// Outputs: as the query alone, present key and value [B, kv_num_heads, ?, size].
void group_query_attention(InferenceContext& context) {
  set_type(context, 0, 0);
  set_present_types(context);
  const auto* query = shape_of(context, 0, 3);
  const std::int64_t heads = int_of(context, "num_heads", 0);
  const std::int64_t shared = int_of(context, "kv_num_heads", 0);
  constexpr std::int64_t kMostHeads = 1 << 20;
  if (query == nullptr || heads <= 0 || shared <= 0 || heads > kMostHeads || shared > kMostHeads)
    return;
  const bool packed = !has_type(context, 1);
  const Dimension size = quotient(query->dim(2), packed ? heads + 2 * shared : heads);
  Dimension hidden = query->dim(2);
  if (packed) hidden = size.has_dim_value() ? fixed(size.dim_value() * heads) : Dimension();
  set_shape(context, 0, shape_of({query->dim(0), query->dim(1), hidden}));
  Dimension width = size;
  if (cache_bits(context) == 4)  // two in a byte
    width = size.has_dim_value() ? fixed(size.dim_value() / 2 + size.dim_value() % 2) : Dimension();
  for (const std::size_t i : {1, 2})
    set_shape(context, i, shape_of({query->dim(0), fixed(shared), Dimension(), width}));
}

/// With the function of the operator that it is made of, which sees the same inputs and attributes and
/// takes the first input for granted.
template <const char* const& kOp, int kVersion>
void like_operator(InferenceContext& context) {
  if (!has_type(context, 0)) return;
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(kOp, kVersion, "");
  if (schema != nullptr) schema->GetTypeAndShapeInferenceFunction()(context);
}
constexpr const char* kConv = "Conv";
constexpr const char* kGemm = "Gemm";
constexpr const char* kMatMul = "MatMul";
constexpr const char* kAveragePool = "AveragePool";

TensorShapeProto batch_of(const TensorShapeProto& shape) {
  TensorShapeProto batch = shape;
  batch.mutable_dim()->DeleteSubrange(shape.dim_size() - 2, 2);
  return batch;
}

/// A [..., M, K], or [..., K, M] with transA; B alike. transBatchA and transBatchB change more dims.
void fused_matmul(InferenceContext& context) {
  const bool a_is_transposed = int_of(context, "transA", 0) != 0;
  const bool b_is_transposed = int_of(context, "transB", 0) != 0;
  set_type(context, 0, 0);
  if (int_of(context, "transBatchA", 0) != 0 || int_of(context, "transBatchB", 0) != 0) return;
  if (!a_is_transposed && !b_is_transposed) return like_operator<kMatMul, 13>(context);
  if (!onnx::hasInputShape(context, 0) || !onnx::hasInputShape(context, 1)) return;
  const TensorShapeProto &a = onnx::getInputShape(context, 0), &b = onnx::getInputShape(context, 1);
  if (a.dim_size() < 2 || b.dim_size() < 2) return;
  TensorShapeProto shape;
  onnx::bidirectionalBroadcastShapeInference(batch_of(a), batch_of(b), shape);
  *shape.add_dim() = a.dim(a.dim_size() - (a_is_transposed ? 1 : 2));
  *shape.add_dim() = b.dim(b.dim_size() - (b_is_transposed ? 2 : 1));
  set_shape(context, 0, shape);
}

/// A [..., K], B [K, N] of 8 bits; the output has the type of input `kTypeOf`.
template <std::size_t kTypeOf>
void integer_product(InferenceContext& context) {
  set_type(context, 0, kTypeOf);
  const auto* b = shape_of(context, 1, 2);
  if (b == nullptr || !onnx::hasInputShape(context, 0)) return;
  TensorShapeProto shape = onnx::getInputShape(context, 0);
  if (shape.dim_size() < 2) return;
  *shape.mutable_dim(shape.dim_size() - 1) = b->dim(1);
  set_shape(context, 0, shape);
}

/// X [T, B, I], W [D, I, 4 H], R [D, H, 4 H]. Outputs: [T, D, B, H], then the states [D, B, H].
void quantized_lstm(InferenceContext& context) {
  for (std::size_t i = 0; i < 3; ++i) set_type(context, i, 0);
  const auto *x = shape_of(context, 0, 3), *r = shape_of(context, 2, 3);
  if (x == nullptr || r == nullptr) return;
  set_shape(context, 0, shape_of({x->dim(0), r->dim(0), x->dim(1), r->dim(1)}));
  for (std::size_t i = 1; i < 3; ++i)
    set_shape(context, i, shape_of({r->dim(0), x->dim(1), r->dim(1)}));
}

/// A [M, K] or [K, M], its scale and zero point, B likewise, C, scale and zero point of Y: without them Y is
/// as the scale of A.
void quantized_gemm(InferenceContext& context) {
  set_type(context, 0, has_type(context, 8) ? 8 : 1);
  const auto *a = shape_of(context, 0, 2), *b = shape_of(context, 3, 2);
  if (a == nullptr || b == nullptr) return;
  set_shape(context, 0,
            shape_of({a->dim(int_of(context, "transA", 0) != 0 ? 1 : 0),
                      b->dim(int_of(context, "transB", 0) != 0 ? 0 : 1)}));
}

/// A [..., K]; N is an attribute.
void matmul_nbits(InferenceContext& context) {
  set_type(context, 0, 0);
  if (!onnx::hasInputShape(context, 0)) return;
  TensorShapeProto shape = onnx::getInputShape(context, 0);
  if (shape.dim_size() < 1) return;
  *shape.mutable_dim(shape.dim_size() - 1) = fixed(int_of(context, "N", -1));
  set_shape(context, 0, shape);
}

/// Data, of which bytes may hold several elements each; indices; scales of the output's type.
void gather_blocks(InferenceContext& context) {
  set_type(context, 0, 2);
  if (!onnx::hasInputShape(context, 0) || !onnx::hasInputShape(context, 1)) return;
  const TensorShapeProto& data = onnx::getInputShape(context, 0);
  const TensorShapeProto& indices = onnx::getInputShape(context, 1);
  std::int64_t axis = int_of(context, "gather_axis", 0);
  if (axis < 0) axis += data.dim_size();
  if (axis < 0 || axis >= data.dim_size()) return;
  const bool bytes = context.getInputType(0)->tensor_type().elem_type() == onnx::TensorProto::UINT8;
  const std::int64_t bits = int_of(context, "bits", 4);
  const std::int64_t elements = bytes && bits > 0 && bits <= 8 ? 8 / bits : 1;
  TensorShapeProto shape;
  for (int i = 0; i < data.dim_size(); ++i) {
    if (i == axis)
      for (const Dimension& dim : indices.dim()) *shape.add_dim() = dim;
    else if (i + 1 < data.dim_size() || elements == 1)
      *shape.add_dim() = data.dim(i);
    else
      *shape.add_dim() = product(data.dim(i), elements);
  }
  set_shape(context, 0, shape);
}

/// A, its scale and zero point, then B.
void quantized_binary(InferenceContext& context) {
  set_type(context, 0, 0);
  if (context.getNumOutputs() == 0) return;
  if (!onnx::hasInputShape(context, 0) || !onnx::hasInputShape(context, 3)) return;
  onnx::bidirectionalBroadcastShapeInference(
      onnx::getInputShape(context, 0), onnx::getInputShape(context, 3),
      *context.getOutputType(0)->mutable_tensor_type()->mutable_shape());
}

/// Windows are counted over the dims after the channels.
void quantized_pool(InferenceContext& context) {
  set_type(context, 0, 0);
  if (int_of(context, "channels_last", 0) == 0) like_operator<kAveragePool, 11>(context);
}

void quantized_global_pool(InferenceContext& context) {
  set_type(context, 0, 0);
  if (!onnx::hasInputShape(context, 0)) return;
  TensorShapeProto shape = onnx::getInputShape(context, 0);
  const int rank = shape.dim_size();
  const bool last = int_of(context, "channels_last", 0) != 0;
  for (int i = last ? 1 : 2; i < (last ? rank - 1 : rank); ++i) *shape.mutable_dim(i) = fixed(1);
  set_shape(context, 0, shape);
}

void dequantize(InferenceContext& context) {
  set_type(context, 0, 1);
  if (onnx::hasInputShape(context, 0)) onnx::propagateShapeFromInputToOutput(context, 0, 0);
}

void quantize(InferenceContext& context) {
  if (has_type(context, 2))
    set_type(context, 0, 2);
  else
    onnx::updateOutputElemType(context, 0, onnx::TensorProto::UINT8);
  if (onnx::hasInputShape(context, 0)) onnx::propagateShapeFromInputToOutput(context, 0, 0);
}

constexpr ShapeRow kMicrosoftRows[] = {
    {"Attention", attention},
    {"BiasGelu", same_as_input},
    {"DequantizeLinear", dequantize},
    {"DynamicQuantizeLSTM", quantized_lstm},
    {"DynamicQuantizeMatMul", integer_product<0>},
    {"EmbedLayerNormalization", embed_norm},
    {"FastGelu", same_as_input},
    {"FusedConv", like_operator<kConv, 11>},
    {"FusedGemm", like_operator<kGemm, 13>},
    {"FusedMatMul", fused_matmul},
    {"GatherBlockQuantized", gather_blocks},
    {"Gelu", same_as_input},
    {"GroupQueryAttention", group_query_attention},
    {"MatMulIntegerToFloat", integer_product<2>},
    {"MatMulNBits", matmul_nbits},
    {"MultiHeadAttention", multi_head_attention},
    {"QAttention", quantized_attention},
    {"QGemm", quantized_gemm},
    {"QLinearAdd", quantized_binary},
    {"QLinearAveragePool", quantized_pool},
    {"QLinearGlobalAveragePool", quantized_global_pool},
    {"QLinearLeakyRelu", same_as_input},
    {"QLinearMul", quantized_binary},
    {"QLinearSigmoid", same_as_input},
    {"QLinearSoftmax", same_as_input},
    {"QuantizeLinear", quantize},
    {"QuickGelu", same_as_input},
    {"RotaryEmbedding", same_as_input},
    {"SkipLayerNormalization", skip_norm},
    {"SkipSimplifiedLayerNormalization", skip_norm},
};

// GroupNormalization has a body of other operators only, in which the shape is lost;
// SimplifiedLayerNormalization is ONNX Runtime's; the others were experiments that ONNX has dropped.
constexpr ShapeRow kOnnxRows[] = {
    {"Affine", same_as_input},
    {"GroupNormalization", same_as_input},
    {"ImageScaler", same_as_input},
    {"ParametricSoftplus", same_as_input},
    {"Scale", same_as_input},
    {"ScaledTanh", same_as_input},
    {"SimplifiedLayerNormalization", same_as_input},
};

using Schemas = std::map<std::string, onnx::OpSchema, std::less<>>;

void add_schemas(const char* domain, std::span<const ShapeRow> rows, Schemas& schemas) {
  for (const ShapeRow& row : rows) {
    onnx::OpSchema& schema = schemas[row.op_type];
    schema.SetName(row.op_type).SetDomain(domain).SinceVersion(row.since);
    schema.TypeAndShapeInferenceFunction(row.infer);
  }
}

Schemas make_schemas(const char* domain, std::span<const ShapeRow> rows,
                     std::span<const ShapeRow> recent) {
  Schemas schemas;
  add_schemas(domain, rows, schemas);
  add_schemas(domain, recent, schemas);
  return schemas;
}

const onnx::OpSchema* find(const Schemas& schemas, const std::string& op_type, int version) {
  const auto found = schemas.find(op_type);
  return found == schemas.end() || found->second.SinceVersion() > version ? nullptr
                                                                          : &found->second;
}

}  // namespace

const onnx::OpSchema* inference_schema(const std::string& op_type, int version,
                                       const std::string& domain) {
  static const Schemas microsoft =
      make_schemas("com.microsoft", kMicrosoftRows, recent_microsoft_rows());
  static const Schemas onnx_own = make_schemas("", kOnnxRows, recent_onnx_rows());
  if (domain == "com.microsoft") return find(microsoft, op_type, version);
  if (domain.empty())
    if (const onnx::OpSchema* schema = find(onnx_own, op_type, version)) return schema;
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(op_type, version, domain);
  if (schema != nullptr || !domain.empty()) return schema;
  static const Schemas of_older_packages = make_schemas("", older_package_rows(), {});
  return find(of_older_packages, op_type, version);
}

}  // namespace ctxgen
