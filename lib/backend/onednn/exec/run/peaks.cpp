#include "ctxgen/onednn/peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "ctxgen/onednn/exec.h"

#include "plan/aligned_bytes.h"
#include "plan/omp_workers.h"
#include "run/peak_loops.h"

namespace ctxgen::onednn {
namespace {

constexpr std::uint64_t kBytes = 128ULL << 20;  // of what is read: more than most caches
constexpr std::uint64_t kChunk = 1ULL << 20;
constexpr std::int64_t kSteps = 100'000;  // of multiply-adds: a fifth of a millisecond
constexpr double kMostSeconds = 0.1;      // per measurement
constexpr int kLeastRuns = 3;

/// The highest rate of some calls: amount that `call` returns, per second.
template <class Call>
double best_rate(const Call& call) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double best = 0;
  for (int i = 0;; ++i) {
    const auto before = Clock::now();
    if (i >= kLeastRuns && std::chrono::duration<double>(before - start).count() > kMostSeconds)
      return best;
    const double amount = call();
    const double seconds = std::chrono::duration<double>(Clock::now() - before).count();
    if (seconds > 0) best = std::max(best, amount / seconds);
  }
}

/// All threads in `loop`, which returns its operations.
double rate_of(double (*loop)(std::int64_t), int threads) {
  if (loop(1) == 0) return 0;  // no such instruction
  return best_rate([&] {
    std::atomic<double> operations{0};
    omp_workers().parallel_for(threads, [&](std::int64_t) { operations += loop(kSteps); });
    return operations.load();
  });
}

Result<double> read_rate() {
  auto bytes = CTXGEN_TRY(AlignedBytes::allocate(kBytes));
  std::memset(bytes.data(), 1, kBytes);  // its pages are there from now on
  return best_rate([&] {
    std::atomic<std::uint64_t> sum{0};
    omp_workers().parallel_for(kBytes / kChunk, [&](std::int64_t i) {
      sum += read_all({bytes.data() + i * std::int64_t{kChunk}, kChunk});
    });
    return sum == 0 ? 0 : static_cast<double>(kBytes);  // it is not: what is read counts
  });
}

}  // namespace

Result<MachinePeaks> measure_peaks(int threads) {
  if (threads <= 0) threads = default_threads();
  const OmpThreads scope(threads);
  MachinePeaks peaks;
  peaks.gflops = rate_of(multiply_add_f32, threads) / 1e9;
  peaks.int8_gops = rate_of(multiply_add_int8, threads) / 1e9;
  peaks.bf16_gflops = rate_of(multiply_add_bf16, threads) / 1e9;
  peaks.gbytes = CTXGEN_TRY(read_rate()) / 1e9;
  return peaks;
}

}  // namespace ctxgen::onednn
