// The two functions that ONNX Runtime looks for; nothing else is visible.

#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "factory.h"

#define CTXGEN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/// "1.23.2" -> 23. What cannot be read is taken for the oldest.
int minor_version(const char* text) {
  const char* dot = std::strchr(text, '.');
  int minor = 0;
  if (dot != nullptr) std::from_chars(dot + 1, text + std::strlen(text), minor);
  return minor;
}

}  // namespace

CTXGEN_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                           OrtEpFactory** factories, std::size_t max_factories,
                                           std::size_t* count) noexcept {
  using namespace ctxgen::plugin;
  *count = 0;
  const OrtApi* api = base->GetApi(kOrtApiVersion);
  if (api == nullptr) {  // without an API there is no status to return
    std::fprintf(stderr, "ctxgen: error: the plugin needs ONNX Runtime 1.%u or later, this is %s\n",
                 kOrtApiVersion, base->GetVersionString());
    return nullptr;
  }
  if (max_factories == 0)
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "no room for an execution provider factory");
  return guarded(*api, "creating the execution provider factory", [&]() -> ctxgen::Status {
    const OrtApis ort{api, api->GetEpApi(), minor_version(base->GetVersionString())};
    factories[0] = std::make_unique<Factory>(ort).release();
    *count = 1;
    return {};
  });
}

CTXGEN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  delete static_cast<ctxgen::plugin::Factory*>(factory);
  return nullptr;
}
