#include "kinds/own/depthwise_conv.h"

#include <utility>

#include "ctxgen/base/instruction_set.h"

#include "kernels/kernel_depthwise.h"
#include "kinds/own/own_finish.h"

namespace ctxgen::onednn {

using dnnl::memory;

std::optional<std::int64_t> depthwise_pitch(const memory::desc& md) {
  const memory::dims dims = md.get_dims();  // [G, M/G, C/G, K1, K2]
  if (dims.size() != 5 || dims[1] != 1 || dims[2] != 1 ||
      md.get_data_type() != memory::data_type::f32)
    return std::nullopt;
  for (const auto& [block, tag] :
       {std::pair(8, memory::format_tag::decbA8a), std::pair(16, memory::format_tag::decbA16a)})
    if (md == memory::desc(dims, memory::data_type::f32, tag))
      return (dims[0] + block - 1) / block * block;
  return std::nullopt;
}

bool takes_own_depthwise(const NodeBuilder& builder) {
  return builder.node().packed_weight != kNone && simd_level() >= SimdLevel::kAvx2 &&
         builder.input(0).type == DataType::kFloat && builder.output().type == DataType::kFloat &&
         builder.weight_type() == DataType::kFloat;
}

// Measured: docs/onednn.md, "Convolution".
bool prefers_own_depthwise() {
  return !includes(usable_instruction_set(), InstructionSet::kAvx512Core);
}

Status build_depthwise_conv(NodeBuilder& builder, const ConvOperands& conv,
                            const kernels::Windows& windows, const memory::desc& form) {
  const std::int64_t channels = builder.output().dims[1];
  OwnFinish finish(builder, 1, channels);
  CTXGEN_CHECK(finish.take());
  DepthwiseForm kernel;
  kernel.finish = finish.form();
  kernel.conv.windows = windows;
  kernel.conv.windows.channels = channels;
  kernel.conv.weight_pitch = depthwise_pitch(form).value_or(channels);
  kernel.conv.result_pitch = channels;
  const double flops = 2.0 * static_cast<double>(volume(builder.output().dims)) *
                       static_cast<double>(windows.kernel[0] * windows.kernel[1]);
  return finish.add("loop:depthwise",
                    make_depthwise_kernel(std::move(kernel), builder.context().threads),
                    {kNone, conv.weight, false, conv.logical, form}, {.flops = flops});
}

}  // namespace ctxgen::onednn
