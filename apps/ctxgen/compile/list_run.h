#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cli.h"
#include "compile/model_list.h"

namespace ctxgen::cli {

struct ListRun {
  std::string file;                 // the list, for messages
  std::vector<GivenOption> common;  // of all models, but for those that a line has, too
  std::size_t processes = 0;        // at a time; 0: as many as there are cores
  bool json = false;
  Verbosity verbosity;
};

/// Compiles each model in a process of its own, so that none is stopped by another one, whatever becomes of that; what is current
/// is left as it is. Each compiles with one thread, unless its line says otherwise. Prints one line per model as it ends, and one for all.
/// Errors  NOT_SATISFIED: some failed; CANCELLED.
[[nodiscard]] Result<int> run_list(std::span<const ListedModel> models, const ListRun& how);

}  // namespace ctxgen::cli
