#pragma once

#include <filesystem>
#include <map>
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
  /// A compile wrote the model: it has EPContext nodes, or says that there was nothing to compile.
  bool is_compiled = true;
  Compatibility verdict = Compatibility::kOptimal;  // the worst of the findings
  std::string reason;                               // of the worst finding
  std::vector<ContextFinding> findings;
  /// Of ops with constant operands: how many are of which precision (OpPrecision); check_context() only.
  std::map<std::string, std::size_t> precisions;
  /// That the programs of the first context binary are for, the smallest first; "portable"; check_context() only.
  std::vector<std::string> instruction_sets;
};

/// Judges a context model by its metadata, the headers of its context binaries and the names and
/// hashes of its partitions. Touches no weights.
///
/// Errors  only what makes the model itself unreadable (IO_ERROR, INVALID_GRAPH); a missing, damaged
///         or foreign context is a finding with the verdict kUnsupported.
[[nodiscard]] Result<ContextCheck> check_context(const std::filesystem::path& path,
                                                 const SessionOptions& options = {});

/// The same from the model's metadata and the headers of its context binaries alone, in a time that
/// does not depend on their sizes. What only the rest shows (damage after a header, a partition that
/// is missing or of another compile) is left to check_context and to loading. A model without nodes
/// of ours has no partitions and fits.
[[nodiscard]] Result<ContextCheck> judge_context(const std::filesystem::path& path,
                                                 const SessionOptions& options = {});
[[nodiscard]] Result<ContextCheck> judge_context_memory(const Blob& model,
                                                        const SessionOptions& options = {});

}  // namespace ctxgen
