#pragma once

#include <span>
#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/graph/graph.h"

#include "report/report_data.h"

namespace ctxgen::cli {

/// The nodes of a source with what became of each: what the compile told, and the op of a program that
/// computes it. That is the op that makes its result or has its name; where the result is inside of a
/// fused op, that of the nodes which read it.
[[nodiscard]] std::vector<ShownNode> source_nodes(const Graph& source, const ModelReport& report,
                                                  std::span<const ReportProgram> programs);

/// The same of a context model without its source: each partition's ops stand for its nodes.
[[nodiscard]] std::vector<ShownNode> compiled_nodes(const Graph& context,
                                                    std::span<const ReportProgram> programs);

}  // namespace ctxgen::cli
