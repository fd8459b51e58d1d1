#pragma once

#include "kinds/window.h"

namespace ctxgen::onednn {

/// The window of a transposed convolution over `src` with everything explicit; `extra_end` holds
/// output_padding. Errors  INVALID_GRAPH naming the parameter.
[[nodiscard]] Result<Window> resolve_deconv_window(const ProgramOp& op, const Dims& src,
                                                   std::vector<std::int64_t> kernel);

}  // namespace ctxgen::onednn
