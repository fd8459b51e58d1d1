#include "families.h"
#include "kernel/value_kernel.h"

// Optionals. One that holds something is what it holds (RuntimeValue), so these do next to nothing.

namespace ctxgen::cpu {
namespace {

KernelResult make_optional(const Node& node) {
  if (node.inputs.empty() && node.attribute("type") == nullptr)
    return fail(ErrorCode::kInvalidGraph, "{}: neither input nor attribute \"type\"",
                node.describe());
  return value_kernel([](KernelContext& context) -> Status {
    const RuntimeValue* value = optional_value(context, 0);
    context.set_value(0, value != nullptr ? *value : RuntimeValue::empty_optional());
    return {};
  });
}

KernelResult make_get(const Node&) {
  return value_kernel([](KernelContext& context) -> Status {
    const RuntimeValue* value = CTXGEN_TRY(required_value(context, 0));
    if (value->kind() == RuntimeValue::Kind::kEmptyOptional)
      return fail(ErrorCode::kInvalidGraph, "the optional is empty");
    context.set_value(0, *value);
    return {};
  });
}

KernelResult make_has(const Node&) {
  return value_kernel([](KernelContext& context) -> Status {
    const RuntimeValue* value = optional_value(context, 0);
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kBool, {}));
    const bool has = value != nullptr && value->kind() != RuntimeValue::Kind::kEmptyOptional;
    output->mutable_bytes()[0] = std::byte{has};
    return {};
  });
}

constexpr OpRow kOptionalRows[] = {
    {kOnnx, "Optional", 15, 15, make_optional, "all types"},
    {kOnnx, "OptionalGetElement", 15, 18, make_get, "all types"},
    {kOnnx, "OptionalHasElement", 15, 18, make_has, "all types"},
};

}  // namespace

constinit const std::span<const OpRow> kOptionalOps = kOptionalRows;

}  // namespace ctxgen::cpu
