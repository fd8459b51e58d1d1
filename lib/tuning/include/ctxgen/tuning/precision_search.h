#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/tuning/error_norm.h"
#include "ctxgen/tuning/samples.h"

namespace ctxgen {

/// What a constant in f32 may become, fewest bits first; of those with as many, what the machine multiplies, then the
/// type that rounds less.
[[nodiscard]] std::span<const std::string_view> narrow_precisions();

/// A trial is a compile, and a run of each sample.
struct SearchProgress {
  int trials = 0, most_trials = 0;
  std::size_t narrow_ops = 0, ops = 0;  // kept so far, of those that may be narrow
  double error = 0;                     // of what is kept so far
};

struct PrecisionRequest {
  ErrorBound bound;
  SampleArrays samples;
  std::function<void(const SearchProgress&)> progress = {};  // after each trial
};

/// What a search found.
struct PrecisionFinding {
  PrecisionChoice choice;
  PrecisionSearchReport report;
};

/// Identifies what follows from a request besides the model and other options (PrecisionBudget::request).
[[nodiscard]] std::string describe(const PrecisionRequest& request);

/// Finds, for each op with a constant operand, the precision of fewest bits so that no output of a sample is farther
/// than three quarters of the bound from what the model gives when all is f32; then looks at the samples held out. Where
/// CompileOptions::tuning has measured a shape, the fastest of its precisions takes the place of the one of fewest bits.
///
/// Determinism  the choice follows from the arguments; a number of trials ends the search, not time.
/// Errors  NOT_SATISFIED: an output of a sample held out passes the bound; those of split_samples(), of a compile and
///         of a run; CANCELLED.
[[nodiscard]] Result<PrecisionFinding> search_precision(const ModelInput& input,
                                                        const CompileOptions& options,
                                                        const PrecisionRequest& request);

}  // namespace ctxgen
