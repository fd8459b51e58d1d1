#pragma once

#include <cstdint>

#include "ctxgen/base/status.h"

namespace ctxgen::onednn {

/// What this machine's cores and memory reach at best, as measured just now without any library, for
/// tables that judge ops by it.
struct MachinePeaks {
  double gflops = 0;       // 1e9 operations per second: f32 multiply-adds in registers
  double int8_gops = 0;    // the same of u8 by s8; 0: no instruction for it (AMX, VNNI)
  double bf16_gflops = 0;  // the same of bf16; 0: no instruction for it (AMX, AVX-512 BF16)
  double gbytes = 0;       // 1e9 bytes per second: reading memory
};

/// Takes about half a second; reading allocates and fills `read_bytes`, but from 128 MiB to 1 GiB: a virtual machine may tell of a
/// cache that holds less, but not of how much of it others leave. `threads` as in LoadOptions.
/// Errors  RESOURCE_LIMIT.
[[nodiscard]] Result<MachinePeaks> measure_peaks(int threads, std::uint64_t read_bytes);

}  // namespace ctxgen::onednn
