#pragma once

#include "kernel/function_kernel.h"

namespace ctxgen::cpu {

/// out[i] = f(in[i]) for the element types of List; f takes and gives Compute<T>.
template <class List, class F>
[[nodiscard]] Status map_elements(KernelContext& context, const F& f) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
  return dispatch(List{}, input->type(), [&]<class T>() -> Status {
    const T* from = data_of<T>(*input);
    T* to = mutable_data_of<T>(*output);
    const std::int64_t count = input->element_count();
    for (std::int64_t i = 0; i < count; ++i) to[i] = store<T>(f(load(from[i])));
    return {};
  });
}

template <class List, class F>
[[nodiscard]] KernelResult map_kernel(F f) {
  return kernel([f](KernelContext& context) { return map_elements<List>(context, f); });
}

}  // namespace ctxgen::cpu
