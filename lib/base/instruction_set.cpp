#include "ctxgen/base/instruction_set.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

namespace ctxgen {
namespace {

using enum InstructionSet;

constexpr NamedInstructionSet kNames[] = {
    {"sse41", kSse41},
    {"avx", kAvx},
    {"avx2", kAvx2},
    {"avx2_vnni", kAvx2Vnni},
    {"avx2_vnni_2", kAvx2Vnni2},
    {"avx512_core", kAvx512Core},
    {"avx512_core_vnni", kAvx512CoreVnni},
    {"avx512_core_bf16", kAvx512CoreBf16},
    {"avx512_core_fp16", kAvx512CoreFp16},
    {"avx10_1_512", kAvx512CoreFp16},
    {"avx512_core_amx", kAvx512CoreAmx},
    {"avx512_core_amx_fp16", kAvx512CoreAmxFp16},
    {"avx10_1_512_amx", kAvx512CoreAmx},
    {"avx10_1_512_amx_fp16", kAvx512CoreAmxFp16},
};

constexpr std::uint32_t bits(InstructionSet set) { return static_cast<std::uint32_t>(set); }

#if defined(__x86_64__)
/// Whether the system lets processes have AMX's tiles (Documentation/arch/x86/xstate.rst of Linux).
bool system_has_tiles() {
  constexpr long kGetSupported = 0x1021;  // ARCH_GET_XCOMP_SUPP
  constexpr unsigned kTileData = 18;
  std::uint64_t supported = 0;
  return syscall(SYS_arch_prctl, kGetSupported, &supported) == 0 &&
         (supported >> kTileData & 1) != 0;
}
#endif

/// What oneDNN calls so: a feature for each bit of InstructionSet. The operating system's part is in them.
InstructionSet of_processor() {
  std::uint32_t found = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto add = [&](bool has, std::uint32_t feature) { found |= has ? feature : 0U; };
  add(__builtin_cpu_supports("sse4.1"), 0x1);
  add(__builtin_cpu_supports("avx"), 0x2);
  add(__builtin_cpu_supports("avx2"), 0x4);
  add(__builtin_cpu_supports("avxvnni"), 0x8);
  add(__builtin_cpu_supports("avxvnniint8") && __builtin_cpu_supports("avxneconvert"), 0x10);
  add(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"),
      0x20);
  add(__builtin_cpu_supports("avx512vnni"), 0x40);
  add(__builtin_cpu_supports("avx512bf16"), 0x80);
  add(__builtin_cpu_supports("avx512fp16"), 0x100);
  if (!__builtin_cpu_supports("amx-tile") || !system_has_tiles()) return InstructionSet{found};
  found |= 0x200;
  add(__builtin_cpu_supports("amx-int8"), 0x400);
  add(__builtin_cpu_supports("amx-bf16"), 0x800);
  add(__builtin_cpu_supports("amx-fp16"), 0x1000);
#endif
  return InstructionSet{found};
}

std::atomic<std::uint32_t>& usable_bits() {
  static std::atomic<std::uint32_t> usable = bits(machine_instruction_set());
  return usable;
}

constinit std::mutex g_levels;

}  // namespace

constinit std::atomic<SimdLevel> detail::simd_level = SimdLevel::kUnknown;

SimdLevel detail::find_simd_level() {
  const std::lock_guard lock(g_levels);  // a limit that comes meanwhile is not overwritten
  const InstructionSet usable = usable_instruction_set();
  SimdLevel level = SimdLevel::kBaseline;
#if defined(__x86_64__)
  // What the compiler was told has a little more than oneDNN asks for (BMI, F16C, FMA; CD).
  __builtin_cpu_init();
  if (includes(usable, kAvx2) && __builtin_cpu_supports("x86-64-v3")) level = SimdLevel::kAvx2;
  if (includes(usable, kAvx512Core) && __builtin_cpu_supports("x86-64-v4"))
    level = SimdLevel::kAvx512;
#endif
  simd_level.store(level, std::memory_order_relaxed);
  return level;
}

std::span<const NamedInstructionSet> instruction_sets() { return kNames; }

std::optional<InstructionSet> instruction_set_of_environment() {
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    std::string name(text);
    std::ranges::transform(name, name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const auto* const row = std::ranges::find(kNames, name, &NamedInstructionSet::name);
    if (row != std::end(kNames)) return row->value;
    return std::nullopt;
  }
  return std::nullopt;
}

InstructionSet machine_instruction_set() {
  static const InstructionSet machine{
      bits(of_processor()) & bits(instruction_set_of_environment().value_or(InstructionSet{~0U}))};
  return machine;
}

InstructionSet usable_instruction_set() { return InstructionSet{usable_bits().load()}; }

void limit_instruction_set(InstructionSet most) {
  usable_bits().fetch_and(bits(most));  // before the levels are found again
  detail::find_simd_level();
}

}  // namespace ctxgen
