#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/partition/provider.h"
#include "ctxgen/runtime/verify.h"

#include "cli.h"
#include "running/input_sizes.h"

namespace ctxgen::cli {

/// --rtol and --atol.
void add_tolerance_flags(CLI::App& verb, ToleranceOverrides& overrides);

/// The inputs of one run and where they came from.
struct VerificationInputs {
  std::string name;  // "seed 0, batch=8", a data set's name
  std::vector<NamedValue> values;
  std::vector<InputSize> sizes = {};  // of random inputs
};

/// One run of both models on the same inputs.
struct VerificationRun {
  std::string inputs;
  OutputVerification result;
};

/// Random inputs for each profile (one without sizes if there is none) and each of `count` seeds.
/// Errors  those of random_inputs().
[[nodiscard]] Result<std::vector<VerificationInputs>> random_verification_inputs(
    std::span<const IoInfo> infos, std::span<const NamedValue> given,
    std::span<const ShapeProfile> profiles, std::uint64_t seed, std::uint64_t count);

[[nodiscard]] Result<std::vector<VerificationRun>> verify_runs(
    const Session& context, const Session& reference, std::span<const VerificationInputs> inputs,
    const NumericPaths& paths, const ToleranceOverrides& tolerance = {});

/// The first partition output that differs, else the first output of the model that does.
struct Divergence {
  std::string inputs;
  ValueComparison value;
};
[[nodiscard]] std::optional<Divergence> first_divergence(std::span<const VerificationRun> runs);

/// "partition "p": output "y" differs by 0.1 ... ".
[[nodiscard]] std::string divergence_text(const Divergence& divergence);

/// Fields match, rtol, atol, runs[] and first_divergence of an object that is open.
void write_runs(JsonWriter& json, std::span<const VerificationRun> runs,
                const std::optional<Divergence>& divergence, const ToleranceOverrides& tolerance);

/// An array of `values`, or one of them.
void write_comparisons(JsonWriter& json, std::span<const ValueComparison> values);
void write_comparison(JsonWriter& json, const ValueComparison& value);

/// The fields rtol and atol of an object that is open: what the user gave, or null.
void write_overrides(JsonWriter& json, const ToleranceOverrides& tolerance);
/// The fields row, rtol, atol, of_range and used of an object that is open: which tolerance applied.
void write_tolerance(JsonWriter& json, const Comparison& comparison);
/// "f32 row: rtol 1e-06, 31 % used".
[[nodiscard]] std::string tolerance_text(const Comparison& comparison);

/// The worst of each output and partition output over all runs, as a table.
[[nodiscard]] std::string runs_text(std::span<const VerificationRun> runs, bool verbose,
                                    std::string_view indent = "");

/// A source as it is, from its file or its bytes.
[[nodiscard]] Result<std::unique_ptr<Session>> open_source(const ModelInput& source,
                                                           const SessionOptions& options);

/// The source that a context model is compared with; of a context model of a part (--output-names), that part of the source.
/// Errors  those of Session::open().
[[nodiscard]] Result<std::unique_ptr<Session>> open_reference(const Session& context,
                                                              const ModelInput& source,
                                                              const SessionOptions& options);

/// Input and output names of a compile of the part of `whole` that a context model is of; nothing where it is of all.
[[nodiscard]] std::optional<CompileOptions> part_compiled(const Session& context,
                                                          const Session& whole);

/// Runs a written context model next to its source: one seed for each profile.
[[nodiscard]] Result<std::vector<VerificationRun>> verify_against(
    const std::filesystem::path& context, const ModelInput& source, const CompileOptions& options);

}  // namespace ctxgen::cli
