#pragma once

#include <string>

#include "ctxgen/compiler/compile.h"

namespace ctxgen::cli {

/// A bar on stderr while compiling: only where stderr is a terminal; with -v and no terminal, one
/// plain line per stage.
class Progress {
 public:
  Progress(bool quiet, bool verbose);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(CompileStage stage, double fraction);
  /// A line in the place of the bar, or one of its own.
  void say(const std::string& text);
  void clear();

 private:
  enum class Mode { kNone, kLines, kBar } mode_ = Mode::kNone;
  bool drawn_ = false;
  int last_stage_ = -1;
};

}  // namespace ctxgen::cli
