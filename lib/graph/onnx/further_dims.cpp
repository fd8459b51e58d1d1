#include "further_dims.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <onnx/defs/tensor_proto_util.h>

#include "shape_functions.h"

namespace ctxgen {
namespace {

// ---- Dims ----

bool is_known(const Dimension& dim) { return dim.has_dim_value() || !dim.dim_param().empty(); }

bool is_number(const Dimension& dim, std::int64_t number) {
  return dim.has_dim_value() && dim.dim_value() == number;
}

/// A list of int64: constant, or as far as it is made of sizes. Nothing where it is anything else.
std::optional<TensorShapeProto> list_of(const InferenceContext& context, std::size_t input) {
  if (input >= context.getNumInputs()) return std::nullopt;
  const onnx::TypeProto* type = context.getInputType(input);
  if (type == nullptr || !type->has_tensor_type() ||
      type->tensor_type().elem_type() != onnx::TensorProto::INT64)
    return std::nullopt;
  if (const onnx::TensorProto* constant = context.getInputData(input)) {
    TensorShapeProto list;
    for (const std::int64_t number : onnx::ParseData<std::int64_t>(constant))
      list.add_dim()->set_dim_value(number);
    return list;
  }
  const TensorShapeProto* sizes = context.getSymbolicInput(input);
  return sizes == nullptr ? std::nullopt : std::optional(*sizes);
}

/// The output's shape as it is so far, of that rank; nullptr: of another rank, or not known.
TensorShapeProto* result_of(InferenceContext& context, int rank) {
  if (context.getNumOutputs() == 0) return nullptr;
  onnx::TypeProto* type = context.getOutputType(0);
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape())
    return nullptr;
  TensorShapeProto* shape = type->mutable_tensor_type()->mutable_shape();
  return shape->dim_size() == rank ? shape : nullptr;
}

/// 0, 1, 2... up to a size: as many as that.
void count_range(InferenceContext& context) {
  const auto start = list_of(context, 0), limit = list_of(context, 1), step = list_of(context, 2);
  const auto is = [](const std::optional<TensorShapeProto>& list, std::int64_t number) {
    return list && list->dim_size() == 1 && is_number(list->dim(0), number);
  };
  TensorShapeProto* result = result_of(context, 1);
  if (result == nullptr || is_known(result->dim(0)) || !is(start, 0) || !is(step, 1) || !limit ||
      limit->dim_size() != 1 || limit->dim(0).dim_param().empty())
    return;
  *result->mutable_dim(0) = limit->dim(0);
}

/// A product of sizes.
struct Product {
  std::int64_t number = 1;
  std::vector<std::string> symbols;

  /// False: it is not known, or may be that of nothing.
  [[nodiscard]] bool multiply(const Dimension& dim) {
    if (!dim.has_dim_value()) symbols.push_back(dim.dim_param());
    return dim.has_dim_value()
               ? dim.dim_value() > 0 && !__builtin_mul_overflow(number, dim.dim_value(), &number)
               : !dim.dim_param().empty();
  }
  /// Divides by another one, of which it has all symbols. False: the result is not a size.
  [[nodiscard]] bool divide(const Product& by) {
    for (const std::string& symbol : by.symbols) {
      const auto same = std::ranges::find(symbols, symbol);
      if (same == symbols.end()) return false;
      symbols.erase(same);
    }
    const bool is_whole = number % by.number == 0;
    number /= by.number;
    return is_whole && symbols.size() <= (number == 1 ? 1U : 0U);
  }
};

/// What is left of the input's dims for -1 when those of the list are divided out.
void find_rest(InferenceContext& context) {
  const auto list = list_of(context, 1);
  if (!list || !onnx::hasInputShape(context, 0)) return;
  TensorShapeProto* result = result_of(context, list->dim_size());
  if (result == nullptr) return;
  Product rest, others;
  for (const Dimension& dim : onnx::getInputShape(context, 0).dim())
    if (!rest.multiply(dim)) return;
  Dimension* open = nullptr;
  for (int i = 0; i < list->dim_size(); ++i) {
    if (is_number(list->dim(i), -1) && open == nullptr)
      open = result->mutable_dim(i);
    else if (!others.multiply(list->dim(i)))  // 0, a second -1
      return;
  }
  if (open == nullptr || is_known(*open) || !rest.divide(others)) return;
  if (rest.symbols.empty())
    open->set_dim_value(rest.number);
  else
    open->set_dim_param(rest.symbols[0]);
}

/// A dim that is repeated once, or of 1 as often as a size says.
void repeat_dims(InferenceContext& context) {
  const auto repeats = list_of(context, 1);
  if (!repeats || !onnx::hasInputShape(context, 0)) return;
  const TensorShapeProto& given = onnx::getInputShape(context, 0);
  TensorShapeProto* result = result_of(context, given.dim_size());
  if (result == nullptr || repeats->dim_size() != given.dim_size()) return;
  for (int i = 0; i < given.dim_size(); ++i) {
    if (is_known(result->dim(i))) continue;
    if (is_number(repeats->dim(i), 1))
      *result->mutable_dim(i) = given.dim(i);
    else if (is_number(given.dim(i), 1) && !repeats->dim(i).dim_param().empty())
      *result->mutable_dim(i) = repeats->dim(i);
  }
}

// ---- Lists of sizes ----

/// A list, or one number, of int64 or booleans. nullptr: it is not known, or of another form.
const TensorShapeProto* sizes_at(onnx::DataPropagationContext& context, std::size_t input) {
  const onnx::TypeProto* type = context.getInputType(input);
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape() ||
      type->tensor_type().shape().dim_size() > 1)
    return nullptr;
  const auto element = type->tensor_type().elem_type();
  if (element != onnx::TensorProto::INT64 && element != onnx::TensorProto::BOOL) return nullptr;
  return context.getInputData(input);
}

/// Element i of a list, or of one that is repeated.
const Dimension& size_in(const TensorShapeProto& list, int i) {
  return list.dim(list.dim_size() == 1 ? 0 : i);
}

/// How many elements lists have together; -1: they do not fit.
int common_length(std::initializer_list<const TensorShapeProto*> lists) {
  int length = 1;
  for (const TensorShapeProto* list : lists) {
    if (list == nullptr) return -1;
    if (list->dim_size() == 1) continue;
    if (length != 1 && list->dim_size() != length) return -1;
    length = list->dim_size();
  }
  return length;
}

/// 1 or 0 where it is known whether sizes are equal, which are none below 0.
Dimension equality(const Dimension& a, const Dimension& b) {
  if (a.has_dim_value() && b.has_dim_value()) return fixed(a.dim_value() == b.dim_value() ? 1 : 0);
  if (a.has_dim_value() || b.has_dim_value()) {
    const Dimension& number = a.has_dim_value() ? a : b;
    const Dimension& size = a.has_dim_value() ? b : a;
    return number.dim_value() < 0 && !size.dim_param().empty() ? fixed(0) : Dimension();
  }
  return !a.dim_param().empty() && a.dim_param() == b.dim_param() ? fixed(1) : Dimension();
}

void follow_equal(onnx::DataPropagationContext& context) {
  if (context.getNumInputs() != 2) return;
  const auto *a = sizes_at(context, 0), *b = sizes_at(context, 1);
  const int length = common_length({a, b});
  TensorShapeProto list;
  for (int i = 0; i < length; ++i) *list.add_dim() = equality(size_in(*a, i), size_in(*b, i));
  if (length > 0) context.addOutputData(0, std::move(list));
}

void follow_where(onnx::DataPropagationContext& context) {
  if (context.getNumInputs() != 3) return;
  const auto *condition = sizes_at(context, 0), *yes = sizes_at(context, 1),
             *no = sizes_at(context, 2);
  const int length = common_length({condition, yes, no});
  TensorShapeProto list;
  for (int i = 0; i < length; ++i) {
    const Dimension& chosen = size_in(*condition, i);
    Dimension* const to = list.add_dim();
    if (chosen.has_dim_value()) *to = size_in(chosen.dim_value() != 0 ? *yes : *no, i);
  }
  if (length > 0) context.addOutputData(0, std::move(list));
}

void follow_reshape(onnx::DataPropagationContext& context) {
  if (context.getNumInputs() != 2) return;
  const TensorShapeProto *list = sizes_at(context, 0), *shape = sizes_at(context, 1);
  if (list != nullptr && shape != nullptr && shape->dim_size() <= 1)
    context.addOutputData(0, TensorShapeProto(*list));
}

constexpr FurtherDims kRows[] = {
    {.op_type = "Equal", .follow = follow_equal},
    {.op_type = "Range", .find = count_range},
    {.op_type = "Reshape", .find = find_rest, .follow = follow_reshape},
    {.op_type = "Tile", .find = repeat_dims},
    {.op_type = "Where", .follow = follow_where},
};

}  // namespace

const FurtherDims* further_dims(std::string_view op_type) {
  const auto* const row = std::ranges::find(kRows, op_type, &FurtherDims::op_type);
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace ctxgen
