#pragma once

#include <cstdint>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/onednn/kind_params.h"

namespace ctxgen::onednn {

/// A sliding window over k spatial dims with everything made explicit.
///
/// Units  elements; `dilations` are ONNX's (1: none). `extra_end` is how far the last window reaches
///        beyond input + pad_end (ceil_mode).
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pad_begin, pad_end, out, extra_end;
};

/// The window of a conv or pool over `src` [N, C, D1..Dk] with the given kernel: auto_pad, pads,
/// strides, dilations and ceil_mode resolved as ONNX says. `op` is for messages.
/// Errors  INVALID_GRAPH naming the parameter; UNSUPPORTED for negative pads.
[[nodiscard]] Result<Window> resolve_window(const ProgramOp& op, const Dims& src,
                                            std::vector<std::int64_t> kernel,
                                            const WindowParams& params, bool ceil_mode = false);

}  // namespace ctxgen::onednn
