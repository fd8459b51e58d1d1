#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"
#include "window_attributes.h"

namespace ctxgen::onednn {

namespace {

struct DeconvAttributes {
  WindowAttributes window;  // pads resolved
  std::vector<std::int64_t> output_padding;
  std::int64_t group = 1;
};

Refusal check_channels(const NodeView& n, const Dims& weights, std::int64_t group) {
  if (group < 1 || weights[0] % group != 0) {
    return std::format("group {} does not divide {} input channels", group, weights[0]);
  }
  const Dim channels = n.input_dims(0)[1];
  if (channels.is_fixed() && channels.value() != weights[0]) {
    return std::format("input has {} channels, weights take {}", channels.value(), weights[0]);
  }
  const auto results = checked_element_count(Dims{weights[1], group});
  if (!results || *results > 1 << 24) return std::format("{} groups of {}", group, weights[1]);
  if (!n.has_input(2)) return std::nullopt;
  const auto bias = constant_f32(n, 2, "bias input");
  if (!bias) return bias.error();
  if ((*bias)->dims() != Dims{weights[1] * group}) {
    return std::format("bias has dims {}, expected [{}]", to_string((*bias)->dims()),
                       weights[1] * group);
  }
  return std::nullopt;
}

/// Pads that output_shape or SAME_* ask for; both need sizes that are known now.
Refusal resolve_pads(const NodeView& n, DeconvAttributes& params) {
  const auto wanted = n.node().ints("output_shape");
  if (!wanted && params.window.auto_pad.empty()) return std::nullopt;
  const std::vector<Dim> src = n.input_dims(0);
  const std::size_t k = params.window.kernel.size();
  // Older exporters wrote batch and channels too.
  if (wanted && wanted->size() != k && wanted->size() != k + 2) {
    return std::format("output_shape has {} values, expected {}", wanted->size(), k);
  }
  const bool upper = params.window.auto_pad == "SAME_UPPER";
  params.window.pads.assign(2 * k, 0);
  for (std::size_t i = 0; i < k; ++i) {
    if (!src[i + 2].is_fixed() || src[i + 2].value() > 1 << 24) {
      return "pads depend on a size that is not known";
    }
    const std::int64_t stride = params.window.strides[i];
    const std::int64_t out =
        wanted ? (*wanted)[wanted->size() - k + i] : src[i + 2].value() * stride;
    if (out < 1 || std::cmp_greater(out, kMaxTensorBytes)) {
      return std::format("output size {}", out);
    }
    const std::int64_t reach = (params.window.kernel[i] - 1) * params.window.dilations[i] + 1;
    const std::int64_t total =
        stride * (src[i + 2].value() - 1) + params.output_padding[i] + reach - out;
    if (total < 0) return std::format("output size {} needs negative pads", out);
    const std::int64_t less = total / 2;
    params.window.pads[i] = upper ? less : total - less;
    params.window.pads[i + k] = total - params.window.pads[i];
  }
  params.window.auto_pad.clear();
  return std::nullopt;
}

Read<DeconvAttributes> read_deconv(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  const Tensor* weights = CTXGEN_TRY(constant_f32(n, 1, "weight input"));
  const std::size_t rank = n.rank(0);
  if (rank < 3 || rank > 5) return refuse("rank {}, expected 3 to 5 (1 to 3 spatial dims)", rank);
  if (weights->rank() != rank) {
    return refuse("weights have rank {}, expected {}", weights->rank(), rank);
  }
  DeconvAttributes params;
  params.group = n.node().int_or("group", 1);
  if (Refusal refusal = check_channels(n, weights->dims(), params.group)) {
    return std::unexpected(*refusal);
  }
  params.window = CTXGEN_TRY(read_window(n, rank - 2, list_of(weights->dims().span().subspan(2))));
  params.output_padding.assign(rank - 2, 0);
  if (const auto given = n.node().ints("output_padding"); given && !given->empty()) {
    if (given->size() != rank - 2) return refuse("output_padding has {} values", given->size());
    params.output_padding = list_of(*given);
  }
  for (std::size_t i = 0; i < rank - 2; ++i) {
    const std::int64_t most = std::max(params.window.strides[i], params.window.dilations[i]);
    if (params.output_padding[i] < 0 || params.output_padding[i] >= most) {
      return refuse("output_padding {}, expected 0 to {}", params.output_padding[i], most - 1);
    }
  }
  CTXGEN_REFUSE(resolve_pads(n, params));
  return params;
}

/// ONNX has [C, M/group, K...]; the program [M, C/group, K...], flipped over K if asked.
Result<Tensor> convolution_weights(const Tensor& weights, std::int64_t group, bool flip) {
  const Dims& dims = weights.dims();
  const std::int64_t inputs = dims[0] / group, outputs = dims[1];
  std::int64_t taps = 1;
  for (std::size_t i = 2; i < dims.size(); ++i) taps *= dims[i];
  const std::vector<float> from = floats_of(weights);
  std::vector<float> to(from.size());
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t g = 0; g < group; ++g)
    for (std::int64_t o = 0; o < outputs; ++o)
      for (std::int64_t i = 0; i < inputs; ++i)
        for (std::int64_t t = 0; t < taps; ++t)
          to[at(((g * outputs + o) * inputs + i) * taps + (flip ? taps - 1 - t : t))] =
              from[at(((g * inputs + i) * outputs + o) * taps + t)];
  Dims result = dims;
  result[0] = outputs * group;
  result[1] = inputs;
  return tensor_of(result, to);
}

/// With strides of 1 it is a convolution with flipped weights, which has faster kernels: what the
/// pads leave out there is what a full convolution reaches beyond.
std::optional<WindowAttributes> as_convolution(const DeconvAttributes& params) {
  WindowAttributes window = params.window;
  const std::size_t k = window.kernel.size();
  for (std::size_t i = 0; i < k; ++i) {
    if (window.strides[i] != 1) return std::nullopt;
    const std::int64_t reach = (window.kernel[i] - 1) * window.dilations[i];
    window.pads[i] = reach - window.pads[i];
    window.pads[i + k] = reach - window.pads[i + k] + params.output_padding[i];
    if (window.pads[i] < 0 || window.pads[i + k] < 0) return std::nullopt;
  }
  return window;
}

}  // namespace

Refusal check_deconv(const NodeView& n) { return refusal_of(read_deconv(n)); }

Status lower_deconv(const NodeView& n, ProgramBuilder& builder) {
  const DeconvAttributes params = CTXGEN_TRY(accepted(read_deconv(n), n));
  const auto convolution = as_convolution(params);
  const Tensor weights =
      CTXGEN_TRY(convolution_weights(*n.constant(1), params.group, convolution.has_value()));
  ProgramOp op = builder.op(convolution ? kind::kConv : kind::kDeconv, n);
  if (convolution)
    encode(ConvParams{*convolution, params.group}, op);
  else
    encode(DeconvParams{{params.window, params.group}, params.output_padding}, op);
  builder.add(
      std::move(op),
      {builder.operand(n.input(0)), builder.weight(n.input_value(1).name + "/transposed", weights),
       builder.operand(n.input(2))},
      builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
