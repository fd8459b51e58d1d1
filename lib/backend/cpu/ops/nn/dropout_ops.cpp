#include <algorithm>
#include <optional>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "numbers/random_stream.h"

namespace ctxgen::cpu {
namespace {

// A mask of ones, of type bool, or of the data's type where those were the rules.
Status put_full_mask(KernelContext& context, DataType type, const Dims& dims) {
  if (!context.output_wanted(1)) return {};
  Tensor* mask = CTXGEN_TRY(context.make_output(1, type, dims));
  return dispatch(Types<float, double, Half, Bf16, Bit>{}, type, [&]<class T>() -> Status {
    std::fill_n(mutable_data_of<T>(*mask), mask->element_count(), store<T>(1.0f));
    return {};
  });
}

// Each element is dropped with the probability `ratio`; the others grow by what is lost on average.
Status drop(KernelContext& context, const Tensor& input, double ratio,
            std::optional<std::uint32_t> seed) {
  Tensor* output = CTXGEN_TRY(context.make_output(0, input.type(), input.dims()));
  Bit* mask = nullptr;
  if (context.output_wanted(1)) {
    Tensor* made = CTXGEN_TRY(context.make_output(1, DataType::kBool, input.dims()));
    mask = mutable_data_of<Bit>(*made);
  }
  RandomStream stream(seed);
  return dispatch(RealTypes{}, input.type(), [&]<class T>() -> Status {
    for (std::int64_t i = 0; i < input.element_count(); ++i) {
      const bool kept = stream.uniform() >= ratio;
      const auto value = static_cast<double>(load(data_of<T>(input)[i]));
      mutable_data_of<T>(*output)[i] = store<T>(kept ? value / (1 - ratio) : 0.0);
      if (mask != nullptr) mask[i] = Bit(kept);
    }
    return {};
  });
}

KernelResult make_dropout(const Node& node) {
  const bool mask_is_data = node.opset < 10;  // before that the mask has the type of the data
  const bool training_input = node.opset >= 12;
  std::optional<std::uint32_t> seed;
  if (node.attribute("seed") != nullptr) seed = static_cast<std::uint32_t>(node.int_or("seed", 0));
  return kernel([=](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const Tensor* training = training_input ? optional_input(context, 2) : nullptr;
    if (training != nullptr && CTXGEN_TRY(scalar_of(*training)) != 0) {
      const Tensor* given = optional_input(context, 1);
      const double ratio = given == nullptr ? 0.5 : CTXGEN_TRY(scalar_of(*given));
      if (!(ratio >= 0 && ratio < 1)) return fail(ErrorCode::kInvalidGraph, "ratio is {}", ratio);
      if (ratio > 0) return drop(context, *input, ratio, seed);
    }
    context.set_output(0, *input);
    return put_full_mask(context, mask_is_data ? input->type() : DataType::kBool, input->dims());
  });
}

constexpr OpRow kDropoutRows[] = {
    {kOnnx, "Dropout", 1, 22, make_dropout, "floats; a seed gives the same mask in every run"},
};

}  // namespace

constinit const std::span<const OpRow> kDropoutOps = kDropoutRows;

}  // namespace ctxgen::cpu
