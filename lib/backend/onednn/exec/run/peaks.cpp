#include "ctxgen/onednn/peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>

#include "ctxgen/onednn/exec.h"

#include "plan/aligned_bytes.h"
#include "plan/omp_workers.h"
#include "run/peak_loops.h"

namespace ctxgen::onednn {
namespace {

constexpr std::uint64_t kLeastBytes = 128ULL << 20;  // of what is read: more than most caches
constexpr std::uint64_t kMostBytes = 1ULL << 30;
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

/// `bytes`, read by each thread at `places` of them in turn: bytes per second.
double read_rate(std::span<const std::byte> bytes, std::uint64_t places) {
  const std::uint64_t turn = places == 1 ? kChunk : 1024;
  const std::uint64_t distance = bytes.size() / kChunk / places * kChunk;
  return best_rate([&] {
    std::atomic<std::uint64_t> sum{0};
    omp_workers().parallel_for(static_cast<std::int64_t>(distance / kChunk), [&](std::int64_t i) {
      const std::byte* chunk = bytes.data() + i * std::int64_t{kChunk};
      std::uint64_t own = 0;
      for (std::uint64_t at = 0; at < kChunk; at += turn)
        for (std::uint64_t place = 0; place < places; ++place)
          own += read_all({chunk + place * distance + at, turn});
      sum += own;
    });
    return sum == 0 ? 0 : static_cast<double>(distance * places);  // it is not: what is read counts
  });
}

/// The faster of one place and three: processors follow several streams of reads, and one does not always keep the
/// memory busy. Four would be a power of two apart and share places of the caches (AMD Zen 3: slower than three).
Result<double> read_rate(std::uint64_t count) {
  const auto bytes = CTXGEN_TRY(AlignedBytes::allocate(count));
  std::memset(bytes.data(), 1, count);  // its pages are there from now on
  const std::span<const std::byte> read(bytes.data(), count);
  return std::max(read_rate(read, 1), read_rate(read, 3));
}

}  // namespace

Result<MachinePeaks> measure_peaks(int threads, std::uint64_t read_bytes) {
  if (threads <= 0) threads = default_threads();
  const OmpThreads scope(threads);
  MachinePeaks peaks;
  peaks.gflops = rate_of(multiply_add_f32, threads) / 1e9;
  peaks.int8_gops = rate_of(multiply_add_int8, threads) / 1e9;
  peaks.bf16_gflops = rate_of(multiply_add_bf16, threads) / 1e9;
  peaks.gbytes = CTXGEN_TRY(read_rate(std::clamp(read_bytes, kLeastBytes, kMostBytes))) / 1e9;
  release_omp_team();  // runs have their own
  return peaks;
}

}  // namespace ctxgen::onednn
