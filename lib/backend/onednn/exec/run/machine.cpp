#include "run/machine.h"

#include <unistd.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <string>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/usable_cores.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onednn/exec.h"

#include "run/isa.h"

namespace ctxgen::onednn {
namespace {

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

constexpr std::string_view kPortable = "portable";

/// "3" of "3.12.1".
std::string major_of(const std::string& version) { return version.substr(0, version.find('.')); }

/// The first key of which `found` and `expected` say different things.
std::optional<CompatibilityVerdict> unsupported_key(std::string_view found,
                                                    std::string_view expected,
                                                    std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (field(found, key) != field(expected, key))
      return verdict(Compatibility::kUnsupported,
                     std::format("{} is \"{}\", expected \"{}\"", key, field(found, key),
                                 field(expected, key)));
  return std::nullopt;
}

}  // namespace

std::string library_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::format("{}.{}.{}", version->major, version->minor, version->patch);
}

int default_threads() { return usable_cores(); }

std::string make_fingerprint(std::span<const std::string> isas) {
  std::string names;
  for (const std::string& isa : isas) names += (names.empty() ? "" : ",") + isa;
  return std::format("format={};onednn={};isa={}", kFormatMajor, library_version(),
                     names.empty() ? isa_name() : names);
}

std::string portable_fingerprint() {
  return std::format("format={};onednn={};isa={}", kFormatMajor, dnnl_version()->major, kPortable);
}

bool is_of_this_library(std::string_view found) {
  return field(found, "onednn") == library_version();
}

CompatibilityVerdict compare_fingerprint(std::string_view found, int threads) {
  if (field(found, "isa") == kPortable) {
    if (auto refused = unsupported_key(found, portable_fingerprint(), {"format", "onednn"}))
      return std::move(*refused);
    return verdict(Compatibility::kPreferRecompilation,
                   std::format("it is portable: each load packs its weights for {}", isa_name()));
  }
  const std::string here = make_fingerprint();
  if (found == here) return verdict(Compatibility::kOptimal, "");
  if (auto refused = unsupported_key(found, here, {"format"})) return std::move(*refused);
  // Numbers of format tags stay the same within a major version, and which forms weights have is
  // ctxgen's choice.
  if (major_of(field(found, "onednn")) != major_of(field(here, "onednn")))
    return std::move(*unsupported_key(found, here, {"onednn"}));
  const std::vector<std::string> isas = split_isas(field(found, "isa"));
  const auto best = best_isa(isas);
  if (!best)
    return verdict(Compatibility::kUnsupported,
                   std::format("instruction set is \"{}\", this machine has \"{}\"",
                               field(found, "isa"), field(here, "isa")));
  std::string reason;
  const auto compare = [&](std::string_view key, const std::string& value,
                           const std::string& ours) {
    if (value != ours)
      reason +=
          std::format("{}{} is \"{}\", here \"{}\"", reason.empty() ? "" : "; ", key, value, ours);
  };
  compare("isa", isas[*best], field(here, "isa"));
  if (const std::string theirs = field(found, "threads"); !theirs.empty())
    compare("threads", theirs, std::to_string(threads > 0 ? threads : default_threads()));
  if (const std::string theirs = field(found, "cache"); !theirs.empty())
    compare("cache", theirs, cache_sizes());
  if (reason.empty()) return verdict(Compatibility::kOptimal, "");
  return verdict(Compatibility::kPreferRecompilation, std::move(reason));
}

}  // namespace ctxgen::onednn
