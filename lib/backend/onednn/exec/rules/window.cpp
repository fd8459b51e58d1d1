#include "rules/window.h"

#include <algorithm>

#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

struct Axis {
  std::int64_t in, effective, stride;
};

/// Pads of SAME_*: the output is ceil(in / stride); the odd element goes to the end for SAME_UPPER.
void same_pads(const Axis& axis, bool upper, std::int64_t& begin, std::int64_t& end) {
  const std::int64_t out = (axis.in + axis.stride - 1) / axis.stride;
  const std::int64_t total =
      std::max<std::int64_t>(0, (out - 1) * axis.stride + axis.effective - axis.in);
  const std::int64_t less = total / 2;
  begin = upper ? less : total - less;
  end = total - begin;
}

/// ONNX: the last window of ceil_mode must start inside the input or its begin padding.
std::int64_t output_size(const Axis& axis, std::int64_t begin, std::int64_t end, bool ceil_mode) {
  const std::int64_t room = axis.in + begin + end - axis.effective;
  if (room < 0) return 0;
  if (!ceil_mode) return room / axis.stride + 1;
  const std::int64_t out = (room + axis.stride - 1) / axis.stride + 1;
  return (out - 1) * axis.stride >= axis.in + begin ? out - 1 : out;
}

}  // namespace

Status check_window(const ProgramOp& op, std::initializer_list<std::int64_t> sizes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  for (const std::int64_t size : sizes)
    if (size > kMost)
      return fail(ErrorCode::kUnsupported, "{}: a window's stride, pad or extent of {}, limit {}",
                  label(op), size, kMost);
  return {};
}

Result<Window> resolve_window(const ProgramOp& op, const Dims& src,
                              std::vector<std::int64_t> kernel, const WindowParams& params,
                              bool ceil_mode) {
  const std::size_t k = kernel.size();
  Window w;
  w.kernel = std::move(kernel);
  w.strides = CTXGEN_TRY(per_dim(op, "strides", params.strides, k, 1));
  w.dilations = CTXGEN_TRY(per_dim(op, "dilations", params.dilations, k, 1));
  const IntList pads = CTXGEN_TRY(per_dim(op, "pads", params.pads, 2 * k, 0));
  const std::string& auto_pad = params.auto_pad;
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty())
    return fail(ErrorCode::kInvalidGraph, "{}: auto_pad is \"{}\"", label(op), auto_pad);
  w.pad_begin.assign(k, 0);
  w.pad_end.assign(k, 0);
  for (std::size_t i = 0; i < k; ++i) {
    if (w.kernel[i] < 1 || w.kernel[i] > kMaxParam || w.strides[i] < 1 || w.dilations[i] < 1)
      return fail(ErrorCode::kInvalidGraph,
                  "{}: kernel {}, stride {}, dilation {} on spatial axis {}, expected at least 1",
                  label(op), w.kernel[i], w.strides[i], w.dilations[i], i);
    if (w.kernel[i] == 1) w.dilations[i] = 1;  // it has no meaning there, and may be huge
    const Axis axis{src[i + 2], (w.kernel[i] - 1) * w.dilations[i] + 1, w.strides[i]};
    if (same) {
      same_pads(axis, auto_pad == "SAME_UPPER", w.pad_begin[i], w.pad_end[i]);
    } else if (auto_pad != "VALID") {
      w.pad_begin[i] = pads[i];
      w.pad_end[i] = pads[k + i];
    }
    if (w.pad_begin[i] < 0 || w.pad_end[i] < 0)
      return fail(ErrorCode::kUnsupported, "{}: negative pads [{}, {}]", label(op), w.pad_begin[i],
                  w.pad_end[i]);
    CTXGEN_CHECK(check_window(op, {w.strides[i], w.pad_begin[i], w.pad_end[i], axis.effective}));
    const std::int64_t out = output_size(axis, w.pad_begin[i], w.pad_end[i], ceil_mode);
    if (out < 1 && axis.in > 0)
      return fail(ErrorCode::kInvalidGraph,
                  "{}: window of {} does not fit into {} with pads [{}, {}]", label(op),
                  axis.effective, axis.in, w.pad_begin[i], w.pad_end[i]);
    w.out.push_back(std::max<std::int64_t>(out, 0));
    const std::int64_t reach = (out - 1) * axis.stride + axis.effective;
    w.extra_end.push_back(
        std::max<std::int64_t>(0, reach - axis.in - w.pad_begin[i] - w.pad_end[i]));
  }
  return w;
}

}  // namespace ctxgen::onednn
