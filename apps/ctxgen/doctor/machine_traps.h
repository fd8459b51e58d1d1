#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/partition/provider_info.h"

#include "doctor/machine_facts.h"

namespace ctxgen::cli {

/// A setting that costs time, or changes results, without a word.
struct Trap {
  std::string what, effect, help;
};

using Environment = std::function<const char*(const char* name)>;  // as std::getenv

/// Those of this process and machine.
[[nodiscard]] std::vector<Trap> find_traps(const MachineFacts& facts,
                                           const Environment& environment);

/// What a machine with more instructions would do faster, a sentence each.
[[nodiscard]] std::vector<std::string> faster_elsewhere(std::span<const InstructionSetState> isas);

}  // namespace ctxgen::cli
