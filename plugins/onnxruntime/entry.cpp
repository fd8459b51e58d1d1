// The two functions that ONNX Runtime looks for; nothing else is visible.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "ctxgen/registry/loaders.h"

#include "factory.h"
#include "ort_tables.h"
#include "running/run_watch.h"

#define CTXGEN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/// "1.23.2" -> 23. What cannot be read is taken for the oldest, another major version for newer
/// than all.
int minor_version(std::string_view text) {
  constexpr int kNewerThanAll = 1000;
  if (!text.starts_with("1.")) return kNewerThanAll;
  int minor = 0;
  std::from_chars(text.data() + 2, text.data() + text.size(), minor);
  return minor;
}

}  // namespace

CTXGEN_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base,
                                           const OrtLogger* logger, OrtEpFactory** factories,
                                           std::size_t max_factories, std::size_t* count) noexcept {
  using namespace ctxgen::plugin;
  *count = 0;
  const OrtApi* api = base->GetApi(kOldestOrtApiVersion);
  if (api == nullptr) {  // without an API there is no status to return
    std::fprintf(stderr, "ctxgen: error: the plugin needs ONNX Runtime 1.%u or later, this is %s\n",
                 kOldestOrtApiVersion, base->GetVersionString());
    return nullptr;
  }
  const auto loaders = ctxgen::default_loaders();  // one execution provider each
  if (max_factories < loaders.size())
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "no room for the execution provider factories");
  return guarded(*api, "creating the execution provider factory", [&]() -> ctxgen::Status {
    const int minor = minor_version(base->GetVersionString());
    const auto tables =
        std::clamp(static_cast<std::uint32_t>(minor), kOldestOrtApiVersion, kNewestOrtApiVersion);
    const OrtApis ort{api,    api->GetEpApi(),           minor,
                      tables, find_terminate_flag(*api), find_newer_api(*api, minor)};
    for (const ctxgen::ProgramLoader* loader : loaders)
      factories[(*count)++] = Factory::make(ort, *loader, logger);
    return {};
  });
}

CTXGEN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  ctxgen::plugin::Factory::release(factory);
  return nullptr;
}
