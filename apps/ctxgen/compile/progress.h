#pragma once

#include <string>

#include "ctxgen/compiler/compile.h"

#include "term/time_left.h"

namespace ctxgen::cli {

/// A bar on stderr while compiling, with the time left: only where stderr is a terminal; with -v and no terminal, one
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
  double share_ =
      0;  // of the whole, as drawn last: several models go through the first stages one by one
  bool searched_ = false;  // what comes next goes on where a search began
  TimeLeft left_;
};

}  // namespace ctxgen::cli
