#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace ctxgen {

/// How long a compile waits for a server: `seconds` altogether, beyond the time in which what the server takes and
/// gives would pass at kBytesPerSecond.
///
/// Threads  used from one thread.
class Patience {
 public:
  static constexpr double kBytesPerSecond = 4 << 20;

  /// `cancelled` ends a wait, too.
  explicit Patience(double seconds, std::function<bool()> cancelled = {})
      : limit_(seconds), cancelled_(std::move(cancelled)) {}

  /// Begins a wait; end() counts it with the bytes that moved meanwhile.
  void begin();
  /// Whether the wait may go on, after so many bytes since begin().
  [[nodiscard]] bool lasts(std::uint64_t bytes) const;
  void end(std::uint64_t bytes);
  /// All waits, whatever moved.
  [[nodiscard]] double seconds_waited() const { return waited_; }

 private:
  [[nodiscard]] double elapsed() const;
  /// Of the limit, by a wait of `seconds` in which `bytes` moved.
  [[nodiscard]] static double cost(double seconds, std::uint64_t bytes);

  double limit_;
  std::function<bool()> cancelled_;
  double spent_ = 0, waited_ = 0;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ctxgen
