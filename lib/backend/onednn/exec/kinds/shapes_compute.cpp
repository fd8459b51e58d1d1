#include <algorithm>

#include "kinds/deconv_window.h"
#include "kinds/shape_functions.h"
#include "plan/params.h"

// Shapes of deconv, reduce, group_norm and rnn.
namespace ctxgen::onednn {

Result<Window> resolve_deconv_window(const ProgramOp& op, const Dims& src,
                                     std::vector<std::int64_t> kernel) {
  const Params params(op);
  const std::size_t k = kernel.size();
  Window w;
  w.kernel = std::move(kernel);
  w.strides = CTXGEN_TRY(params.integers("strides", k, 1));
  w.dilations = CTXGEN_TRY(params.integers("dilations", k, 1));
  const auto pads = CTXGEN_TRY(params.integers("pads", 2 * k, 0));
  w.extra_end = CTXGEN_TRY(params.integers("output_padding", k, 0));
  w.pad_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(k));
  w.pad_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(k), pads.end());
  constexpr std::int64_t kMost = std::int64_t{1} << 20;  // products of three stay in 64 bits
  for (std::size_t i = 0; i < k; ++i) {
    const bool sane = w.kernel[i] >= 1 && w.kernel[i] <= kMost && w.strides[i] >= 1 &&
                      w.strides[i] <= kMost && w.dilations[i] >= 1 && w.dilations[i] <= kMost &&
                      w.pad_begin[i] >= 0 && w.pad_begin[i] <= kMost && w.pad_end[i] >= 0 &&
                      w.pad_end[i] <= kMost && w.extra_end[i] >= 0 &&
                      w.extra_end[i] <= kMost && src[i + 2] <= kMaxParam;
    if (!sane)
      return fail(ErrorCode::kInvalidGraph,
                  "{}: kernel {}, stride {}, dilation {}, pads [{}, {}] on spatial axis {}",
                  label(op), w.kernel[i], w.strides[i], w.dilations[i], w.pad_begin[i],
                  w.pad_end[i], i);
    const std::int64_t out = (src[i + 2] - 1) * w.strides[i] + w.extra_end[i] +
                             (w.kernel[i] - 1) * w.dilations[i] + 1 - w.pad_begin[i] - w.pad_end[i];
    if (out < 1 && src[i + 2] > 0)
      return fail(ErrorCode::kInvalidGraph, "{}: spatial axis {} would have {} elements", label(op),
                  i, out);
    w.out.push_back(std::max<std::int64_t>(out, 0));
  }
  return w;
}

Result<ShapeOutputs> deconv_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const Dims& weights = in[1].dims;
  CTXGEN_CHECK(require_spatial(op, src));
  const std::int64_t group = CTXGEN_TRY(Params(op).integer("group", 1));
  if (weights.size() != src.size() || group < 1 || weights[0] < 1 || weights[0] % group != 0 ||
      weights[1] < 1 || src[1] % group != 0 || src[1] / group != weights[1])
    return fail(ErrorCode::kInvalidGraph, "{}: source {} does not fit weights {} in {} groups",
                label(op), to_string(src), to_string(weights), group);
  if (in.size() > 2 && in[2].present && in[2].dims != Dims{weights[0]})
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}, expected [{}]", label(op),
                to_string(in[2].dims), weights[0]);
  const Window w = CTXGEN_TRY(resolve_deconv_window(
      op, src, std::vector<std::int64_t>(weights.begin() + 2, weights.end())));
  Dims out{src[0], weights[0]};
  for (const std::int64_t size : w.out) out.push_back(size);
  return one_shape(out);
}

Result<ShapeOutputs> reduce_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const Params params(op);
  const auto axes = CTXGEN_TRY(params.list("axes"));
  const bool keep = CTXGEN_TRY(params.integer("keepdims", 1)) != 0;
  std::vector<bool> reduced(src.size());
  for (const std::int64_t axis : axes) reduced[CTXGEN_TRY(normal_axis(op, axis, src.size()))] = true;
  Dims out;
  for (std::size_t i = 0; i < src.size(); ++i) {
    if (!reduced[i]) out.push_back(src[i]);
    if (reduced[i] && keep) out.push_back(1);
  }
  return one_shape(out);
}

Result<ShapeOutputs> group_norm_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const std::int64_t groups = CTXGEN_TRY(Params(op).integer("groups", 1));
  if (src.size() < 3 || groups < 1 || src[1] % groups != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: {} groups of {}", label(op), groups, to_string(src));
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i].present && in[i].dims != Dims{src[1]})
      return fail(ErrorCode::kInvalidGraph, "{}: scale or shift {}, expected [{}]", label(op),
                  to_string(in[i].dims), src[1]);
  return one_shape(src);
}

Result<ShapeOutputs> rnn_shape(const ProgramOp& op, ShapeInputs in) {
  const Params params(op);
  const std::string cell = CTXGEN_TRY(params.text("cell", ""));
  const std::string direction = CTXGEN_TRY(params.text("direction", "forward"));
  const bool lstm = cell == "lstm", lbr = cell == "lbr_gru";
  const bool plain = cell == "tanh" || cell == "relu";
  if (!lstm && !lbr && !plain && cell != "gru")
    return fail(ErrorCode::kUnsupported, "{}: cell \"{}\"", label(op), cell);
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return fail(ErrorCode::kUnsupported, "{}: direction \"{}\"", label(op), direction);
  const std::int64_t d = direction == "bidirectional" ? 2 : 1;
  const std::int64_t gates = lstm ? 4 : plain ? 1 : 3;
  const Dims& x = in[0].dims;
  const Dims& w = in[1].dims;
  if (x.size() != 3 || w.size() != 4)
    return fail(ErrorCode::kInvalidGraph, "{}: source {}, weights {}", label(op), to_string(x),
                to_string(w));
  const std::int64_t out = w[3];
  const Dims state{d, x[1], out};
  const Dims expected[] = {x,
                           {d, x[2], gates, out},
                           {d, out, gates, out},
                           {d, gates + (lbr ? 1 : 0), out},
                           state,
                           state};
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i].present && (in[i].dims != expected[i] || (i == 5 && !lstm)))
      return fail(ErrorCode::kInvalidGraph, "{}: input {} is {}, expected {}", label(op), i,
                  to_string(in[i].dims), to_string(expected[i]));
  ShapeOutputs outputs;
  if (out > kMaxParam) return fail(ErrorCode::kResourceLimit, "{}: {} units", label(op), out);
  outputs.push_back(Dims{x[0], x[1], d * out});
  outputs.push_back(state);
  if (lstm) outputs.push_back(state);
  return outputs;
}

}  // namespace ctxgen::onednn
