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

struct Stage {
  std::string_view name;
  double share;  // of the time of a compile
};

// Shares are rounded from compiles of ResNet-50, BERT-base, Swin-T and a decoder with 4-bit weights: files are read and hashed by
// import, weights packed by compile.
constexpr std::array<Stage, 8> kStages{{{"import", 0.15},
                                        {"check", 0.02},
                                        {"infer", 0.01},
                                        {"fold", 0.01},
                                        {"partition", 0.01},
                                        {"compile", 0.6},
                                        {"rewrite", 0.01},
                                        {"write", 0.19}}};
constexpr int kWidth = 32;

/// What is done of all stages.
double whole_share(std::size_t stage, double fraction) {
  double share = kStages[stage].share * std::clamp(fraction, 0.0, 1.0);
  for (std::size_t i = 0; i < stage; ++i) share += kStages[i].share;
  return std::min(share, 1.0);
}

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
      note(std::format("ctxgen: {}", kStages[index].name));
    return;
  }
  share_ = std::max(share_, whole_share(index, fraction));
  if (std::exchange(searched_, false)) left_ = TimeLeft(share_);
  const int filled = static_cast<int>(share_ * kWidth);
  const std::string left = left_.text(share_);
  const std::string line = std::format("\r\x1b[K[{}{}] {}{}{}", std::string(filled, '#'),
                                       std::string(kWidth - filled, '.'), kStages[index].name,
                                       left.empty() ? "" : ", ", left);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::say(const std::string& text) {
  searched_ = true;
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
