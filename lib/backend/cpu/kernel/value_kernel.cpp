#include "kernel/value_kernel.h"

#include "kernel/attributes.h"

namespace ctxgen::cpu {

const RuntimeValue* optional_value(const KernelContext& context, std::size_t index) {
  return index < context.input_count() ? context.value(index) : nullptr;
}

Result<const RuntimeValue*> required_value(const KernelContext& context, std::size_t index) {
  const RuntimeValue* value = optional_value(context, index);
  if (value == nullptr) return fail(ErrorCode::kInvalidGraph, "input {} is missing", index);
  return value;
}

Result<const SequenceValue*> required_sequence(const KernelContext& context, std::size_t index) {
  const RuntimeValue* value = CTXGEN_TRY(required_value(context, index));
  if (value->kind() != RuntimeValue::Kind::kSequence)
    return fail(ErrorCode::kInvalidGraph, "input {} is {}, expected a sequence", index,
                describe(*value));
  return &value->sequence();
}

Result<const Tensor*> tensor_of(const RuntimeValue& value, std::string_view what) {
  if (!value.is_tensor())
    return fail(ErrorCode::kInvalidGraph, "{} is not a tensor, but {}", what, describe(value));
  return &value.tensor();
}

Result<bool> bool_of(const RuntimeValue& value, std::string_view what) {
  const Tensor* tensor = CTXGEN_TRY(tensor_of(value, what));
  if (tensor->type() != DataType::kBool || tensor->element_count() != 1)
    return fail(ErrorCode::kInvalidGraph, "{} is {}, expected one bool", what, describe(value));
  return tensor->bytes()[0] != std::byte{0};
}

Result<std::shared_ptr<const Graph>> graph_attribute(const Node& node, std::string_view name) {
  const Attribute* attribute = node.attribute(name);
  if (attribute == nullptr || attribute->graphs.size() != 1)
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" holds no graph", node.describe(),
                name);
  return attribute->graphs.front();
}

Status make_empty_output(KernelContext& context, std::size_t index, const ValueType& type,
                         const Dims& lead, std::size_t axis) {
  if (!context.output_wanted(index)) return {};
  if (!type.is_tensor() || type.element == DataType::kUndefined)
    return fail(ErrorCode::kInvalidGraph,
                "output {} has no element: its body declares no type and was not run", index);
  Dims dims;
  const std::size_t rank = type.has_rank() ? type.rank() : 0;
  if (rank + lead.size() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "rank {} is above {}", rank + lead.size(), kMaxRank);
  for (std::size_t i = 0; i <= rank; ++i) {
    if (i == std::min(axis, rank))
      for (const std::int64_t dim : lead) dims.push_back(dim);
    if (i < rank) dims.push_back((*type.shape)[i].is_fixed() ? (*type.shape)[i].value() : 0);
  }
  Tensor* output = CTXGEN_TRY(context.make_output(index, type.element, dims));
  if (!output->is_string() && !output->bytes().empty())  // no sequence of a batch has an element
    std::memset(output->mutable_bytes().data(), 0, output->bytes().size());
  return {};
}

}  // namespace ctxgen::cpu
