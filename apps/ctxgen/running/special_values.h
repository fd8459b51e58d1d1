#pragma once

#include <span>
#include <string>
#include <vector>

#include "running/verify_runs.h"

namespace ctxgen::cli {

/// One run of both models on inputs that hold a NaN, or infinities.
struct SpecialRun {
  std::string inputs;         // "seed 0, NaN"
  std::string error;          // why it could not be compared: a size computed from a NaN, say
  OutputVerification result;  // empty with an error
};

/// Runs with `base`, but for one element of each floating-point tensor, which is a NaN ("nan"), or two,
/// which are infinity and minus infinity ("infinity"). None where no input has such elements.
///
/// Determinism  the places depend on `seed` and the position of the input only.
/// Errors  RESOURCE_LIMIT where the inputs cannot be copied.
[[nodiscard]] Result<std::vector<SpecialRun>> verify_special_values(
    const Session& context, const Session& reference, const VerificationInputs& base,
    std::span<const std::string> words, std::uint64_t seed, const NumericPaths& paths,
    const ToleranceOverrides& tolerance);

/// What differs in elements that are finite in both: a real difference.
[[nodiscard]] std::optional<Divergence> finite_divergence(std::span<const SpecialRun> runs);

/// The field special_values of an object that is open.
void write_special_runs(JsonWriter& json, std::span<const SpecialRun> runs);
/// What the partitions handle otherwise than the source, or that they do not.
[[nodiscard]] std::string special_runs_text(std::span<const SpecialRun> runs);

}  // namespace ctxgen::cli
