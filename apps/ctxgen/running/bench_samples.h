#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ctxgen::cli {

/// Latencies of runs that followed each other, in milliseconds, as lines "run,start_ms,latency_ms" (RFC 4180).
[[nodiscard]] std::string samples_csv(std::span<const double> latencies_ms);

/// The same as a picture, an SVG document: each run over time, with lines at the median and the 99th percentile. Of more runs than the
/// picture has columns each column shows its least and its greatest.
///
/// In  title: any text; it is escaped.
[[nodiscard]] std::string samples_svg(std::span<const double> latencies_ms, std::string_view title);

}  // namespace ctxgen::cli
