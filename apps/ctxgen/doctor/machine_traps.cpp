#include "doctor/machine_traps.h"

#include <algorithm>
#include <format>
#include <string_view>

#include "ctxgen/base/usable_cores.h"

#include "term/console.h"

namespace ctxgen::cli {
namespace {

struct Variable {
  const char* name;
  const char* effect;
};

/// Variables that act on every process which inherits them.
constexpr Variable kVariables[] = {
    {"ONEDNN_MAX_CPU_ISA", "instructions beyond it stay unused, here and in what is compiled here"},
    {"DNNL_MAX_CPU_ISA", "instructions beyond it stay unused, here and in what is compiled here"},
    {"ONEDNN_DEFAULT_FPMATH_MODE", "oneDNN may compute f32 in a smaller precision: results change"},
    {"DNNL_DEFAULT_FPMATH_MODE", "oneDNN may compute f32 in a smaller precision: results change"},
    {"ONEDNN_VERBOSE", "oneDNN writes a line for each primitive"},
    {"DNNL_VERBOSE", "oneDNN writes a line for each primitive"},
    {"ONEDNN_JIT_DUMP", "oneDNN writes its code into files of the current folder"},
    {"ONEDNN_JIT_PROFILE", "oneDNN writes files for profilers"},
    {"OMP_PROC_BIND",
     "threads stay on their processors: two processes may share one and leave others idle"},
    {"OMP_PLACES",
     "threads stay on their processors: two processes may share one and leave others idle"},
    {"GOMP_CPU_AFFINITY",
     "threads stay on their processors: two processes may share one and leave others idle"},
    {"OMP_DYNAMIC", "OpenMP may run with fewer threads than asked for"},
    {"OMP_THREAD_LIMIT", "OpenMP may run with fewer threads than asked for"},
    {"LD_PRELOAD", "other code runs in each process, such as another allocator"},
};

void add_threads(const MachineFacts& facts, const Environment& environment,
                 std::vector<Trap>& traps) {
  const char* const text = environment("OMP_NUM_THREADS");
  if (text == nullptr) return;
  const auto threads = threads_of_openmp(text);
  const std::string what = std::format("OMP_NUM_THREADS={}", text);
  if (!threads)
    traps.push_back({what, "it has no effect: not a number", "unset it, or use --threads"});
  else if (facts.cores > 0 && *threads < facts.cores)
    traps.push_back({what,
                     std::format("only {} of {} compute", *threads,
                                 count_text(static_cast<std::uint64_t>(facts.cores), "core")),
                     "unset it where a process has the machine to itself"});
  else if (facts.cores > 0 && *threads > facts.cores)
    traps.push_back({what,
                     std::format("more threads than the {} that this process may use",
                                 count_text(static_cast<std::uint64_t>(facts.cores), "core")),
                     "unset it: one thread for each core is the default"});
}

void add_limits(const MachineFacts& facts, std::vector<Trap>& traps) {
  if (facts.quota && facts.cores > 0 && *facts.quota < facts.cores)
    traps.push_back({std::format("a quota of {:.2f} processors (cpu.max)", *facts.quota),
                     std::format("runs stop when it is used up, although there are {}",
                                 count_text(static_cast<std::uint64_t>(facts.cores), "core")),
                     "raise the container's limit of CPUs, or leave it: threads follow it"});
  if (facts.processors > 0 && facts.processors < facts.online)
    traps.push_back(
        {std::format("an affinity mask of {} of {} processors", facts.processors, facts.online),
         "the others stay unused", "taskset -pc shows and changes it"});
  if (facts.memory_limit > 0)
    traps.push_back({std::format("a memory limit of {}", size_text(facts.memory_limit)),
                     "weights that are read from files count while they are in use",
                     "raise the container's limit if loading gets slow or is killed"});
  if (facts.governor == "powersave")
    traps.push_back({"frequency governor powersave", "short runs end before the clock has risen",
                     "cpupower frequency-set -g performance"});
}

bool has(std::span<const InstructionSetState> isas, std::string_view part) {
  return std::ranges::any_of(
      isas, [&](const InstructionSetState& isa) { return isa.usable && isa.name.contains(part); });
}

}  // namespace

std::vector<Trap> find_traps(const MachineFacts& facts, const Environment& environment) {
  std::vector<Trap> traps;
  for (const auto& [name, effect] : kVariables)
    if (const char* const text = environment(name); text != nullptr && *text != '\0')
      traps.push_back({std::format("{}={}", name, text), effect, std::format("unset {}", name)});
  add_threads(facts, environment, traps);
  add_limits(facts, traps);
  return traps;
}

std::vector<std::string> faster_elsewhere(std::span<const InstructionSetState> isas) {
  std::vector<std::string> lines;
  if (isas.empty()) return lines;
  if (!has(isas, "avx512"))
    lines.emplace_back("AVX-512: f32 products and convolutions, with vectors twice as wide");
  if (!has(isas, "vnni"))
    lines.emplace_back("VNNI: models of 8-bit integers, which run as f32 here");
  if (!has(isas, "bf16") && !has(isas, "amx"))
    lines.emplace_back("AVX-512 BF16: bf16 arithmetic, about twice as fast as f32");
  if (!has(isas, "amx"))
    lines.emplace_back(
        "AMX: products and convolutions in bf16 and 8-bit integers, several times as fast");
  return lines;
}

}  // namespace ctxgen::cli
