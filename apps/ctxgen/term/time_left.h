#pragma once

#include <chrono>
#include <string>

namespace ctxgen::cli {

/// "45 s left", "3 min left", "2 h 10 min left"; rounded up.
[[nodiscard]] std::string time_left_text(double seconds);

/// How long work goes on, if it goes on as fast as since this object was made.
class TimeLeft {
 public:
  /// `done`: the share of the work that is done already.
  explicit TimeLeft(double done = 0) : done_before_(done) {}
  /// `share` of the work is done, 0 to 1. "" while too little is done to tell, and of work that takes a second or two.
  [[nodiscard]] std::string text(double share) const;

 private:
  double done_before_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace ctxgen::cli
