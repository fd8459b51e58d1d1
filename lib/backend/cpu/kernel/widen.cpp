#include "kernel/widen.h"

namespace ctxgen::cpu {
namespace {

bool is_short(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

/// A float copy.
Result<Tensor> to_float(KernelContext& context, const Tensor& tensor) {
  Tensor wide = CTXGEN_TRY(context.make_tensor(DataType::kFloat, tensor.dims()));
  const auto from = tensor.elements<std::uint16_t>();
  const auto to = wide.mutable_elements<float>();
  if (tensor.type() == DataType::kFloat16)
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = float16_to_float(from[i]);
  else
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = bfloat16_to_float(from[i]);
  return wide;
}

}  // namespace

Result<Tensor> widened(KernelContext& context, const Tensor& tensor) {
  if (tensor.type() == DataType::kFloat) return tensor;
  if (!is_short(tensor.type()))
    return fail(ErrorCode::kUnsupported, "element type {} is not supported here",
                name_of(tensor.type()));
  return to_float(context, tensor);
}

void narrow_into(const Tensor& from, Tensor& to) {
  const auto source = from.elements<float>();
  const auto target = to.mutable_elements<std::uint16_t>();
  if (to.type() == DataType::kFloat16)
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = float_to_float16(source[i]);
  else
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = float_to_bfloat16(source[i]);
}

WidenedContext::WidenedContext(KernelContext& inner, DataType narrow)
    : ForwardingContext(inner),
      narrow_(narrow),
      inputs_(inner.input_count()),
      outputs_(inner.output_count()) {}

WidenedContext::~WidenedContext() {
  for (Tensor& input : inputs_) inner().recycle(std::move(input));
  for (WideOutput& output : outputs_) inner().recycle(std::move(output.wide));
}

Status WidenedContext::widen_inputs() {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (const Tensor* tensor = inner().input(i); tensor != nullptr && is_short(tensor->type()))
      inputs_[i] = CTXGEN_TRY(to_float(inner(), *tensor));
  return {};
}

const Tensor* WidenedContext::input(std::size_t index) const {
  return inputs_[index].defined() ? &inputs_[index] : inner().input(index);
}

Result<Tensor*> WidenedContext::make_output(std::size_t index, DataType type, const Dims& dims) {
  if (type != DataType::kFloat || index >= outputs_.size())
    return inner().make_output(index, type, dims);
  outputs_[index].narrow = CTXGEN_TRY(inner().make_output(index, narrow_, dims));
  outputs_[index].wide = CTXGEN_TRY(inner().make_tensor(type, dims));
  return &outputs_[index].wide;
}

void WidenedContext::set_output(std::size_t index, Tensor tensor) {
  if (tensor.type() == DataType::kFloat && index < outputs_.size())
    outputs_[index] = {.wide = std::move(tensor), .narrow = nullptr};
  else
    inner().set_output(index, std::move(tensor));
}

Status WidenedContext::finish() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    WideOutput& output = outputs_[i];
    if (!output.wide.defined()) continue;
    if (output.narrow == nullptr)
      output.narrow = CTXGEN_TRY(inner().make_output(i, narrow_, output.wide.dims()));
    narrow_into(output.wide, *output.narrow);
  }
  return {};
}

}  // namespace ctxgen::cpu
