#include "ctxgen/base/instruction_set.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

#include "ctxgen/base/suggest.h"

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
// Tiles of AMX are given to processes that ask for them (Documentation/arch/x86/xstate.rst of Linux).
constexpr unsigned kTileData = 18;

/// Whether the system lets processes have them.
bool system_has_tiles() {
  constexpr long kGetSupported = 0x1021;  // ARCH_GET_XCOMP_SUPP
  std::uint64_t supported = 0;
  return syscall(SYS_arch_prctl, kGetSupported, &supported) == 0 &&
         (supported >> kTileData & 1) != 0;
}

bool ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, long{kTileData}) == 0;
}
#else
bool ask_for_tiles() { return false; }
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

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const NamedInstructionSet& row : instruction_sets()) names.emplace_back(row.name);
  return names;
}

std::optional<InstructionSet> find(std::string_view name) {
  for (const NamedInstructionSet& row : instruction_sets())
    if (row.name == name) return row.value;
  return std::nullopt;
}

Result<InstructionSet> known(std::string_view name) {
  if (const auto set = find(name)) return *set;
  const std::vector<std::string> names = all_names();
  return fail(ErrorCode::kInvalidArgument, "unknown instruction set \"{}\"{}; expected {}", name,
              did_you_mean(name, names), one_of_text(names));
}

/// Of features that no name has in this combination, the name that comes closest from below.
std::string largest_name(InstructionSet set) {
  const std::vector<std::string> names = all_names();
  const auto best = best_instruction_set(names, set);
  return best ? instruction_set_name(*find(names[*best])) : instruction_set_name(set);
}

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

bool may_use_tiles() {
  if (!includes(usable_instruction_set(), kAvx512CoreAmx)) return false;
  static const bool given = ask_for_tiles();
  return given;
}

void limit_instruction_set(InstructionSet most) {
  usable_bits().fetch_and(bits(most));  // before the levels are found again
  detail::find_simd_level();
}

std::string instruction_set_name(InstructionSet set) {
  for (const NamedInstructionSet& row : instruction_sets())
    if (row.value == set) return std::string(row.name);
  return "isa" + std::to_string(bits(set));
}

Result<InstructionSet> find_on_machine(std::string_view name) {
  const InstructionSet set = CTXGEN_TRY(known(name));
  if (includes(machine_instruction_set(), set)) return set;
  return fail(ErrorCode::kInvalidArgument,
              "instruction set \"{}\" is beyond this machine, which has \"{}\"", name,
              largest_name(machine_instruction_set()));
}

Result<std::vector<std::string>> sort_instruction_sets(std::span<const std::string> names) {
  std::vector<InstructionSet> sets;
  for (const std::string& name : names) {
    const InstructionSet set = CTXGEN_TRY(known(name));
    if (std::ranges::find(sets, set) != sets.end())
      return fail(ErrorCode::kInvalidArgument, "instruction set \"{}\" is given twice", name);
    sets.push_back(set);
  }
  std::ranges::sort(sets, {}, bits);
  for (const InstructionSet set : sets)
    if (!includes(set, sets.front()))
      return fail(
          ErrorCode::kInvalidArgument,
          "instruction set \"{}\" does not include \"{}\": the smallest of several decides what is compiled, so the others must include it",
          instruction_set_name(set), instruction_set_name(sets.front()));
  std::vector<std::string> sorted;
  for (const InstructionSet set : sets) sorted.push_back(instruction_set_name(set));
  return sorted;
}

std::optional<std::size_t> best_instruction_set(std::span<const std::string> names,
                                                InstructionSet set) {
  std::optional<std::size_t> best;
  std::uint32_t best_bits = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto named = find(names[i]);
    // A machine below all names has a number for a name.
    const bool fits = named ? includes(set, *named) : names[i] == instruction_set_name(set);
    const std::uint32_t found = named ? bits(*named) : 0;
    if (!fits || (best && found < best_bits)) continue;
    best = i;
    best_bits = found;
  }
  return best;
}

Status limit_to_instruction_set(std::string_view name) {
  const InstructionSet wanted = CTXGEN_TRY(find_on_machine(name));
  if (!includes(usable_instruction_set(), wanted))
    return fail(
        ErrorCode::kInvalidArgument,
        "instruction set \"{}\": this process is limited to \"{}\", which cannot be changed: "
        "compile in another process (ctxgen compile --isa)",
        name, largest_name(usable_instruction_set()));
  limit_instruction_set(wanted);
  return {};
}

}  // namespace ctxgen
