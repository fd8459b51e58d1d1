#include "run/isa.h"

#include <algorithm>
#include <cstdint>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/instruction_set.h"
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

/// What oneDNN uses in this process.
InstructionSet here() {
  return InstructionSet{static_cast<std::uint32_t>(dnnl::get_effective_cpu_isa())};
}

}  // namespace

std::string isa_name() { return instruction_set_name(here()); }

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

Status use_isa(std::string_view name) {
  const InstructionSet wanted = CTXGEN_TRY(find_on_machine(name));
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
      name, set == dnnl::status::unimplemented ? "works" : "works already",
      instruction_set_name(used));
}

std::optional<std::size_t> best_isa(std::span<const std::string> isas) {
  return best_instruction_set(isas, here());
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
