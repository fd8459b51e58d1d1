#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/ctxfile/executable.h"

namespace ctxgen {

struct ContextInfo;

/// A weight that a load cannot use as it is stored.
struct PackedAtLoad {
  std::string weight;
  std::uint64_t bytes = 0;  // of private memory, which the packed form takes in each process
  bool operator==(const PackedAtLoad&) const = default;
};

/// What a ProgramLoader may also be: one that knows before a load which weights it would pack.
class PredictsPacking {
 public:
  virtual ~PredictsPacking() = default;
  /// Whether a fingerprint names the version of the provider's library that is here: its files were
  /// packed for it, and a load packs nothing that compiling again would change.
  [[nodiscard]] virtual bool is_of_this_library(std::string_view fingerprint) const = 0;
  /// What loading the stored plans of `program` with so many threads packs, in order of its ops, each
  /// weight once for each form. Reads no weight; takes the time of a load without packing.
  /// Requires  validate() has passed `program`. Errors  those of ProgramLoader::load.
  [[nodiscard]] virtual Result<std::vector<PackedAtLoad>> packed_at_load(const Program& program,
                                                                         int threads) const = 0;
};

/// "2 weights (1.5 MiB): \"conv1.weight\", \"fc.weight\""; of many the three largest and how many more
/// there are.
[[nodiscard]] std::string to_string(std::span<const PackedAtLoad> packed);

/// fitness_of(); where that is optimal but of another version of the provider's library, the reason names both, and it is
/// kPreferRecompilation if a load packs weights of `programs`.
/// Errors  as PredictsPacking.
[[nodiscard]] Result<CompatibilityVerdict> fitness_of_programs(
    const ContextInfo& info, std::span<const Program* const> programs, const ProgramLoader& loader,
    int threads);

}  // namespace ctxgen
