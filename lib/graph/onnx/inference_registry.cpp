#include "inference_registry.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "contrib_schemas.h"

namespace ctxgen {
namespace {

using onnx::InferenceContext;
using onnx::TensorShapeProto;

// Longer vectors are data, not sizes, axes, pads or repeats of dims.
constexpr std::int64_t kMostSizes = 1024;

const TensorShapeProto* shape_of(const onnx::TypeProto* type) {
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape())
    return nullptr;
  return &type->tensor_type().shape();
}

const TensorShapeProto* input_shape(const InferenceContext& context, std::size_t i) {
  return i < context.getNumInputs() ? shape_of(context.getInputType(i)) : nullptr;
}

bool is_long_vector(const TensorShapeProto* shape) {
  return shape != nullptr && shape->dim_size() == 1 && shape->dim(0).dim_value() > kMostSizes;
}

// ---- What the functions take for granted ----

// They look at the type of an input without asking whether there is one.
bool has_input_types(const InferenceContext& context) {
  for (std::size_t i = 0; i < context.getNumInputs(); ++i)
    if (context.getInputType(i) == nullptr) return false;
  return true;
}

// They take the spatial dims of data and weights for equally many, and both for known.
bool has_equal_ranks(const InferenceContext& context) {
  const TensorShapeProto *data = input_shape(context, 0), *weights = input_shape(context, 1);
  return data != nullptr && weights != nullptr && data->dim_size() == weights->dim_size() &&
         data->dim_size() >= 2;
}

// They take a window from the weights' dims and read as many strides and dilations as the data has
// spatial dims.
template <std::size_t kWeights>
bool has_no_other_rank(const InferenceContext& context) {
  const TensorShapeProto *data = input_shape(context, 0), *weights = input_shape(context, kWeights);
  return data == nullptr || weights == nullptr || data->dim_size() == weights->dim_size();
}

// It reads the first element of a constant depth.
bool has_depth(const InferenceContext& context) {
  const onnx::TensorProto* depth = context.getNumInputs() > 1 ? context.getInputData(1) : nullptr;
  return depth == nullptr || std::ranges::find(depth->dims(), 0) == depth->dims().end();
}

// They make a shape of as many unknown dims as the list has elements.
template <std::size_t kList>
bool has_short_list(const InferenceContext& context) {
  return !is_long_vector(input_shape(context, kList));
}

struct Row {
  std::string_view domain, op_type;
  bool (*is_safe)(const InferenceContext& context);
};
constexpr Row kRows[] = {
    {"", "AffineGrid", has_short_list<1>},
    {"", "ConstantOfShape", has_short_list<0>},
    {"", "Conv", has_no_other_rank<1>},
    {"", "ConvInteger", has_equal_ranks},
    {"", "ConvTranspose", has_no_other_rank<1>},
    {"", "DeformConv", has_equal_ranks},
    {"", "Expand", has_short_list<1>},
    {"", "EyeLike", has_input_types},
    {"", "MaxUnpool", has_equal_ranks},
    {"", "OneHot", has_depth},
    {"", "QLinearConv", has_no_other_rank<3>},
    {"", "RegexFullMatch", has_input_types},
    {"", "Reshape", has_short_list<1>},
    {"", "Resize", has_short_list<3>},
    {"ai.onnx.ml", "DictVectorizer", has_input_types},
    {"ai.onnx.ml", "LabelEncoder", has_input_types},
    {"ai.onnx.ml", "TreeEnsemble", has_input_types},
    {"com.microsoft", "FusedConv", has_no_other_rank<1>},
};

const Row* find_row(const onnx::OpSchema& schema) {
  const auto row = std::ranges::find_if(kRows, [&](const Row& each) {
    return each.op_type == schema.Name() && each.domain == schema.domain();
  });
  return row == std::end(kRows) ? nullptr : row;
}

// onnx follows the elements of every vector, of any type, as a list of sizes.
bool reads_short_vectors(const onnx::DataPropagationContext& context) {
  for (std::size_t i = 0; i < context.getNumInputs(); ++i)
    if (is_long_vector(shape_of(context.getInputType(i)))) return false;
  return true;
}

void guard(onnx::OpSchema& schema, const Row* row) {
  if (row != nullptr && schema.has_type_and_shape_inference_function())
    schema.TypeAndShapeInferenceFunction(
        [infer = schema.GetTypeAndShapeInferenceFunction(), row](InferenceContext& context) {
          if (row->is_safe(context)) infer(context);
        });
  if (schema.has_data_propagation_function())
    schema.PartialDataPropagationFunction(
        [propagate = schema.GetDataPropagationFunction()](onnx::DataPropagationContext& context) {
          if (reads_short_vectors(context)) propagate(context);
        });
}

// ---- Operators with the shape function of a later version ----

// Those of which only the later one follows sizes through Shape, Gather, Concat and Reshape:
// exporters wrote opset 9 to 13 for years. From the operators' changelogs: between the two, only types
// were added, and attributes whose default is the former meaning.
struct Lift {
  std::string_view op_type;
  int from, to;  // versions of the default domain
};
constexpr std::array<Lift, 10> kLifts{{{"Reshape", 5, 14}, {"Shape", 1, 15},
                                       {"Gather", 1, 13}, {"Concat", 4, 13},
                                       {"Cast", 6, 13}, {"Slice", 10, 13},
                                       {"Add", 7, 14}, {"Sub", 7, 14},
                                       {"Mul", 7, 14}, {"Expand", 8, 13}}};

int lifted(std::string_view op_type, int version) {
  for (const Lift& lift : kLifts)
    if (lift.op_type == op_type && version >= lift.from && version < lift.to) return lift.to;
  return version;
}

}  // namespace

const onnx::OpSchema* InferenceRegistry::GetSchema(const std::string& op_type, int version,
                                                   const std::string& domain) const {
  const onnx::OpSchema* schema =
      inference_schema(op_type, domain.empty() ? lifted(op_type, version) : version, domain);
  if (schema == nullptr) return nullptr;
  const Row* row = find_row(*schema);
  if (row == nullptr && !schema->has_data_propagation_function()) return schema;
  const auto [found, added] = guarded_.try_emplace(schema, *schema);
  if (added) guard(found->second, row);
  return &found->second;
}

}  // namespace ctxgen
