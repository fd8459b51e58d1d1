#include <cstring>

#include "read/import_context.h"

namespace ctxgen {
namespace {

template <class T>
Result<Tensor> numbers(const Dims& dims, std::span<const T> values) {
  Tensor tensor = CTXGEN_TRY(Tensor::allocate(kDataTypeOf<T>, dims));
  if (!values.empty())
    std::memcpy(tensor.mutable_bytes().data(), values.data(), values.size_bytes());
  return tensor;
}

Dims length_of(std::size_t count) { return Dims{static_cast<std::int64_t>(count)}; }

}  // namespace

Result<Tensor> constant_of(const Node& node) {
  for (const Attribute& a : node.attributes) {
    using Kind = AttributeKind;
    if (a.name == "value" && a.kind == Kind::kTensor) return a.tensors.at(0);
    if (a.name == "sparse_value" && a.kind == Kind::kSparseTensor) return a.tensors.at(0);
    if (a.name == "value_float" && a.kind == Kind::kFloat)
      return numbers<float>({}, std::span(&a.f, 1));
    if (a.name == "value_int" && a.kind == Kind::kInt)
      return numbers<std::int64_t>({}, std::span(&a.i, 1));
    if (a.name == "value_string" && a.kind == Kind::kString) return Tensor::of_strings({}, {a.s});
    if (a.name == "value_floats" && a.kind == Kind::kFloats)
      return numbers<float>(length_of(a.floats.size()), a.floats);
    if (a.name == "value_ints" && a.kind == Kind::kInts)
      return numbers<std::int64_t>(length_of(a.ints.size()), a.ints);
    if (a.name == "value_strings" && a.kind == Kind::kStrings)
      return Tensor::of_strings(length_of(a.strings.size()), a.strings);
  }
  return fail(ErrorCode::kInvalidGraph, "node \"{}\" (Constant): no value", node.name);
}

}  // namespace ctxgen
