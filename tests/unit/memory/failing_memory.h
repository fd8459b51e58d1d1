#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace ctxgen::test {

/// How allocations fail from a number on, counted over operator new and aligned_alloc of the whole
/// process, libraries included.
enum class Failing { kOnce, kFromThenOn };

/// What one call of `work` under counting did.
struct Allocations {
  std::vector<bool> is_ours;  // by number: not made inside of a package's library
};

/// Runs `work`, and says of each allocation whether it is ours: whether no frame of the stack below
/// lies in a library that is not (oneDNN, onnx, protobuf, OpenMP, spdlog).
[[nodiscard]] Allocations record(const std::function<void()>& work);

/// Runs `work` while allocation `number` fails (or all from there on that are ours). False if it was
/// never reached, or turned out not to be ours.
[[nodiscard]] bool run_failing(std::uint64_t number, Failing how,
                               const std::function<void()>& work);

/// How many objects of operator new have not been deleted.
[[nodiscard]] std::int64_t live_objects();

}  // namespace ctxgen::test
