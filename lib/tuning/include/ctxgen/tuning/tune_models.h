#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/runtime/session.h"
#include "ctxgen/tuning/form_search.h"

namespace ctxgen {

struct TuneRequest {
  double seconds = 60;
  TuningTable known = {};    // of a file; without a library: nothing is known
  std::string machine = {};  // its processor's name; "": nothing is kept in the compile cache
  int threads = 1;           // that runs are measured with
  /// Inputs of a run of a model with these inputs.
  std::function<Result<std::vector<NamedValue>>(std::span<const IoInfo>)> make_inputs = {};
  std::function<void(const FormProgress&)> progress = {};
};

/// Whether forms can be measured for such a compile, on this machine.
/// Errors  INVALID_ARGUMENT naming the option.
[[nodiscard]] Status check_tunable(const CompileOptions& options);

/// Measures in which forms the constants of these models are the fastest here: compiles each in memory in several ways
/// and runs it. CompileOptions::cancelled ends it early, with what is known then. What is found goes into the compile cache,
/// if there is one, by shape and machine, and is not measured again.
/// Errors  those of check_tunable(), of compiles and runs; INVALID_ARGUMENT, VERSION_MISMATCH: `known` is of another
///         machine, library, instruction set or number of threads.
[[nodiscard]] Result<FormFinding> tune_models(std::span<const ModelInput> models,
                                              const CompileOptions& options,
                                              const TuneRequest& request);

/// A shape that tune_models() would measure for the model that was compiled into `context`, because CompileOptions::tuning
/// has no row for it; nothing: the table tells of all. Shapes of constants that --max-error stored in integers are not
/// seen, and of those that it made narrower any row for their sizes counts. Touches no weights.
/// Errors  as those of a session.
[[nodiscard]] Result<std::optional<TunedShape>> find_unmeasured(
    const std::filesystem::path& context, const CompileOptions& options);

}  // namespace ctxgen
