#pragma once

#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/compiler/compile.h"

#include "running/verify_runs.h"

namespace ctxgen::cli {

/// The summary of a compile as JSON (docs/cli.md has the keys) and as text. `verifications`: by model,
/// empty without --verify.
[[nodiscard]] std::string report_json(
    const CompileReport& report, std::span<const std::vector<VerificationRun>> verifications = {});
[[nodiscard]] std::string report_text(const CompileReport& report,
                                      std::span<const std::vector<VerificationRun>> verifications,
                                      bool verbose);

/// The same fields in an object that is open.
void write_report_fields(JsonWriter& json, const CompileReport& report,
                         std::span<const std::vector<VerificationRun>> verifications = {});
/// One entry per output.
void write_outputs(JsonWriter& json, std::span<const FileReport> files);
/// What became of outputs, where that is not that they were written.
[[nodiscard]] std::string outputs_text(std::span<const FileReport> files, bool up_to_date);

/// One entry per node: name, op_type, provider (null: none), partition (null: none), folded,
/// reasons.
void write_assignment(JsonWriter& json, const std::vector<NodeReport>& nodes);

}  // namespace ctxgen::cli
