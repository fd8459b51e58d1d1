#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/runtime_value.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/ctxfile/tuning_table.h"
#include "ctxgen/runtime/session.h"
#include "ctxgen/tuning/error_norm.h"

namespace ctxgen {

/// A model compiled in one way, in memory and ready to run.
struct Trial {
  std::unique_ptr<Session> session;
  std::vector<OpPrecision> precisions;  // of all partitions
  std::vector<TunableOp> tunable;       // likewise
  std::uint64_t bytes = 0;              // of context binaries
  std::string fingerprint;              // of their target
};

/// Compiles `input` as `options` say, with these choices and without any output or cache. `threads`: of runs; nothing:
/// those of the options.
[[nodiscard]] Result<Trial> make_trial(const ModelInput& input, const CompileOptions& options,
                                       const ChoiceTable& choices,
                                       std::optional<int> threads = std::nullopt);

using Outputs = std::vector<RuntimeValue>;
[[nodiscard]] Result<std::vector<Outputs>> run_samples(
    const Session& session, std::span<const std::vector<NamedValue>> samples);

/// The largest error of an output. Outputs are compared in the order in which both have them.
/// Errors  NOT_SATISFIED: `references` have other numbers of outputs, or not one finite number.
[[nodiscard]] Result<double> largest_error(std::span<const Outputs> outputs,
                                           std::span<const Outputs> references, ErrorNorm norm);

}  // namespace ctxgen
