#include <bit>
#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "kernel/string_memory.h"

// ai.onnx.ml: tables from labels to labels.

namespace ctxgen::cpu {
namespace {

using LabelTypes = Types<float, double, std::int16_t, std::int32_t, std::int64_t>;

constexpr std::uint64_t kNan = UINT64_MAX;

// Equal numbers have equal codes: NaN is one key (since version 4), and so is zero.
template <class T>
std::uint64_t code_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return kNan;
    return std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : static_cast<double>(value));
  } else {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  }
}

// Finds the position of a label among the keys.
class Keys {
 public:
  [[nodiscard]] static Result<Keys> of(const Tensor& keys, bool with_nan = true) {
    Keys made;
    made.type_ = keys.type();
    const auto count = static_cast<std::size_t>(keys.element_count());
    for (std::size_t i = 0; keys.is_string() && i < count; ++i)
      made.strings_.insert_or_assign(keys.strings()[i], i);
    if (keys.is_string()) return made;
    CTXGEN_CHECK(dispatch(LabelTypes{}, keys.type(), [&]<class T>() -> Status {
      for (std::size_t i = 0; i < count; ++i)
        made.numbers_.insert_or_assign(code_of(keys.elements<T>()[i]), i);
      if (std::is_floating_point_v<T> && !with_nan) made.numbers_.erase(kNan);
      return {};
    }));
    return made;
  }
  // Calls put(i, position), or missing(i), for each element.
  template <class Put, class Missing>
  [[nodiscard]] Status look_up(const Tensor& input, Put put, Missing missing) const {
    if (input.type() != type_)
      return fail(ErrorCode::kInvalidGraph, "input is {}, the keys are {}", name_of(input.type()),
                  name_of(type_));
    const auto report = [&](std::int64_t i, const auto& table, const auto& key) {
      const auto found = table.find(key);
      if (found == table.end())
        missing(i);
      else
        put(i, static_cast<std::int64_t>(found->second));
    };
    if (input.is_string()) {
      for (std::int64_t i = 0; i < input.element_count(); ++i)
        report(i, strings_, input.strings()[static_cast<std::size_t>(i)]);
      return {};
    }
    return dispatch(LabelTypes{}, type_, [&]<class T>() -> Status {
      for (std::int64_t i = 0; i < input.element_count(); ++i)
        report(i, numbers_, code_of(data_of<T>(input)[i]));
      return {};
    });
  }

 private:
  DataType type_ = DataType::kUndefined;
  std::unordered_map<std::string, std::size_t> strings_;
  std::unordered_map<std::uint64_t, std::size_t> numbers_;
};

struct LabelTable {
  Keys keys;
  Tensor values;
  Tensor otherwise;                 // one element
  std::uint64_t longest_bytes = 0;  // of strings among them

  LabelTable(Keys k, Tensor v, Tensor o)
      : keys(std::move(k)), values(std::move(v)), otherwise(std::move(o)) {
    if (values.is_string())
      longest_bytes = std::max(longest_of(values.strings()), longest_of(otherwise.strings()));
  }
  [[nodiscard]] Status run(KernelContext& context) const {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(require_whole_bytes(values));
    if (values.is_string()) CTXGEN_CHECK(check_strings(context, input->dims(), longest_bytes));
    Tensor* output = CTXGEN_TRY(context.make_output(0, values.type(), input->dims()));
    return keys.look_up(
        *input, [&](auto i, auto at) { copy_elements(values, at, *output, i, 1); },
        [&](auto i) { copy_elements(otherwise, 0, *output, i, 1); });
  }
};

template <class T>
Result<Tensor> tensor_of_list(const std::vector<T>& list) {
  Tensor tensor =
      CTXGEN_TRY(Tensor::allocate(kElementTypeOf<T>, {static_cast<std::int64_t>(list.size())}));
  std::ranges::copy(list, mutable_data_of<T>(tensor));
  return tensor;
}

// The attribute `<prefix>strings`, `<prefix>int64s`, `<prefix>floats` or `<prefix>tensor`.
Result<Tensor> list_of(const Node& node, const std::string& prefix) {
  const Attribute* tensor = node.attribute(prefix + "tensor");
  if (tensor != nullptr && tensor->tensors.size() == 1) return tensor->tensors.front().aligned();
  if (node.attribute(prefix + "strings") != nullptr)
    return tensor_of_list(strings_or_empty(node, prefix + "strings"));
  if (node.attribute(prefix + "int64s") != nullptr)
    return tensor_of_list(ints_or(node, prefix + "int64s", {}));
  if (node.attribute(prefix + "floats") != nullptr)
    return tensor_of_list(floats_or_empty(node, prefix + "floats"));
  return fail(ErrorCode::kInvalidGraph, "{}: has no {}* attribute", node.describe(), prefix);
}

Result<Tensor> default_of(const Node& node, DataType type) {
  const Attribute* tensor = node.attribute("default_tensor");
  if (tensor != nullptr && tensor->tensors.size() == 1) {
    const Tensor& given = tensor->tensors.front();
    if (given.type() != type || given.element_count() != 1)
      return fail(ErrorCode::kInvalidGraph, "{}: default_tensor is {} {}, expected one {}",
                  node.describe(), name_of(given.type()), to_string(given.dims()), name_of(type));
    return given.aligned();
  }
  if (type == DataType::kString)
    return tensor_of_list(std::vector{std::string(node.string_or("default_string", "_Unused"))});
  Tensor made = CTXGEN_TRY(Tensor::allocate(type, {1}));
  CTXGEN_CHECK(dispatch(LabelTypes{}, type, [&]<class T>() -> Status {
    if constexpr (std::is_floating_point_v<T>)
      *mutable_data_of<T>(made) = static_cast<T>(node.float_or("default_float", -0.0F));
    else
      *mutable_data_of<T>(made) = static_cast<T>(node.int_or("default_int64", -1));
    return {};
  }));
  return made;
}

KernelResult make_label_encoder(const Node& node) {
  const Tensor keys = CTXGEN_TRY(list_of(node, "keys_"));
  const Tensor values = CTXGEN_TRY(list_of(node, "values_"));
  if (keys.element_count() != values.element_count())
    return fail(ErrorCode::kInvalidGraph, "{}: {} keys, {} values", node.describe(),
                keys.element_count(), values.element_count());
  Keys places = CTXGEN_TRY(Keys::of(keys, node.opset >= 4));
  Tensor otherwise = CTXGEN_TRY(default_of(node, values.type()));
  const LabelTable table(std::move(places), values, std::move(otherwise));
  return kernel([table](KernelContext& context) { return table.run(context); });
}

// Strings to integers or back, as the input asks.
KernelResult make_two_way(const Node& node, const Tensor& strings, const Tensor& ints) {
  Keys of_strings = CTXGEN_TRY(Keys::of(strings));
  Keys of_ints = CTXGEN_TRY(Keys::of(ints));
  Tensor no_int = CTXGEN_TRY(default_of(node, DataType::kInt64));
  Tensor no_string = CTXGEN_TRY(default_of(node, DataType::kString));
  const LabelTable to_int(std::move(of_strings), ints, std::move(no_int));
  const LabelTable to_string(std::move(of_ints), strings, std::move(no_string));
  return kernel([to_int, to_string](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    return input->is_string() ? to_int.run(context) : to_string.run(context);
  });
}

// Version 1: the classes stand for their positions.
KernelResult make_label_encoder_1(const Node& node) {
  const auto classes = strings_or_empty(node, "classes_strings");
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < classes.size(); ++i)
    positions.push_back(static_cast<std::int64_t>(i));
  return make_two_way(node, CTXGEN_TRY(tensor_of_list(classes)),
                      CTXGEN_TRY(tensor_of_list(positions)));
}

KernelResult make_category_mapper(const Node& node) {
  const auto strings = strings_or_empty(node, "cats_strings");
  const auto ints = ints_or(node, "cats_int64s", {});
  if (strings.size() != ints.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} cats_strings, {} cats_int64s", node.describe(),
                strings.size(), ints.size());
  return make_two_way(node, CTXGEN_TRY(tensor_of_list(strings)), CTXGEN_TRY(tensor_of_list(ints)));
}

constexpr OpRow kMlLabelRows[] = {
    {kOnnxMl, "CategoryMapper", 1, 1, make_category_mapper, "strings to int64 and back"},
    {kOnnxMl, "LabelEncoder", 1, 1, make_label_encoder_1, "strings to int64 and back"},
    {kOnnxMl, "LabelEncoder", 2, 4, make_label_encoder,
     "strings, float32, float64, int16, int32, int64"},
};

}  // namespace

constinit const std::span<const OpRow> kMlLabelOps = kMlLabelRows;

}  // namespace ctxgen::cpu
