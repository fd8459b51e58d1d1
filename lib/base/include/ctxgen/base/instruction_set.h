#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen {

// The one switch that says which instructions a process may use. oneDNN follows it by its own limit,
// code of ours by usable_instruction_set() and simd_loop() (simd.h), never by asking the processor.

/// Instruction sets of x86-64. The values are oneDNN's (dnnl_cpu_isa_t): sets of features, so that
/// one that includes another has all its bits and is larger.
enum class InstructionSet : std::uint32_t {
  kBaseline = 0,  // SSE2
  kSse41 = 0x1,
  kAvx = 0x3,
  kAvx2 = 0x7,
  kAvx2Vnni = 0xf,
  kAvx2Vnni2 = 0x1f,
  kAvx512Core = 0x27,  // F, BW, DQ, VL
  kAvx512CoreVnni = 0x67,
  kAvx512CoreBf16 = 0xe7,
  kAvx512CoreFp16 = 0x1ef,
  kAvx512CoreAmx = 0xfef,
  kAvx512CoreAmxFp16 = 0x1fef,
};

[[nodiscard]] constexpr bool includes(InstructionSet all, InstructionSet part) {
  const auto bits = static_cast<std::uint32_t>(part);
  return (static_cast<std::uint32_t>(all) & bits) == bits;
}

struct NamedInstructionSet {
  std::string_view name;  // oneDNN's, in lower case
  InstructionSet value;
};

/// All that have a name, smaller ones first. Of two with one value the first one's name is used.
[[nodiscard]] std::span<const NamedInstructionSet> instruction_sets();

/// Of two names with one value the first one; "isa24" for a value that has no name.
[[nodiscard]] std::string instruction_set_name(InstructionSet set);

/// What the user allows every process that inherits the environment: ONEDNN_MAX_CPU_ISA, else
/// DNNL_MAX_CPU_ISA, in upper or lower case. Nothing where neither is set, or where the name is none
/// of instruction_sets(): oneDNN passes over such a name too.
[[nodiscard]] std::optional<InstructionSet> instruction_set_of_environment();

/// What processor and system have, within the environment's limit as it was at the first call.
[[nodiscard]] InstructionSet machine_instruction_set();

/// What this process may use: the machine's, within what limit_instruction_set() was given. Any
/// thread.
[[nodiscard]] InstructionSet usable_instruction_set();

/// Whether this process may use AMX's tiles: usable_instruction_set() has them, and the system, which is asked
/// once, gives them to the process and its threads. Any thread.
[[nodiscard]] bool may_use_tiles();

/// From now on the process uses nothing beyond `most`. A limit can be lowered only.
void limit_instruction_set(InstructionSet most);

/// Errors  INVALID_ARGUMENT: unknown, or beyond machine_instruction_set().
[[nodiscard]] Result<InstructionSet> find_on_machine(std::string_view name);

/// Each once and by its first name, one that another includes before it.
/// Errors  INVALID_ARGUMENT: unknown (naming the known ones), there twice, or the first one is not
///         part of all others.
[[nodiscard]] Result<std::vector<std::string>> sort_instruction_sets(
    std::span<const std::string> names);

/// Index of the most able one that `set` includes; nothing if it includes none.
[[nodiscard]] std::optional<std::size_t> best_instruction_set(std::span<const std::string> names,
                                                              InstructionSet set);

/// As limit_instruction_set(), by name.
/// Errors  INVALID_ARGUMENT: unknown, beyond this machine, or beyond an earlier limit.
[[nodiscard]] Status limit_to_instruction_set(std::string_view name);

/// The vector code that is worth compiling, x86-64-v3 and x86-64-v4; each level includes the one
/// before.
enum class SimdLevel : int { kUnknown, kBaseline, kAvx2, kAvx512 };

namespace detail {
extern constinit std::atomic<SimdLevel> simd_level;
SimdLevel find_simd_level();
}  // namespace detail

/// The best one within processor and usable_instruction_set().
[[nodiscard]] inline SimdLevel simd_level() {
  const SimdLevel level = detail::simd_level.load(std::memory_order_relaxed);
  return level == SimdLevel::kUnknown ? detail::find_simd_level() : level;
}

}  // namespace ctxgen
