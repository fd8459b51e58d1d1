#pragma once

#include <vector>

#include "report/report_data.h"

namespace ctxgen::cli {

/// What costs time or memory in a report's model, the dearest first where times were measured, each with
/// the option that helps or a word on why none does.
[[nodiscard]] std::vector<Lint> find_lints(const ReportData& data);

}  // namespace ctxgen::cli
