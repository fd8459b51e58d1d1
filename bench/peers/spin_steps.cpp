// Steps of threads that count and spin, and no more: what a machine does to any program whose threads wait for each other
// without sleeping. Prints one JSON object with the milliseconds of each step.
//   spin_steps THREADS STEP_MS STEPS PARTS
// A step is PARTS times the same work in all threads, with a barrier after each, and takes STEP_MS where nothing disturbs it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void count_to(std::uint64_t end) {
  for (std::uint64_t i = 0; i < end; ++i) asm volatile("" : : "r"(i));
}

/// Tells the processor that its thread spins.
void rest() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Threads that all do the same; they wait by spinning.
class Team {
 public:
  explicit Team(int others) {
    for (int i = 0; i < others; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~Team() {
    ends_ = true;
    begin(0);
    for (std::thread& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void count(std::uint64_t end) {
    begin(end);
    count_to(end);
    while (done_ != static_cast<int>(threads_.size())) rest();
  }

 private:
  void begin(std::uint64_t end) {
    end_ = end;
    done_ = 0;
    ++turn_;
  }
  void serve() {
    for (std::uint64_t seen = 0;;) {
      while (turn_ == seen) rest();
      seen = turn_;
      if (ends_) return;
      count_to(end_);
      ++done_;
    }
  }

  std::atomic<std::uint64_t> turn_{0}, end_{0};
  std::atomic<int> done_{0};
  std::atomic<bool> ends_{false};
  std::vector<std::thread> threads_;
};

/// Counts of a millisecond.
std::uint64_t counts_of_ms() {
  constexpr std::uint64_t kTrial = 1'000'000;
  double least = 1e9;
  for (int i = 0; i < 50; ++i) {
    const auto start = Clock::now();
    count_to(kTrial);
    least = std::min(least, ms_since(start));
  }
  return static_cast<std::uint64_t>(static_cast<double>(kTrial) / least);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: spin_steps THREADS STEP_MS STEPS PARTS\n");
    return 1;
  }
  const int threads = std::atoi(argv[1]), steps = std::atoi(argv[3]), parts = std::atoi(argv[4]);
  const double step_ms = std::atof(argv[2]);
  if (threads < 1 || threads > 1024 || steps < 1 || parts < 1 || !(step_ms > 0)) return 1;
  const auto counts =
      static_cast<std::uint64_t>(static_cast<double>(counts_of_ms()) * step_ms / parts);
  Team team(threads - 1);
  std::vector<double> steps_ms;
  for (int step = 0; step < steps; ++step) {
    const auto start = Clock::now();
    for (int part = 0; part < parts; ++part) team.count(counts);
    steps_ms.push_back(ms_since(start));
  }
  std::cout << nlohmann::json{{"steps_ms", steps_ms}}.dump() << std::endl;
  return 0;
}
