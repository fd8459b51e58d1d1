#pragma once

#include <string>

#include "report/report_data.h"

namespace ctxgen::cli {

/// "412 of 431 nodes compiled; 19 stay because ...".
[[nodiscard]] std::string sentence_of(const ReportData& data);

/// What docs/report.schema.json describes: the summary of a compile with the key "report" in addition.
[[nodiscard]] std::string report_data_json(const ReportData& data);

/// Node data for Model Explorer: of each node its provider, time and implementation, by node name.
[[nodiscard]] std::string model_explorer_json(const ReportData& data);

}  // namespace ctxgen::cli
