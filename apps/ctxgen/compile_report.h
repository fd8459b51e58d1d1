#pragma once

#include <string>

#include "ctxgen/base/json.h"
#include "ctxgen/compiler/compile.h"

namespace ctxgen::cli {

/// The summary of a compile as JSON (docs/cli.md has the keys) and as text.
[[nodiscard]] std::string report_json(const CompileReport& report);
[[nodiscard]] std::string report_text(const CompileReport& report, bool verbose);

/// One entry per node: name, op_type, provider (null: nobody), partition (null: none), folded,
/// reasons.
void write_assignment(JsonWriter& json, const std::vector<NodeReport>& nodes);

}  // namespace ctxgen::cli
