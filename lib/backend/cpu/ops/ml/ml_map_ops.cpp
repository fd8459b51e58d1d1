#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "ops/values/sequence_memory.h"

// ai.onnx.ml: maps. A MapValue is two tensors, keys in ascending order and their values.

namespace ctxgen::cpu {
namespace {

// The keys in ascending order, and for each the column that it stands for.
struct SortedKeys {
  Tensor keys;
  std::vector<std::size_t> columns;
};

template <class Key>
Result<SortedKeys> sort_keys(const Node& node, const std::vector<Key>& labels) {
  SortedKeys sorted;
  sorted.columns.resize(labels.size());
  std::iota(sorted.columns.begin(), sorted.columns.end(), std::size_t{0});
  const auto label = [&labels](std::size_t column) -> const Key& { return labels[column]; };
  std::ranges::sort(sorted.columns, {}, label);
  const auto twice = std::ranges::adjacent_find(sorted.columns, {}, label);
  if (twice != sorted.columns.end())
    return fail(ErrorCode::kInvalidGraph, "{}: class label {} is there twice", node.describe(),
                labels[*twice]);
  sorted.keys =
      CTXGEN_TRY(Tensor::allocate(kElementTypeOf<Key>, {static_cast<std::int64_t>(labels.size())}));
  for (std::size_t i = 0; i < labels.size(); ++i)
    mutable_data_of<Key>(sorted.keys)[i] = labels[sorted.columns[i]];
  return sorted;
}

// ---- ZipMap ----

Result<std::shared_ptr<const MapValue>> map_of_row(KernelContext& context, const SortedKeys& keys,
                                                   std::span<const float> row) {
  Tensor values =
      CTXGEN_TRY(context.make_tensor(DataType::kFloat, {static_cast<std::int64_t>(row.size())}));
  for (std::size_t i = 0; i < row.size(); ++i)
    values.mutable_elements<float>()[i] = row[keys.columns[i]];
  return std::make_shared<const MapValue>(keys.keys, std::move(values));
}

KernelResult make_zip_map(const Node& node) {
  const auto strings = strings_or_empty(node, "classlabels_strings");
  const auto ints = ints_or(node, "classlabels_int64s", {});
  if (strings.empty() == ints.empty())
    return fail(ErrorCode::kInvalidGraph,
                "{}: expected one of classlabels_strings and classlabels_int64s", node.describe());
  const SortedKeys keys =
      strings.empty() ? CTXGEN_TRY(sort_keys(node, ints)) : CTXGEN_TRY(sort_keys(node, strings));
  return kernel([keys](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0, DataType::kFloat));
    CTXGEN_CHECK(expect_rank(*input, "input", 1, 2));
    const std::size_t width = keys.columns.size();
    if (input->dims().back() != static_cast<std::int64_t>(width))
      return fail(ErrorCode::kInvalidGraph, "input has shape {}, there are {} class labels",
                  to_string(input->dims()), width);
    const auto rows = static_cast<std::size_t>(input->rank() == 2 ? input->dims()[0] : 1);
    auto sequence = CTXGEN_TRY(new_sequence(context, rows));
    for (std::size_t r = 0; r < rows; ++r)
      sequence->items.emplace_back(CTXGEN_TRY(
          map_of_row(context, keys, input->elements<float>().subspan(r * width, width))));
    context.set_value(0, std::move(sequence));
    return {};
  });
}

// ---- maps as inputs ----

Result<const MapValue*> required_map(const KernelContext& context, std::size_t index) {
  const RuntimeValue* value = CTXGEN_TRY(required_value(context, index));
  if (value->kind() != RuntimeValue::Kind::kMap)
    return fail(ErrorCode::kInvalidGraph, "input {} is {}, expected a map", index,
                describe(*value));
  const MapValue& map = value->map();
  if (map.keys.rank() != 1 || !(map.keys.dims() == map.values.dims()))
    return fail(ErrorCode::kInvalidGraph, "a map of {} keys and {} values",
                to_string(map.keys.dims()), to_string(map.values.dims()));
  return &map;
}

// The values in the order of a vocabulary; what the map lacks is 0 or empty.
template <class Key>
Status vectorize(KernelContext& context, const MapValue& map, const std::vector<Key>& vocabulary) {
  if (map.keys.type() != kElementTypeOf<Key>)
    return fail(ErrorCode::kInvalidGraph, "a map from {}, the vocabulary is of {}",
                name_of(map.keys.type()), name_of(kElementTypeOf<Key>));
  Tensor* output = CTXGEN_TRY(
      context.make_output(0, map.values.type(), {1, static_cast<std::int64_t>(vocabulary.size())}));
  if (!output->is_string() && !output->bytes().empty())
    std::memset(output->mutable_bytes().data(), 0, output->bytes().size());
  const std::int64_t count = map.keys.element_count();
  for (std::int64_t i = 0; i < count; ++i) {
    const Key& key = data_of<Key>(map.keys)[i];
    for (std::size_t at = 0; at < vocabulary.size(); ++at)
      if (vocabulary[at] == key)
        copy_elements(map.values, i, *output, static_cast<std::int64_t>(at), 1);
  }
  return {};
}

KernelResult make_dict_vectorizer(const Node& node) {
  const auto strings = strings_or_empty(node, "string_vocabulary");
  const auto ints = ints_or(node, "int64_vocabulary", {});
  if (strings.empty() == ints.empty())
    return fail(ErrorCode::kInvalidGraph,
                "{}: expected one of string_vocabulary and int64_vocabulary", node.describe());
  return value_kernel([strings, ints](KernelContext& context) -> Status {
    const MapValue* map = CTXGEN_TRY(required_map(context, 0));
    return strings.empty() ? vectorize(context, *map, ints) : vectorize(context, *map, strings);
  });
}

// ---- CastMap ----

template <class To, class From>
Result<To> cast_value(const From& value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else if constexpr (std::is_same_v<To, std::string>) {
    return std::format("{}", value);
  } else if constexpr (std::is_same_v<From, std::string>) {
    double number = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc{} || stop != end)
      return fail(ErrorCode::kInvalidGraph, "expected a number, got \"{}\"", value);
    return cast_value<To>(number);
  } else if constexpr (std::is_integral_v<To>) {
    const auto number = static_cast<double>(value);
    if (!(number > -0x1p63 && number < 0x1p63))
      return fail(ErrorCode::kInvalidGraph, "{} is outside of int64", number);
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// Sparse: key k goes to place k, the rest is 0 or empty. Dense: values in the order of their keys.
template <class From, class To>
Status cast_map(KernelContext& context, const MapValue& map, std::optional<std::int64_t> width) {
  const auto keys = map.keys.elements<std::int64_t>();
  const auto count = static_cast<std::int64_t>(keys.size());
  Tensor* output =
      CTXGEN_TRY(context.make_output(0, kElementTypeOf<To>, {1, width.value_or(count)}));
  To* out = mutable_data_of<To>(*output);
  std::fill_n(out, output->element_count(), To());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = width ? keys[static_cast<std::size_t>(i)] : i;
    if (at < 0 || at >= width.value_or(count))
      return fail(ErrorCode::kInvalidGraph, "key {} is outside of max_map {}", at, *width);
    out[at] = CTXGEN_TRY((cast_value<To>(data_of<From>(map.values)[i])));
  }
  return {};
}

KernelResult make_cast_map(const Node& node) {
  const auto to =
      CTXGEN_TRY(one_of(node, "cast_to", "TO_FLOAT", {"TO_FLOAT", "TO_STRING", "TO_INT64"}));
  const auto form = CTXGEN_TRY(one_of(node, "map_form", "DENSE", {"DENSE", "SPARSE"}));
  std::optional<std::int64_t> width;
  if (form == "SPARSE") width = node.int_or("max_map", 1);
  if (width && *width < 1)
    return fail(ErrorCode::kInvalidGraph, "{}: max_map is {}", node.describe(), *width);
  return value_kernel([to, width](KernelContext& context) -> Status {
    const MapValue* map = CTXGEN_TRY(required_map(context, 0));
    if (map->keys.type() != DataType::kInt64)
      return fail(ErrorCode::kInvalidGraph, "a map from {}, expected int64",
                  name_of(map->keys.type()));
    return dispatch(Types<float, std::string>{}, map->values.type(), [&]<class From>() -> Status {
      if (to == "TO_FLOAT") return cast_map<From, float>(context, *map, width);
      if (to == "TO_INT64") return cast_map<From, std::int64_t>(context, *map, width);
      return cast_map<From, std::string>(context, *map, width);
    });
  });
}

constexpr OpRow kMlMapRows[] = {
    {kOnnxMl, "CastMap", 1, 1, make_cast_map, "maps from int64 to float32 and strings"},
    {kOnnxMl, "DictVectorizer", 1, 1, make_dict_vectorizer, "maps from int64 and strings"},
    {kOnnxMl, "ZipMap", 1, 1, make_zip_map, "float32; the output is a sequence of maps"},
};

}  // namespace

constinit const std::span<const OpRow> kMlMapOps = kMlMapRows;

}  // namespace ctxgen::cpu
