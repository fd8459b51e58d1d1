#pragma once

#include "ctxgen/base/status.h"

namespace ctxgen::onednn {

/// What this machine reaches at best, as measured just now, for tables that judge ops by it.
struct MachinePeaks {
  double gflops = 0;  // 1e9 operations per second: an f32 product of large square matrices
  double gbytes = 0;  // 1e9 bytes per second, read and written: a copy that no cache holds
};

/// Takes about half a second. `threads` as in LoadOptions.
/// Errors  RESOURCE_LIMIT, BACKEND_ERROR.
[[nodiscard]] Result<MachinePeaks> measure_peaks(int threads);

}  // namespace ctxgen::onednn
