#include "ctxgen/ctxfile/packed_at_load.h"

#include <algorithm>
#include <format>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/needs.h"

namespace ctxgen {
namespace {

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024) return std::format("{} bytes", bytes);
  const double kib = static_cast<double>(bytes) / 1024;
  return kib < 1024 ? std::format("{:.1f} KiB", kib) : std::format("{:.1f} MiB", kib / 1024);
}

}  // namespace

std::string to_string(std::span<const PackedAtLoad> packed) {
  constexpr std::size_t kMostNamed = 3;
  std::vector<PackedAtLoad> largest(packed.begin(), packed.end());
  std::ranges::stable_sort(largest, std::ranges::greater(), &PackedAtLoad::bytes);
  std::uint64_t bytes = 0;
  for (const PackedAtLoad& weight : packed) bytes += weight.bytes;
  std::string names;
  for (const PackedAtLoad& weight : std::span(largest).first(std::min(kMostNamed, packed.size())))
    names += std::format("{}\"{}\"", names.empty() ? "" : ", ", weight.weight);
  if (packed.size() > kMostNamed) names += std::format(" and {} more", packed.size() - kMostNamed);
  return std::format("{} weight{} ({}): {}", packed.size(), packed.size() == 1 ? "" : "s",
                     size_text(bytes), names);
}

Result<CompatibilityVerdict> fitness_of_programs(const ContextInfo& info,
                                                 std::span<const Program* const> programs,
                                                 const ProgramLoader& loader, int threads) {
  CompatibilityVerdict verdict = fitness_of(info, loader, threads);
  const auto* predicts = dynamic_cast<const PredictsPacking*>(&loader);
  if (predicts == nullptr || verdict.verdict != Compatibility::kOptimal ||
      predicts->is_of_this_library(info.fingerprint))
    return verdict;
  std::vector<PackedAtLoad> packed;
  for (const Program* program : programs) {
    auto found = CTXGEN_TRY(predicts->packed_at_load(*program, threads));
    packed.insert(packed.end(), found.begin(), found.end());
  }
  const std::string both =
      std::format("it is for \"{}\", here is \"{}\"", info.fingerprint, loader.fingerprint());
  if (packed.empty()) {
    verdict.reason = both + ", which takes its weights as they are";
    return verdict;
  }
  return CompatibilityVerdict{Compatibility::kPreferRecompilation,
                              std::format("{}: each load packs {}", both, to_string(packed))};
}

}  // namespace ctxgen
