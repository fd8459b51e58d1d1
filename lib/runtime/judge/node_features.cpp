#include "ctxgen/runtime/node_features.h"

#include <algorithm>
#include <cstdint>
#include <format>
#include <optional>
#include <string_view>

#include "ctxgen/base/instruction_set.h"

namespace ctxgen {
namespace {

// Names of github.com/klauspost/cpuid, which node-feature-discovery takes for its labels.
struct Flag {
  std::uint32_t bit;  // of InstructionSet
  std::string_view name;
};
constexpr Flag kFlags[] = {
    {0x2, "AVX"},          {0x4, "AVX2"},          {0x4, "FMA3"},        {0x8, "AVXVNNI"},
    {0x10, "AVXVNNIINT8"}, {0x10, "AVXNECONVERT"}, {0x20, "AVX512F"},    {0x20, "AVX512BW"},
    {0x20, "AVX512DQ"},    {0x20, "AVX512VL"},     {0x40, "AVX512VNNI"}, {0x80, "AVX512BF16"},
    {0x100, "AVX512FP16"}, {0x200, "AMXTILE"},     {0x400, "AMXINT8"},   {0x800, "AMXBF16"},
    {0x1000, "AMXFP16"},
};

std::optional<std::uint32_t> bits_of(std::string_view name) {
  for (const NamedInstructionSet& known : instruction_sets())
    if (known.name == name) return static_cast<std::uint32_t>(known.value);
  return std::nullopt;
}

std::vector<std::string> labels_of(std::uint32_t bits) {
  std::vector<std::string> labels;
  for (const Flag& flag : kFlags)
    if ((bits & flag.bit) != 0)
      labels.push_back(std::format("feature.node.kubernetes.io/cpu-cpuid.{}", flag.name));
  return labels;
}

}  // namespace

NodeFeatures node_features(std::span<const std::string> instruction_sets) {
  std::optional<std::uint32_t> least;
  std::uint32_t most = 0;
  for (const std::string& name : instruction_sets)
    if (const auto bits = bits_of(name)) {
      if (!least) least = bits;
      most |= *bits;
    }
  if (!least) return {};
  return {.required = labels_of(*least), .preferred = labels_of(most & ~*least)};
}

}  // namespace ctxgen
