#include "inference_registry.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <onnx/defs/tensor_proto_util.h>

#include "ctxgen/base/tensor.h"

#include "contrib_schemas.h"
#include "further_dims.h"

namespace ctxgen {
namespace {

using onnx::InferenceContext;
using onnx::TensorShapeProto;

// Longer lists are data, not sizes, axes, pads or repeats of dims. Lists of all values are kept
// while a model is inferred.
constexpr std::int64_t kMostSizes = 64;

const TensorShapeProto* shape_of(const onnx::TypeProto* type) {
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape())
    return nullptr;
  return &type->tensor_type().shape();
}

const onnx::TypeProto* input_type(const InferenceContext& context, std::size_t i) {
  return i < context.getNumInputs() ? context.getInputType(i) : nullptr;
}

const TensorShapeProto* input_shape(const InferenceContext& context, std::size_t i) {
  return shape_of(input_type(context, i));
}

bool is_long_vector(const TensorShapeProto* shape) {
  return shape != nullptr && shape->dim_size() == 1 && shape->dim(0).dim_value() > kMostSizes;
}

// ---- What all functions take for granted ----

// Dims that are counts and whose product is one, too; a rank that does not grow with every node.
bool is_sound(const TensorShapeProto& shape) {
  if (shape.dim_size() > static_cast<int>(kMaxRank)) return false;
  std::int64_t elements = 1;
  for (const auto& dim : shape.dim()) {
    const std::int64_t size = dim.has_dim_value() ? dim.dim_value() : 1;
    if (size < 0 || __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements))
      return false;
  }
  return true;
}

// Optional and sequence types are copied from node to node: of few layers only.
bool is_sound(const onnx::TypeProto* type) {
  for (int layer = 0; layer < 4; ++layer) {
    if (const TensorShapeProto* shape = shape_of(type)) return is_sound(*shape);
    if (type != nullptr && type->has_sequence_type())
      type = &type->sequence_type().elem_type();
    else if (type != nullptr && type->has_optional_type())
      type = &type->optional_type().elem_type();
    else
      return true;
  }
  return false;
}

bool has_sound_inputs(const InferenceContext& context) {
  for (std::size_t i = 0; i < context.getNumInputs(); ++i)
    if (!is_sound(context.getInputType(i))) return false;
  return true;
}

// ---- What some functions take for granted ----

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

// They take a window from the weights' dims, which are those of a tensor, and read as many strides
// and dilations as the data has spatial dims.
template <std::size_t kWeights>
bool has_no_other_rank(const InferenceContext& context) {
  for (const std::size_t i : {std::size_t{0}, kWeights})
    if (const auto* type = input_type(context, i); type != nullptr && !type->has_tensor_type())
      return false;
  const TensorShapeProto *data = input_shape(context, 0), *weights = input_shape(context, kWeights);
  return data == nullptr || weights == nullptr ||
         (data->dim_size() == weights->dim_size() && data->dim_size() >= 2);
}

// With auto_pad they subtract the stride from a dim until less is left.
bool has_countable_dims(const InferenceContext& context) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 24;
  const onnx::AttributeProto* auto_pad = context.getAttribute("auto_pad");
  if (auto_pad == nullptr || auto_pad->s() == "VALID") return true;
  const TensorShapeProto* data = input_shape(context, 0);
  return data == nullptr || std::ranges::all_of(data->dim(), [](const auto& dim) {
           return dim.dim_value() <= kMostSteps;
         });
}

template <std::size_t kWeights>
bool is_safe_convolution(const InferenceContext& context) {
  return has_no_other_rank<kWeights>(context) && has_countable_dims(context);
}

bool is_safe_integer_convolution(const InferenceContext& context) {
  return has_equal_ranks(context) && has_countable_dims(context);
}

const onnx::TensorProto* constant_input(const InferenceContext& context, std::size_t i) {
  return i < context.getNumInputs() ? context.getInputData(i) : nullptr;
}

// It takes sizes of the values for numbers: those that are not known for 0.
bool has_value_sizes(const InferenceContext& context) {
  const TensorShapeProto* values = input_shape(context, 2);
  if (values == nullptr || (values->dim_size() != 3 && values->dim_size() != 4)) return true;
  const bool wants_scores = context.getNumOutputs() > 3;
  const int length = values->dim_size() - 2, hidden = values->dim_size() - 1;
  return (!wants_scores || values->dim(length).has_dim_value()) &&
         (hidden == 3 || values->dim(hidden).has_dim_value());
}

// It reads the first element of a constant depth.
bool has_depth(const InferenceContext& context) {
  const onnx::TensorProto* depth = constant_input(context, 1);
  return depth == nullptr ||
         std::ranges::all_of(depth->dims(), [](std::int64_t dim) { return dim == 1; });
}

// It divides by the size of the parts.
bool has_parts(const InferenceContext& context) {
  const onnx::TensorProto* sizes = constant_input(context, 1);
  if (sizes == nullptr) return true;
  const auto all_positive = [](const auto& list) {
    return std::ranges::all_of(list, [](std::int64_t size) { return size >= 1; });
  };
  return sizes->data_type() == onnx::TensorProto::INT32
             ? all_positive(onnx::ParseData<std::int32_t>(sizes))
             : all_positive(onnx::ParseData<std::int64_t>(sizes));
}

// Before opset 7 they read two dims of the sequence.
bool has_two_dims(const InferenceContext& context) {
  const TensorShapeProto* data = input_shape(context, 0);
  return data == nullptr || data->dim_size() >= 2;
}

bool is_safe_tree(const InferenceContext& context) {
  const onnx::AttributeProto* weights = context.getAttribute("leaf_weights");
  return has_input_types(context) && (weights == nullptr || weights->t().dims_size() > 0);
}

// Einsum gives the dims of all ellipses the places of the first one's, and labels of the result that
// no term has the first place, which may not exist.
bool has_einsum_labels(const InferenceContext& context) {
  const onnx::AttributeProto* attribute = context.getAttribute("equation");
  if (attribute == nullptr) return true;
  const std::string_view equation = attribute->s();
  const auto letters = [](std::string_view text) {
    return std::ranges::count_if(text, [](unsigned char c) { return std::isalpha(c) != 0; });
  };
  const std::size_t arrow = equation.find("->");
  const std::string_view terms = equation.substr(0, arrow);
  if (arrow != std::string_view::npos && letters(equation.substr(arrow)) > 0 && letters(terms) == 0)
    return false;
  std::optional<std::int64_t> hidden;  // dims that an ellipsis stands for
  bool several = false, known = true;
  for (std::size_t begin = 0, i = 0; begin <= terms.size(); ++i) {
    const std::size_t end = std::min(terms.find(',', begin), terms.size());
    const std::string_view term = terms.substr(begin, end - begin);
    begin = end + 1;
    if (term.find("...") == std::string_view::npos) continue;
    const TensorShapeProto* shape = input_shape(context, i);
    several = several || hidden.has_value();
    const std::int64_t dims = shape == nullptr ? -1 : shape->dim_size() - letters(term);
    known = known && dims >= 0 && dims == hidden.value_or(dims);
    hidden = dims;
  }
  return known || !several;
}

// They make a shape of as many unknown dims as a list has elements.
template <std::size_t... kLists>
bool has_short_lists(const InferenceContext& context) {
  return (!is_long_vector(input_shape(context, kLists)) && ...);
}

struct Row {
  std::string_view domain, op_type;
  bool (*is_safe)(const InferenceContext& context);
};
constexpr Row kRows[] = {
    {"", "AffineGrid", has_short_lists<1>},
    {"", "Attention", has_value_sizes},
    {"", "AveragePool", has_countable_dims},
    {"", "Col2Im", has_short_lists<1, 2>},
    {"", "ConstantOfShape", has_short_lists<0>},
    {"", "Conv", is_safe_convolution<1>},
    {"", "ConvInteger", is_safe_integer_convolution},
    {"", "ConvTranspose", is_safe_convolution<1>},
    {"", "DeformConv", has_equal_ranks},
    {"", "Einsum", has_einsum_labels},
    {"", "Expand", has_short_lists<1>},
    {"", "EyeLike", has_input_types},
    {"", "GRU", has_two_dims},
    {"", "LSTM", has_two_dims},
    {"", "LpPool", has_countable_dims},
    {"", "MaxPool", has_countable_dims},
    {"", "MaxUnpool", has_equal_ranks},
    {"", "OneHot", has_depth},
    {"", "QLinearConv", is_safe_convolution<3>},
    {"", "RNN", has_two_dims},
    {"", "RegexFullMatch", has_input_types},
    {"", "Reshape", has_short_lists<1>},
    {"", "Resize", has_short_lists<3>},
    {"", "SplitToSequence", has_parts},
    {"ai.onnx.ml", "DictVectorizer", has_input_types},
    {"ai.onnx.ml", "LabelEncoder", has_input_types},
    {"ai.onnx.ml", "TreeEnsemble", is_safe_tree},
    {"com.microsoft", "FusedConv", is_safe_convolution<1>},
    {"com.microsoft", "QLinearAveragePool", has_countable_dims},
};

const Row* find_row(const onnx::OpSchema& schema) {
  const auto row = std::ranges::find_if(kRows, [&](const Row& each) {
    return each.op_type == schema.Name() && each.domain == schema.domain();
  });
  return row == std::end(kRows) ? nullptr : row;
}

// ---- Values that are followed as lists of sizes ----

// onnx follows every vector, of any type, whose length it knows.
bool reads_short_lists(onnx::DataPropagationContext& context) {
  for (std::size_t i = 0; i < context.getNumInputs(); ++i)
    if (!is_sound(context.getInputType(i)) || is_long_vector(shape_of(context.getInputType(i))))
      return false;
  std::int64_t sizes = 0;
  for (std::size_t i = 0; i < context.getNumInputs(); ++i)
    if (const TensorShapeProto* list = context.getInputData(i)) sizes += list->dim_size();
  return sizes <= kMostSizes;
}

// Slice reads the last element of an empty list backwards, and steps in the width of an int.
bool has_sane_steps(onnx::DataPropagationContext& context) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (context.getNumInputs() < 5) return true;
  const TensorShapeProto *data = context.getInputData(0), *steps = context.getInputData(4);
  if (steps == nullptr) return true;
  return data != nullptr && data->dim_size() > 0 &&
         std::ranges::all_of(steps->dim(), [](const auto& step) {
           return step.has_dim_value() && step.dim_value() >= -kMost && step.dim_value() <= kMost;
         });
}

// What a function throws concerns its node alone, unless it is another exception than onnx expects.
void infer_node(const onnx::InferenceFunction& infer, InferenceContext& context) {
  try {
    infer(context);
  } catch (const std::logic_error& error) {
    fail_shape_inference(error.what());
  }
}

void guard(onnx::OpSchema& schema) {
  const FurtherDims* further = schema.domain().empty() ? further_dims(schema.Name()) : nullptr;
  if (schema.has_type_and_shape_inference_function())
    schema.TypeAndShapeInferenceFunction([infer = schema.GetTypeAndShapeInferenceFunction(),
                                          row = find_row(schema),
                                          further](InferenceContext& context) {
      if (!has_sound_inputs(context) || (row != nullptr && !row->is_safe(context))) return;
      infer_node(infer, context);
      if (further != nullptr && further->find != nullptr) infer_node(further->find, context);
    });
  if (!schema.has_data_propagation_function() && further != nullptr && further->follow != nullptr)
    schema.PartialDataPropagationFunction(further->follow);
  if (schema.has_data_propagation_function())
    schema.PartialDataPropagationFunction(
        [propagate = schema.GetDataPropagationFunction(),
         slices = schema.Name() == "Slice"](onnx::DataPropagationContext& context) {
          if (reads_short_lists(context) && (!slices || has_sane_steps(context)))
            propagate(context);
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
constexpr std::array<Lift, 10> kLifts{{{"Reshape", 5, 14},
                                       {"Shape", 1, 15},
                                       {"Gather", 1, 13},
                                       {"Concat", 4, 13},
                                       {"Cast", 6, 13},
                                       {"Slice", 10, 13},
                                       {"Add", 7, 14},
                                       {"Sub", 7, 14},
                                       {"Mul", 7, 14},
                                       {"Expand", 8, 13}}};

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
  const auto [found, added] = guarded_.try_emplace(schema, *schema);
  if (added) guard(found->second);
  return &found->second;
}

}  // namespace ctxgen
