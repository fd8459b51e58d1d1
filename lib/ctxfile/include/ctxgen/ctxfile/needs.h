#pragma once

#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/ctxfile/need.h"

namespace ctxgen {

struct ContextInfo;

/// What a ProgramLoader may also be: one whose op kinds and packings have numbers.
class KnowsNeeds {
 public:
  virtual ~KnowsNeeds() = default;
  /// Everything that the programs need, ascending, each once; empty where every reader of format
  /// 1.1 knows all of it, so that the file can be of that version.
  [[nodiscard]] virtual std::vector<Need> needs_of(std::span<const Program> programs) const = 0;
  [[nodiscard]] virtual bool knows(const Need& need) const = 0;
};

/// "op kind 35", "packing 32768"; of many the first 16 and how many more there are.
[[nodiscard]] std::string to_string(const Need& need);
[[nodiscard]] std::string to_string(std::span<const Need> needs);

/// As KnowsNeeds::needs_of; nothing for a loader without numbers.
[[nodiscard]] std::vector<Need> needs_of(const ProgramLoader& loader,
                                         std::span<const Program> programs);

/// Whether a context fits this machine and this release: what it needs is known here, and what
/// ProgramLoader::compatibility says of its fingerprint.
[[nodiscard]] CompatibilityVerdict fitness_of(const ContextInfo& info, const ProgramLoader& loader,
                                              int threads);

}  // namespace ctxgen
