#include "ctxgen/onednn/peaks.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include <oneapi/dnnl/dnnl.h>

#include "plan/aligned_bytes.h"
#include "plan/planner.h"

namespace ctxgen::onednn {
namespace {

constexpr std::int64_t kSide = 1024;            // of the matrices: 4 MiB each
constexpr std::uint64_t kBytes = 128ULL << 20;  // of what is copied: more than most caches
constexpr std::uint64_t kChunk = 1ULL << 20;
constexpr double kMostSeconds = 0.25;  // per measurement
constexpr int kLeastRuns = 3;

/// The shortest time of some calls, in seconds. `call` gives a Status.
template <class Call>
Result<double> best_seconds(Call&& call) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double best = 1e30;
  for (int i = 0;; ++i) {
    const auto before = Clock::now();
    if (i >= kLeastRuns && std::chrono::duration<double>(before - start).count() > kMostSeconds)
      return best;
    CTXGEN_CHECK(call());
    best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
  }
}

float* floats(AlignedBytes& bytes) { return reinterpret_cast<float*>(bytes.data()); }

Result<double> measure_gflops() {
  constexpr std::uint64_t kMatrix = kSide * kSide * sizeof(float);
  auto a = CTXGEN_TRY(AlignedBytes::allocate(kMatrix));
  auto b = CTXGEN_TRY(AlignedBytes::allocate(kMatrix));
  auto c = CTXGEN_TRY(AlignedBytes::allocate(kMatrix));
  std::fill_n(floats(a), kSide * kSide, 0.5F);
  std::fill_n(floats(b), kSide * kSide, 0.25F);
  const double seconds = CTXGEN_TRY(best_seconds([&]() -> Status {
    const dnnl_status_t status = dnnl_sgemm('N', 'N', kSide, kSide, kSide, 1, floats(a), kSide,
                                            floats(b), kSide, 0, floats(c), kSide);
    if (status == dnnl_success) return {};
    return fail(ErrorCode::kBackendError, "product of matrices: oneDNN status {}",
                static_cast<int>(status));
  }));
  return 2.0 * kSide * kSide * kSide / seconds / 1e9;
}

Result<double> measure_gbytes() {
  auto from = CTXGEN_TRY(AlignedBytes::allocate(kBytes));
  auto to = CTXGEN_TRY(AlignedBytes::allocate(kBytes));
  constexpr auto kChunks = static_cast<std::int64_t>(kBytes / kChunk);
  const auto copy = [&]() -> Status {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < kChunks; ++i)
      std::memcpy(to.data() + i * std::int64_t{kChunk}, from.data() + i * std::int64_t{kChunk},
                  kChunk);
    return {};
  };
  std::memset(from.data(), 1, kBytes);
  CTXGEN_CHECK(copy());  // its pages are there from now on
  return 2.0 * static_cast<double>(kBytes) / CTXGEN_TRY(best_seconds(copy)) / 1e9;
}

}  // namespace

Result<MachinePeaks> measure_peaks(int threads) {
  const OmpThreads scope(threads);
  MachinePeaks peaks;
  peaks.gflops = CTXGEN_TRY(measure_gflops());
  peaks.gbytes = CTXGEN_TRY(measure_gbytes());
  return peaks;
}

}  // namespace ctxgen::onednn
