#include "isa.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/onednn/exec.h"

namespace ctxgen::onednn {
namespace {

struct IsaRow {
  dnnl::cpu_isa isa;
  std::string_view name;
};
/// Values are sets of features, so one that includes another is larger. Where two rows have one
/// value, the first one's name is used.
constexpr IsaRow kIsas[] = {
    {dnnl::cpu_isa::sse41, "sse41"},
    {dnnl::cpu_isa::avx, "avx"},
    {dnnl::cpu_isa::avx2, "avx2"},
    {dnnl::cpu_isa::avx2_vnni, "avx2_vnni"},
    {dnnl::cpu_isa::avx2_vnni_2, "avx2_vnni_2"},
    {dnnl::cpu_isa::avx512_core, "avx512_core"},
    {dnnl::cpu_isa::avx512_core_vnni, "avx512_core_vnni"},
    {dnnl::cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
    {dnnl::cpu_isa::avx512_core_fp16, "avx512_core_fp16"},
    {dnnl::cpu_isa::avx10_1_512, "avx10_1_512"},
    {dnnl::cpu_isa::avx512_core_amx, "avx512_core_amx"},
    {dnnl::cpu_isa::avx512_core_amx_fp16, "avx512_core_amx_fp16"},
    {dnnl::cpu_isa::avx10_1_512_amx, "avx10_1_512_amx"},
    {dnnl::cpu_isa::avx10_1_512_amx_fp16, "avx10_1_512_amx_fp16"},
};

constexpr unsigned bits(dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); }
constexpr bool includes(dnnl::cpu_isa all, dnnl::cpu_isa part) {
  return (bits(all) & bits(part)) == bits(part);
}

std::string name_of(dnnl::cpu_isa isa) {
  for (const IsaRow& row : kIsas)
    if (row.isa == isa) return std::string(row.name);
  return "isa" + std::to_string(bits(isa));
}

const IsaRow* find(std::string_view name) {
  const auto row = std::ranges::find(kIsas, name, &IsaRow::name);
  return row == std::end(kIsas) ? nullptr : row;
}

Result<dnnl::cpu_isa> known(std::string_view name) {
  if (const IsaRow* row = find(name)) return row->isa;
  std::string names;
  for (const IsaRow& row : kIsas) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return fail(ErrorCode::kInvalidArgument, "unknown instruction set \"{}\", expected one of {}", name,
              names);
}

/// The user's own limit: to this process the machine has no more.
std::optional<dnnl::cpu_isa> environment_limit() {
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    std::string name(text);
    std::ranges::transform(name, name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (const IsaRow* row = find(name)) return row->isa;
    return std::nullopt;
  }
  return std::nullopt;
}

Status beyond(std::string_view name, dnnl::cpu_isa here) {
  return fail(ErrorCode::kInvalidArgument,
              "instruction set \"{}\" is beyond this machine, which has \"{}\"", name, name_of(here));
}

}  // namespace

std::string isa_name() { return name_of(dnnl::get_effective_cpu_isa()); }

Result<std::vector<std::string>> sort_isas(std::span<const std::string> names) {
  std::vector<dnnl::cpu_isa> isas;
  for (const std::string& name : names) {
    const dnnl::cpu_isa isa = CTXGEN_TRY(known(name));
    if (std::ranges::find(isas, isa) != isas.end())
      return fail(ErrorCode::kInvalidArgument, "instruction set \"{}\" is given twice", name);
    isas.push_back(isa);
  }
  std::ranges::sort(isas, {}, bits);
  for (const dnnl::cpu_isa isa : isas)
    if (!includes(isa, isas.front()))
      return fail(ErrorCode::kInvalidArgument,
                  "instruction set \"{}\" does not include \"{}\": what is compiled for several is "
                  "what the smallest of them can run, so the others have to include it",
                  name_of(isa), name_of(isas.front()));
  std::vector<std::string> sorted;
  for (const dnnl::cpu_isa isa : isas) sorted.push_back(name_of(isa));
  return sorted;
}

Status use_isa(std::string_view name) {
  const dnnl::cpu_isa wanted = CTXGEN_TRY(known(name));
  const auto limit = environment_limit();
  if (limit && !includes(*limit, wanted)) return beyond(name, *limit);
  const dnnl::status set = dnnl::set_max_cpu_isa(wanted);
  const dnnl::cpu_isa here = dnnl::get_effective_cpu_isa();
  if (here == wanted) return {};
  if (!includes(here, wanted)) return beyond(name, here);
  return fail(ErrorCode::kInvalidArgument,
              "instruction set \"{}\": oneDNN {} with \"{}\" in this process, which cannot be changed: "
              "set it before oneDNN is used, compile in another process (ctxgen compile --isa), or "
              "start this one with ONEDNN_MAX_CPU_ISA",
              name, set == dnnl::status::unimplemented ? "works" : "works already", name_of(here));
}

std::optional<std::size_t> best_isa(std::span<const std::string> isas) {
  const dnnl::cpu_isa here = dnnl::get_effective_cpu_isa();
  std::optional<std::size_t> best;
  unsigned best_bits = 0;
  for (std::size_t i = 0; i < isas.size(); ++i) {
    const IsaRow* row = find(isas[i]);
    // A machine below all names has a number for a name.
    const bool fits = row != nullptr ? includes(here, row->isa) : isas[i] == isa_name();
    const unsigned found = row != nullptr ? bits(row->isa) : 0;
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
