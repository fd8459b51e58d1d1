#include "run/isa.h"

#include <algorithm>
#include <cstdint>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/base/suggest.h"
#include "ctxgen/onednn/exec.h"

namespace ctxgen::onednn {
namespace {

// The values of base's are oneDNN's.
#define CTXGEN_SAME(ours, theirs)                                   \
  static_assert(static_cast<std::uint32_t>(InstructionSet::ours) == \
                static_cast<std::uint32_t>(dnnl::cpu_isa::theirs))
CTXGEN_SAME(kSse41, sse41);
CTXGEN_SAME(kAvx, avx);
CTXGEN_SAME(kAvx2, avx2);
CTXGEN_SAME(kAvx2Vnni, avx2_vnni);
CTXGEN_SAME(kAvx2Vnni2, avx2_vnni_2);
CTXGEN_SAME(kAvx512Core, avx512_core);
CTXGEN_SAME(kAvx512CoreVnni, avx512_core_vnni);
CTXGEN_SAME(kAvx512CoreBf16, avx512_core_bf16);
CTXGEN_SAME(kAvx512CoreFp16, avx512_core_fp16);
CTXGEN_SAME(kAvx512CoreFp16, avx10_1_512);
CTXGEN_SAME(kAvx512CoreAmx, avx512_core_amx);
CTXGEN_SAME(kAvx512CoreAmx, avx10_1_512_amx);
CTXGEN_SAME(kAvx512CoreAmxFp16, avx512_core_amx_fp16);
CTXGEN_SAME(kAvx512CoreAmxFp16, avx10_1_512_amx_fp16);
#undef CTXGEN_SAME

std::uint32_t bits(InstructionSet isa) { return static_cast<std::uint32_t>(isa); }

/// What oneDNN uses in this process.
InstructionSet here() {
  return InstructionSet{static_cast<std::uint32_t>(dnnl::get_effective_cpu_isa())};
}

std::string name_of(InstructionSet isa) {
  for (const NamedInstructionSet& row : instruction_sets())
    if (row.value == isa) return std::string(row.name);
  return "isa" + std::to_string(bits(isa));
}

std::optional<InstructionSet> find(std::string_view name) {
  for (const NamedInstructionSet& row : instruction_sets())
    if (row.name == name) return row.value;
  return std::nullopt;
}

Result<InstructionSet> known(std::string_view name) {
  if (const auto isa = find(name)) return *isa;
  std::vector<std::string> names;
  for (const NamedInstructionSet& row : instruction_sets()) names.emplace_back(row.name);
  return fail(ErrorCode::kInvalidArgument, "unknown instruction set \"{}\"{}; expected {}", name,
              did_you_mean(name, names), one_of_text(names));
}

Status beyond(std::string_view name) {
  return fail(ErrorCode::kInvalidArgument,
              "instruction set \"{}\" is beyond this machine, which has \"{}\"", name,
              name_of(here()));
}

}  // namespace

std::string isa_name() { return name_of(here()); }

std::vector<IsaState> isas() {
  std::vector<IsaState> states;
  for (const NamedInstructionSet& row : instruction_sets())
    states.push_back({row.name, includes(machine_instruction_set(), row.value)});
  return states;
}

bool has_fast_int8() {
  return includes(here(), InstructionSet::kAvx2Vnni) ||
         includes(here(), InstructionSet::kAvx512CoreVnni);
}

Result<std::vector<std::string>> sort_isas(std::span<const std::string> names) {
  std::vector<InstructionSet> isas;
  for (const std::string& name : names) {
    const InstructionSet isa = CTXGEN_TRY(known(name));
    if (std::ranges::find(isas, isa) != isas.end())
      return fail(ErrorCode::kInvalidArgument, "instruction set \"{}\" is given twice", name);
    isas.push_back(isa);
  }
  std::ranges::sort(isas, {}, bits);
  for (const InstructionSet isa : isas)
    if (!includes(isa, isas.front()))
      return fail(
          ErrorCode::kInvalidArgument,
          "instruction set \"{}\" does not include \"{}\": the smallest of several decides what is compiled, so the others must include it",
          name_of(isa), name_of(isas.front()));
  std::vector<std::string> sorted;
  for (const InstructionSet isa : isas) sorted.push_back(name_of(isa));
  return sorted;
}

Status use_isa(std::string_view name) {
  const InstructionSet wanted = CTXGEN_TRY(known(name));
  if (!includes(machine_instruction_set(), wanted)) return beyond(name);
  const dnnl::status set = dnnl::set_max_cpu_isa(static_cast<dnnl::cpu_isa>(wanted));
  const InstructionSet used = here();
  if (used == wanted) {
    limit_instruction_set(wanted);
    return {};
  }
  return fail(
      ErrorCode::kInvalidArgument,
      "instruction set \"{}\": oneDNN {} with \"{}\" in this process, which cannot be changed: "
      "set it before oneDNN is used, compile in another process (ctxgen compile --isa), or "
      "start this one with ONEDNN_MAX_CPU_ISA",
      name, set == dnnl::status::unimplemented ? "works" : "works already", name_of(used));
}

std::optional<std::size_t> best_isa(std::span<const std::string> isas) {
  const InstructionSet machine = here();
  std::optional<std::size_t> best;
  std::uint32_t best_bits = 0;
  for (std::size_t i = 0; i < isas.size(); ++i) {
    const auto isa = find(isas[i]);
    // A machine below all names has a number for a name.
    const bool fits = isa ? includes(machine, *isa) : isas[i] == isa_name();
    const std::uint32_t found = isa ? bits(*isa) : 0;
    if (!fits || (best && found < best_bits)) continue;
    best = i;
    best_bits = found;
  }
  return best;
}

std::vector<std::string> split_isas(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    names.emplace_back(one);
    text.remove_prefix(std::min(text.size(), one.size() + 1));
  }
  return names;
}

}  // namespace ctxgen::onednn
