#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "ctxgen/base/workers.h"

// What the programs of this folder that are built by hand share (low_bit.cpp, bytes.cpp, attention.cpp).
namespace bench {

/// The threads of OMP_NUM_THREADS.
class OmpWorkers final : public ctxgen::Workers {
 public:
  void parallel_for(std::int64_t count, Task task) override {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < count; ++i) task(i);
  }
};

template <class Call>
double seconds_of(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What main() returns: run() of the arguments, whose exceptions are printed.
template <class Run>
int run_program(const char* name, int count, char** words, const Run& run) {
  try {
    return run(std::vector<std::string>{words + 1, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace bench
