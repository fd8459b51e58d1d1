#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen {

/// What was compared: the model's metadata, or one context binary.
struct ContextFinding {
  std::string what;    // "metadata", "model_dnnl.bin"
  std::string source;  // the EP name
  CompatibilityVerdict verdict;
};

/// Whether a context model fits this machine.
struct ContextCheck {
  std::size_t partitions = 0;
  Compatibility verdict = Compatibility::kOptimal;  // the worst of the findings
  std::string reason;                               // of the worst finding
  std::vector<ContextFinding> findings;
};

/// Judges a context model by its metadata, the headers of its context binaries and the names and
/// hashes of its partitions. Touches no weights.
///
/// Errors  only what makes the model itself unreadable (IO_ERROR, INVALID_GRAPH); a missing, damaged
///         or foreign context is a finding with the verdict kUnsupported.
[[nodiscard]] Result<ContextCheck> check_context(const std::filesystem::path& path,
                                                 const SessionOptions& options = {});

}  // namespace ctxgen
