#include <sched.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <oneapi/dnnl/dnnl.hpp>
#include <set>
#include <string>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onednn/exec.h"
#include "machine.h"

namespace ctxgen::onednn {
namespace {

struct IsaRow {
  dnnl::cpu_isa isa;
  std::string_view name;
};
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

std::string topology(int cpu, const char* name) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + name);
  std::string text;
  std::getline(file, text);
  return text;
}

std::string field(std::string_view fingerprint, std::string_view key) {
  std::size_t at = 0;
  while (at < fingerprint.size()) {
    const std::size_t end = std::min(fingerprint.find(';', at), fingerprint.size());
    const std::string_view item = fingerprint.substr(at, end - at);
    if (item.size() > key.size() && item.starts_with(key) && item[key.size()] == '=')
      return std::string(item.substr(key.size() + 1));
    at = end + 1;
  }
  return {};
}

/// Whether this process can run code for the instruction set `name`: oneDNN's values are bit sets
/// of features.
bool machine_has(std::string_view name) {
  for (const IsaRow& row : kIsas)
    if (row.name == name) {
      const auto want = static_cast<unsigned>(row.isa);
      return (want & static_cast<unsigned>(dnnl::get_effective_cpu_isa())) == want;
    }
  return false;
}

std::string cache_sizes() {
  std::string text;
  for (const int level : {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE}) {
    if (!text.empty()) text += '/';
    text += std::to_string(std::max(0L, sysconf(level)) / 1024);
  }
  return text;
}

CompatibilityVerdict verdict(Compatibility value, std::string reason) {
  return {value, std::move(reason)};
}

}  // namespace

std::string isa_name() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  for (const IsaRow& row : kIsas)
    if (row.isa == isa) return std::string(row.name);
  return "isa" + std::to_string(static_cast<unsigned>(isa));
}

std::string library_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::format("{}.{}.{}", version->major, version->minor, version->patch);
}

int default_threads() {
  static const int count = [] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
    std::set<std::string> cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      const std::string core = topology(cpu, "core_id");
      // Without topology each processor counts as a core.
      cores.insert(core.empty() ? "cpu" + std::to_string(cpu)
                                : topology(cpu, "physical_package_id") + ":" + core);
    }
    return std::max<int>(1, static_cast<int>(cores.size()));
  }();
  return count;
}

std::string make_fingerprint(int threads) {
  return std::format("format={};onednn={};isa={};threads={};cache={}", kFormatMajor,
                     library_version(), isa_name(), threads > 0 ? threads : default_threads(),
                     cache_sizes());
}

CompatibilityVerdict compare_fingerprint(std::string_view found, int threads) {
  const std::string here = make_fingerprint(threads);
  if (found == here) return verdict(Compatibility::kOptimal, "");
  for (const std::string_view key : {"format", "onednn"})
    if (field(found, key) != field(here, key))
      return verdict(Compatibility::kUnsupported, std::format("{} is \"{}\", expected \"{}\"", key,
                                                              field(found, key), field(here, key)));
  const std::string isa = field(found, "isa");
  if (isa != field(here, "isa") && !machine_has(isa))
    return verdict(Compatibility::kUnsupported,
                   std::format("instruction set is \"{}\", this machine has \"{}\"", isa,
                               field(here, "isa")));
  std::string reason;
  for (const std::string_view key : {"isa", "threads", "cache"})
    if (field(found, key) != field(here, key))
      reason += std::format("{}{} is \"{}\", here \"{}\"", reason.empty() ? "" : "; ", key,
                            field(found, key), field(here, key));
  if (reason.empty()) return verdict(Compatibility::kOptimal, "");
  return verdict(Compatibility::kPreferRecompilation, std::move(reason));
}

}  // namespace ctxgen::onednn
