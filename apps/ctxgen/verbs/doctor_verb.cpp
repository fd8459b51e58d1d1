#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <format>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/base/version.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onnx/infer.h"
#include "ctxgen/registry/providers.h"

#include "cli.h"
#include "doctor/machine_facts.h"
#include "doctor/machine_traps.h"
#include "running/bench_measure.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen doctor\n"
    "  ctxgen doctor --json\n";

struct Flags {
  bool json = false;
  Verbosity verbosity;
};

/// The compile cache of CTXGEN_CACHE_DIR; looking does not make it.
struct CacheState {
  std::string folder;  // "": none is set
  bool there = false, writable = false;
  CacheFolder::Usage usage = {};
};

struct Diagnosis {
  MachineFacts machine;
  ProviderInfo provider;  // of the first one that has instruction sets
  std::vector<InstructionSetState> isas;
  MachinePeaks peaks;
  CacheState cache;
  std::vector<Trap> traps;
  std::vector<std::string> faster;
};

Result<CacheState> cache_state() {
  CacheState state;
  const fs::path folder = cache_folder_from_environment();
  state.folder = folder.string();
  std::error_code ignored;
  state.there = !folder.empty() && fs::is_directory(folder, ignored);
  if (!state.there) return state;
  state.writable = access(folder.c_str(), W_OK | X_OK) == 0;
  const auto cache = CTXGEN_TRY(CacheFolder::open(folder, CacheFolder::kDefaultMaxBytes));
  state.usage = cache->contents().all();
  return state;
}

Result<Diagnosis> diagnose() {
  Diagnosis result;
  result.machine = machine_facts();
  for (const std::string& name : provider_names()) {
    if (!result.isas.empty()) break;
    const auto provider = CTXGEN_TRY(make_provider(name));
    result.provider = provider->info();
    result.isas = provider->instruction_sets();
  }
  result.peaks = CTXGEN_TRY(machine_peaks(0, 0));
  result.cache = CTXGEN_TRY(cache_state());
  result.traps = find_traps(result.machine, [](const char* name) { return std::getenv(name); });
  if (!result.cache.folder.empty() && result.cache.there && !result.cache.writable)
    result.traps.push_back({std::format("CTXGEN_CACHE_DIR={}", result.cache.folder),
                            "the folder cannot be written: nothing is remembered",
                            "name a folder of your own"});
  result.faster = faster_elsewhere(result.isas);
  return result;
}

std::string json_text(const Diagnosis& d) {
  JsonWriter json;
  json.begin_object()
      .key("versions")
      .begin_object()
      .field("ctxgen", std::string_view(CTXGEN_VERSION_STRING))
      .field("format", std::format("{}.{}", kFormatMajor, kFormatMinor))
      .field("library", d.provider.library)
      .field("onnx", onnx_version())
      .end_object()
      .key("machine")
      .begin_object()
      .field("processor", d.machine.processor)
      .field("processors", d.machine.processors)
      .field("cores", d.machine.cores)
      .field("online", d.machine.online)
      .key("quota");
  d.machine.quota ? json.value(*d.machine.quota) : json.null();
  json.field("threads", d.provider.threads).key("cache_bytes").begin_array();
  for (const std::uint64_t bytes : d.machine.cache_bytes) json.value(bytes);
  json.end_array()
      .field("memory_bytes", d.machine.memory_bytes)
      .field("memory_limit_bytes", d.machine.memory_limit)
      .field("governor", d.machine.governor)
      .end_object()
      .field("isa", d.provider.instruction_set)
      .key("instruction_sets")
      .begin_array();
  for (const auto& [name, usable] : d.isas)
    json.begin_object().field("name", name).field("usable", usable).end_object();
  json.end_array();
  write_peaks(json, d.peaks);
  json.key("cache")
      .begin_object()
      .field("folder", d.cache.folder)
      .field("there", d.cache.there)
      .field("writable", d.cache.writable)
      .field("entries", d.cache.usage.entries)
      .field("bytes", d.cache.usage.bytes)
      .end_object()
      .key("traps")
      .begin_array();
  for (const Trap& trap : d.traps)
    json.begin_object()
        .field("what", trap.what)
        .field("effect", trap.effect)
        .field("help", trap.help)
        .end_object();
  json.end_array().list("faster_elsewhere", d.faster).end_object();
  return json.finish();
}

std::string cores_text(const Diagnosis& d) {
  const MachineFacts& machine = d.machine;
  std::string text =
      std::format("{}, {}", count_text(static_cast<std::uint64_t>(machine.cores), "core"),
                  count_text(static_cast<std::uint64_t>(machine.processors), "hardware thread"));
  if (machine.quota) text += std::format(", a quota of {:.2f}", *machine.quota);
  return text + std::format("; runs use {} by default",
                            count_text(static_cast<std::uint64_t>(d.provider.threads), "thread"));
}

std::string memory_text(const MachineFacts& machine) {
  std::string text = size_text(machine.memory_bytes);
  if (machine.memory_limit > 0)
    text += std::format(", of it {} here", size_text(machine.memory_limit));
  std::string caches;
  for (const std::uint64_t bytes : machine.cache_bytes)
    if (bytes > 0) caches += (caches.empty() ? "" : ", ") + size_text(bytes);
  return caches.empty() ? text : text + "; caches " + caches;
}

std::string peaks_line(const MachinePeaks& peaks) {
  std::string text = std::format("{:.0f} GFLOP/s in f32", peaks.gflops);
  if (peaks.bf16_gflops > 0) text += std::format(", {:.0f} in bf16", peaks.bf16_gflops);
  if (peaks.int8_gops > 0) text += std::format(", {:.0f} GOP/s in 8 bits", peaks.int8_gops);
  return text + std::format("; memory {:.1f} GB/s", peaks.gbytes);
}

std::string cache_line(const CacheState& cache) {
  if (cache.folder.empty()) return "none: CTXGEN_CACHE_DIR or --cache-dir names a folder";
  if (!cache.there) return cache.folder + ", made by the next compile";
  return std::format("{}: {} entries, {}{}", cache.folder, cache.usage.entries,
                     size_text(cache.usage.bytes), cache.writable ? "" : ", read-only");
}

std::string usable_names(const std::vector<InstructionSetState>& isas) {
  std::string names;
  for (const auto& [name, usable] : isas)
    if (usable) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

std::string plain_text(const Diagnosis& d) {
  TextTable table;
  table.row(
      {"ctxgen", std::format("{}, context format {}.{}, {}, onnx {}", CTXGEN_VERSION_STRING,
                             kFormatMajor, kFormatMinor, d.provider.library, onnx_version())});
  if (!d.machine.processor.empty()) table.row({"processor", d.machine.processor});
  table.row({"cores", cores_text(d)});
  table.row({"instructions", d.provider.instruction_set});
  table.row({"--isa takes", usable_names(d.isas)});
  table.row({"memory", memory_text(d.machine)});
  table.row({"peaks, now", peaks_line(d.peaks)});
  table.row({"compile cache", cache_line(d.cache)});
  std::string text = table.text();
  for (const Trap& trap : d.traps)
    text += std::format("\ntrap: {}\n  {}\n  {}\n", trap.what, trap.effect, trap.help);
  if (d.traps.empty()) text += "\nno known trap in the environment\n";
  if (!d.faster.empty()) text += "\nfaster on another machine:\n";
  for (const std::string& line : d.faster) text += "  " + line + "\n";
  return text;
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  const Diagnosis diagnosis = CTXGEN_TRY(diagnose());
  CTXGEN_CHECK(print(flags.json ? json_text(diagnosis) : plain_text(diagnosis)));
  return 0;
}

}  // namespace

void add_doctor(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand(
      "doctor", "say what this machine has, how fast it is, and what in its settings costs time");
  verb.add_flag("--json", flags->json, "print JSON");
  add_verbosity(verb, flags->verbosity);
  verb.footer(kExamples);
  verb.callback([&cli, flags] { cli.action = [flags] { return run(*flags); }; });
}

}  // namespace ctxgen::cli
