#pragma once

#include <vector>

#include "kernel/forwarding_context.h"
#include "kernel/function_kernel.h"

// Kernels written for float run on 16-bit floats through float copies of their inputs.

namespace ctxgen::cpu {

/// Shows inputs of type float16 and bfloat16 as float; outputs that the kernel makes as float
/// become `narrow` when finish() is called.
class WidenedContext final : public ForwardingContext {
 public:
  WidenedContext(KernelContext& inner, DataType narrow);
  ~WidenedContext() override;
  [[nodiscard]] Status widen_inputs();
  [[nodiscard]] Status finish();

  [[nodiscard]] const Tensor* input(std::size_t index) const override;
  [[nodiscard]] Result<Tensor*> make_output(std::size_t index, DataType type,
                                            const Dims& dims) override;
  void set_output(std::size_t index, Tensor tensor) override;

 private:
  DataType narrow_;
  ScratchVector<Tensor> inputs_;  // undefined: as it is
  // Floats, and where they go when they are done. The narrow one is made first, so that the inner
  // context can refuse its size.
  struct WideOutput {
    Tensor wide;
    Tensor* narrow = nullptr;
  };
  ScratchVector<WideOutput> outputs_;
};

/// The tensor as floats: itself, or a copy of 16-bit floats.
/// Errors  UNSUPPORTED for other types.
[[nodiscard]] Result<Tensor> widened(KernelContext& context, const Tensor& tensor);

/// `to` has the dims of `from`, and is float16 or bfloat16.
void narrow_into(const Tensor& from, Tensor& to);

/// Runs f(context) as it is, or on widened inputs if input `index` is a 16-bit float.
template <class F>
[[nodiscard]] Status run_widened(KernelContext& context, F&& f, std::size_t index = 0) {
  const Tensor* tensor = optional_input(context, index);
  if (tensor == nullptr ||
      (tensor->type() != DataType::kFloat16 && tensor->type() != DataType::kBfloat16))
    return f(context);
  WidenedContext widened(context, tensor->type());
  CTXGEN_CHECK(widened.widen_inputs());
  CTXGEN_CHECK(f(widened));
  return widened.finish();
}

/// A kernel of f that takes 16-bit floats through float.
template <class F>
[[nodiscard]] KernelResult widened_kernel(F f, std::size_t index = 0) {
  return kernel(
      [f = std::move(f), index](KernelContext& context) { return run_widened(context, f, index); });
}

}  // namespace ctxgen::cpu
