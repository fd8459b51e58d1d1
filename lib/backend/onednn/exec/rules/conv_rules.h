#pragma once

#include <cstdint>
#include <vector>

#include "ctxgen/kernels/product.h"

#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "rules/spatial.h"
#include "rules/window.h"

// What convolutions of both directions share.
namespace ctxgen::onednn {

/// Source [N, C, D1..Dk], weights [M, C/group, K1..Kk] and bias? [M] fit each other.
/// Errors  UNSUPPORTED, INVALID_GRAPH.
[[nodiscard]] Status check_conv_inputs(const ProgramOp& op, ShapeInputs in, std::int64_t group);
/// [N, M, and what the window gives].
[[nodiscard]] ShapeOutputs conv_result(std::int64_t images, std::int64_t results,
                                       const Window& window);
/// The window of a convolution of one group over one or two spatial dims, whose weights are a matrix that windows of
/// `depth` elements are multiplied by. Errors  UNSUPPORTED, INVALID_GRAPH.
[[nodiscard]] Result<Window> window_of_matrix(const ProgramOp& op, const Dims& src,
                                              const IntList& kernel, const WindowParams& params,
                                              std::int64_t depth);
/// The spatial dims of the weights.
[[nodiscard]] IntList kernel_of(const Dims& weights);

/// The windows of a convolution over one or two spatial dims, those of each group.
[[nodiscard]] kernels::Windows windows_of(const Dims& src, const Window& window,
                                          std::int64_t group);
/// The same along a line where pixels, results and kernel are columns of one pixel's width: both lie in memory
/// alike, and kernels go along lines.
[[nodiscard]] kernels::Windows along_lines(kernels::Windows windows);

/// What a convolution hands to oneDNN.
struct ConvOperands {
  std::uint32_t weight = kNone;  // kNone: a value
  std::size_t rank = 0;          // of source and result
  dnnl::memory::desc src, dst, bias;
  dnnl::memory::desc logical;  // the weights as they are: [G, M/G, C/G, K1..Kk], or without G
  dnnl::memory::desc any;      // the same in the layout that oneDNN chooses
};
[[nodiscard]] ConvOperands conv_operands(const NodeBuilder& builder, std::int64_t group);

/// The primitive with these weights. `describe(weights, attr)` gives its descriptor.
template <class Primitive, class Describe>
[[nodiscard]] Status add_conv(NodeBuilder& builder, const ConvOperands& conv,
                              const dnnl::memory::desc& weights, const Describe& describe,
                              double flops) {
  const Slot& dst = builder.output();
  const auto make = [&](const dnnl::primitive_attr& attr) { return describe(weights, attr); };
  const auto args = [&](const typename Primitive::primitive_desc& pd) {
    std::vector<Arg> list{
        builder.slot_arg(DNNL_ARG_SRC, conv.src, builder.input(0)),
        builder.packed_arg(DNNL_ARG_WEIGHTS, {kNone, conv.weight, false, conv.logical,
                                              pd.weights_desc(), is_any(weights)}),
        builder.slot_arg(DNNL_ARG_DST, conv.dst, dst)};
    if (builder.has_input(2))
      list.push_back(builder.slot_arg(DNNL_ARG_BIAS, conv.bias, builder.input(2)));
    return list;
  };
  return builder.add_fused<Primitive>(
      make, args, [&](const Slot& operand) { return spatial_operand(operand, dst.dims); }, flops);
}

}  // namespace ctxgen::onednn
