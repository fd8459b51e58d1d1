#pragma once

#include <cstdint>
#include <optional>
#include <random>

namespace ctxgen::cpu {

/// Random numbers of one run of one kernel, the same on every machine: MT19937 and the steps that
/// NumPy's RandomState makes of it, which ONNX's reference implementation draws from.
class RandomStream {
 public:
  /// Without a seed every stream is another one.
  explicit RandomStream(std::optional<std::uint32_t> seed);
  [[nodiscard]] double uniform();  // [0, 1), 53 bits
  [[nodiscard]] double normal();   // mean 0, deviation 1

 private:
  std::mt19937 engine_;
  std::optional<double> spare_;
};

}  // namespace ctxgen::cpu
