#include "compile/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <format>
#include <string_view>
#include <utility>

#include "term/console.h"

namespace ctxgen::cli {
namespace {

constexpr std::array<std::string_view, 8> kStages{"import",    "check",   "infer",   "fold",
                                                  "partition", "compile", "rewrite", "write"};
constexpr int kWidth = 32;

}  // namespace

Progress::Progress(bool quiet, bool verbose) {
  if (quiet) return;
  if (isatty(STDERR_FILENO) != 0)
    mode_ = Mode::kBar;
  else if (verbose)
    mode_ = Mode::kLines;
}

void Progress::update(CompileStage stage, double fraction) {
  const auto index = static_cast<std::size_t>(stage);
  if (mode_ == Mode::kNone || index >= kStages.size()) return;
  if (mode_ == Mode::kLines) {
    if (std::exchange(last_stage_, static_cast<int>(index)) != static_cast<int>(index))
      note(std::format("ctxgen: {}", kStages[index]));
    return;
  }
  const double done =
      (static_cast<double>(index) + std::clamp(fraction, 0.0, 1.0)) / kStages.size();
  const int filled = static_cast<int>(done * kWidth);
  const std::string line = std::format("\r\x1b[K[{}{}] {}", std::string(filled, '#'),
                                       std::string(kWidth - filled, '.'), kStages[index]);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::say(const std::string& text) {
  if (mode_ == Mode::kNone) return;
  if (mode_ == Mode::kLines) return note("ctxgen: " + text);
  std::fputs(("\r\x1b[K" + text).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!std::exchange(drawn_, false)) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace ctxgen::cli
