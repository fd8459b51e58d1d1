#pragma once

#include <string>

#include "ctxgen/base/status.h"

#include "report/report_data.h"
#include "running/measuring_process.h"

namespace ctxgen::cli {

struct ReportRequest {
  std::string model;  // a plain model, compiled in memory, or a context model
  ModelFlags flags;
  std::string compile_flag;  // as open_model
  std::string against;       // the source of a context model, to compare outputs with; "": none
  bool verify = false;       // a plain model: compare with itself on CPU kernels
  bool runs = true;          // measure on this machine
  std::uint64_t iterations = 20;
};

/// The process that measures what the report of a model says about load, runs and memory.
/// Requires  as MeasuringProcess::start.
[[nodiscard]] Result<MeasuringProcess> start_measuring(const ReportRequest& request);

/// Gathers the report of one model; compiles, runs and compares it as asked. `process` measures, if the request wants that;
/// times of single steps are of this process.
/// Errors  those of compiling, opening, running and comparing; IO_ERROR: no room for the compiled model in $TMPDIR.
[[nodiscard]] Result<ReportData> gather_report(const ReportRequest& request,
                                               MeasuringProcess* process);

/// The report of what was just written: model `index` of `report` and the context model at `context`.
[[nodiscard]] Result<ReportData> gather_written(const CompileReport& report, std::size_t index,
                                                const ModelInput& source,
                                                const std::filesystem::path& context,
                                                const CompileOptions& options);

}  // namespace ctxgen::cli
