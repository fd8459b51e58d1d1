#include "families.h"
#include "kernel/widen.h"
#include "ops/nn/convolution.h"

namespace ctxgen::cpu {
namespace {

struct ConvParams {
  WindowAttributes window;
  std::int64_t groups = 1;
};

Status run_conv(KernelContext& context, const ConvParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const Tensor* weights = CTXGEN_TRY(required(context, 1, input->type()));
  const Tensor* bias = optional_input(context, 2);
  const auto shape =
      CTXGEN_TRY(conv_shape(params.window, params.groups, input->dims(), weights->dims()));
  if (bias != nullptr) {
    CTXGEN_CHECK(same_type(*input, *bias));
    // ONNX Runtime takes any shape of that many elements.
    if (bias->element_count() != shape.out_channels)
      CTXGEN_CHECK(expect_dims(*bias, "bias", {shape.out_channels}));
  }
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), shape.output));
  return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
    const std::int64_t positions = element_count(shape.window.outputs());
    const std::int64_t image = product(input->dims(), 1, input->rank());
    for (std::int64_t n = 0; n < shape.batch; ++n) {
      T* to = mutable_data_of<T>(*output) + n * shape.out_channels * positions;
      convolve<T>(shape, data_of<T>(*input) + n * image, data_of<T>(*weights),
                  [&](std::int64_t m, std::int64_t at, const double* sums, std::int64_t count) {
                    const double addend = bias == nullptr ? 0 : data_of<T>(*bias)[m];
                    for (std::int64_t j = 0; j < count; ++j)
                      to[m * positions + at + j] = static_cast<T>(sums[j] + addend);
                  });
    }
    return {};
  });
}

KernelResult make_conv(const Node& node) {
  const ConvParams params{CTXGEN_TRY(window_attributes(node)), node.int_or("group", 1)};
  return widened_kernel([params](KernelContext& context) { return run_conv(context, params); });
}

constexpr OpRow kConvRows[] = {
    {kOnnx, "Conv", 1, 22, make_conv, "floats; 1 and more spatial axes"},
};

}  // namespace

constinit const std::span<const OpRow> kConvOps = kConvRows;

}  // namespace ctxgen::cpu
