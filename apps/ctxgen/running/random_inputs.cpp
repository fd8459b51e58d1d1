#include "running/random_inputs.h"

#include <algorithm>
#include <format>
#include <string>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/half.h"
#include "ctxgen/base/memory_account.h"
#include "ctxgen/base/memory_limit.h"
#include "ctxgen/base/suggest.h"

namespace ctxgen::cli {
namespace {

/// SplitMix64: tiny, seedable and the same everywhere, unlike std::default_random_engine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  double symmetric() { return static_cast<double>(next() >> 11U) * 0x1p-52 - 1.0; }  // [-1, 1)
  bool coin() { return (next() >> 63U) != 0; }

 private:
  std::uint64_t state_;
};

template <class T, class Make>
void fill(Tensor& tensor, Make make) {
  for (T& element : tensor.mutable_elements<T>()) element = make();
}

Status fill_random(Tensor& tensor, Random random, const IoInfo& info) {
  const auto value = [&] { return random.symmetric(); };
  const auto half = [&] { return float_to_float16(static_cast<float>(random.symmetric())); };
  const auto brain = [&] { return float_to_bfloat16(static_cast<float>(random.symmetric())); };
  const auto coin = [&] { return random.coin() ? 1 : 0; };
  switch (tensor.type()) {
    case DataType::kFloat: fill<float>(tensor, [&] { return static_cast<float>(value()); }); break;
    case DataType::kDouble: fill<double>(tensor, value); break;
    case DataType::kFloat16: fill<std::uint16_t>(tensor, half); break;
    case DataType::kBfloat16: fill<std::uint16_t>(tensor, brain); break;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool:
      fill<std::uint8_t>(tensor, [&] { return static_cast<std::uint8_t>(coin()); });
      break;
    case DataType::kInt16:
    case DataType::kUint16:
      fill<std::uint16_t>(tensor, [&] { return static_cast<std::uint16_t>(coin()); });
      break;
    case DataType::kInt32:
    case DataType::kUint32:
      fill<std::uint32_t>(tensor, [&] { return static_cast<std::uint32_t>(coin()); });
      break;
    case DataType::kInt64:
    case DataType::kUint64:
      fill<std::uint64_t>(tensor, [&] { return static_cast<std::uint64_t>(coin()); });
      break;
    case DataType::kString: break;  // empty strings
    default:
      return fail(ErrorCode::kInvalidArgument,
                  "input \"{}\" ({}) cannot be filled with random values: give --input", info.name,
                  info.type_text);
  }
  return {};
}

/// Counts a tensor before it is made: filling it asks for all the memory that its dims declare.
Status charge(MemoryAccount& memory, const IoInfo& info, const Dims& dims) {
  const auto count = checked_element_count(dims);
  const auto bytes = info.type.element == DataType::kString
                         ? checked_mul(count.value_or(UINT64_MAX), sizeof(std::string))
                         : checked_size_bytes(info.type.element, dims);
  Status status = memory.charge(bytes.value_or(UINT64_MAX));
  if (status) return {};
  return std::unexpected(with_context(
      std::move(status).error(), std::format("random values of input \"{}\" ({} {})", info.name,
                                             name_of(info.type.element), to_string(dims))));
}

std::vector<std::string> names_of(std::span<const IoInfo> infos) {
  std::vector<std::string> names;
  for (const IoInfo& info : infos) names.push_back(info.name);
  return names;
}

std::vector<std::string> dims_of(std::span<const IoInfo> infos) {
  std::vector<std::string> names;
  for (const IoInfo& info : infos)
    for (const std::string& name : info.dim_names)
      if (!name.empty() && !std::ranges::contains(names, name)) names.push_back(name);
  return names;
}

Status check_names(std::span<const IoInfo> infos, const ShapeProfile& shapes) {
  for (const auto& [name, dims] : shapes.inputs)
    if (std::ranges::find(infos, name, &IoInfo::name) == infos.end())
      return fail(ErrorCode::kInvalidArgument,
                  "--shape: the model has no input \"{}\"; it has: {}{}", name,
                  list_text(names_of(infos)), did_you_mean(name, names_of(infos)));
  for (const auto& [name, size] : shapes.symbols) {
    const bool known = std::ranges::any_of(
        infos, [&](const IoInfo& info) { return std::ranges::contains(info.dim_names, name); });
    if (!known)
      return fail(ErrorCode::kInvalidArgument,
                  "--dim: no input of the model has the dimension \"{}\"; there are: {}{}", name,
                  list_text(dims_of(infos)), did_you_mean(name, dims_of(infos)));
  }
  return {};
}

/// What --shape gives for an input, held against the dims that the model fixes.
Status check_shape(const IoInfo& info, const Dims& dims) {
  if (!info.type.has_rank()) return {};
  if (dims.size() != info.type.rank())
    return fail(ErrorCode::kInvalidArgument,
                "--shape: input \"{}\" is {}: expected {} sizes, got {}{}", info.name,
                info.type_text, info.type.rank(), dims.size(),
                dims.size() == 1 ? "; x joins sizes (1x3x224x224), a comma separates shapes" : "");
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (const Dim& dim = (*info.type.shape)[i]; dim.is_fixed() && dim.value() != dims[i])
      return fail(ErrorCode::kInvalidArgument,
                  "--shape: input \"{}\" is {}: expected {} as size {}, got {}", info.name,
                  info.type_text, dim.value(), i + 1, dims[i]);
  return {};
}

}  // namespace

Result<Dims> input_dims(const IoInfo& info, const ShapeProfile& shapes) {
  for (const auto& [name, dims] : shapes.inputs)
    if (name == info.name) {
      CTXGEN_CHECK(check_shape(info, dims));
      return dims;
    }
  if (!info.type.has_rank())
    return fail(ErrorCode::kInvalidArgument, "input \"{}\" ({}) has no rank: give --shape",
                info.name, info.type_text);
  Dims dims;
  for (std::size_t i = 0; i < info.type.rank(); ++i) {
    const Dim& dim = (*info.type.shape)[i];
    std::int64_t size = dim.is_fixed() ? dim.value() : 1;
    if (dim.is_symbol())
      for (const auto& [name, value] : shapes.symbols)
        if (name == info.dim_names[i]) size = value;
    dims.push_back(size);
  }
  return dims;
}

Result<std::vector<NamedTensor>> random_inputs(std::span<const IoInfo> infos,
                                               std::span<const std::string> given,
                                               const ShapeProfile& shapes, std::uint64_t seed) {
  CTXGEN_CHECK(check_names(infos, shapes));
  std::vector<NamedTensor> inputs;
  MemoryAccount memory(default_memory_limit_bytes());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const IoInfo& info = infos[i];
    if (info.has_default || std::ranges::contains(given, info.name)) continue;
    if (info.type.kind == ValueType::Kind::kOptional) continue;
    if (info.type.kind != ValueType::Kind::kTensor)
      return fail(ErrorCode::kInvalidArgument,
                  "input \"{}\" ({}) cannot be filled with random values: give --input", info.name,
                  info.type_text);
    const Dims dims = CTXGEN_TRY(input_dims(info, shapes));
    CTXGEN_CHECK(charge(memory, info, dims));
    Tensor tensor = CTXGEN_TRY(Tensor::allocate(info.type.element, dims));
    CTXGEN_CHECK(fill_random(tensor, Random(seed * 0x9e3779b97f4a7c15U + i), info));
    inputs.push_back({info.name, std::move(tensor)});
  }
  return inputs;
}

}  // namespace ctxgen::cli
