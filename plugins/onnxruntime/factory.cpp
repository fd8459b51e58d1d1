#include "factory.h"

#include <charconv>
#include <format>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "ctxgen/base/version.h"
#include "ctxgen/registry/providers.h"

#include "execution_provider.h"

namespace ctxgen::plugin {
namespace {

constexpr std::uint32_t kFirstWithDetails = 24;

/// The number of threads that a fingerprint names; 0 if it names none.
int threads_in(std::string_view fingerprint) {
  constexpr std::string_view kKey = ";threads=";
  const std::size_t at = fingerprint.find(kKey);
  if (at == std::string_view::npos) return 0;
  const std::string_view number = fingerprint.substr(at + kKey.size());
  int threads = 0;
  std::from_chars(number.data(), number.data() + number.size(), threads);
  return threads;
}

}  // namespace

OrtEpFactory* Factory::make(OrtApis ort, const ProgramLoader& loader, const OrtLogger* logger) {
  return new Factory(ort, loader, logger);
}

void Factory::release(OrtEpFactory* factory) noexcept {
  if (factory != nullptr) static_cast<Factory*>(factory)->drop();
}

void Factory::drop() noexcept {
  if (owners_.fetch_sub(1) == 1) delete this;
}

Factory::Factory(OrtApis ort, const ProgramLoader& loader, const OrtLogger* logger)
    : EpFactoryTable{}, ort_(ort), loader_(loader), name_(loader.source()), logger_(logger) {
  ort_version_supported = ort_.tables_version;
  OrtEpFactory::GetName = [](const OrtEpFactory* self) noexcept {
    return static_cast<const Factory*>(self)->name_.c_str();
  };
  OrtEpFactory::GetVendor = [](const OrtEpFactory*) noexcept { return "ctxgen"; };
  OrtEpFactory::GetVendorId = [](const OrtEpFactory*) noexcept -> std::uint32_t { return 0; };
  OrtEpFactory::GetVersion = [](const OrtEpFactory*) noexcept { return CTXGEN_VERSION_STRING; };
  OrtEpFactory::ValidateCompiledModelCompatibilityInfo =
      [](OrtEpFactory* self, const OrtHardwareDevice* const*, std::size_t, const char* info,
         OrtCompiledModelCompatibility* verdict) noexcept -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    return guarded(*factory.ort_.api, "judging a compiled model", [&]() -> Status {
      *verdict = factory.judge(info);
      return {};
    });
  };
  fill_execution_providers();
  fill_devices();
}

void Factory::fill_execution_providers() noexcept {
  OrtEpFactory::CreateEp = [](OrtEpFactory* self, const OrtHardwareDevice* const*,
                              const OrtKeyValuePairs* const*, std::size_t,
                              const OrtSessionOptions* options, const OrtLogger* logger,
                              OrtEp** ep) noexcept -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    *ep = nullptr;
    return guarded(*factory.ort_.api, "creating the execution provider", [&]() -> Status {
      auto provider = CTXGEN_TRY(make_provider(factory.name_));
      auto read = read_options(factory.ort_, *provider, *options);
      *ep = std::make_unique<ExecutionProvider>(factory.ort_, std::move(provider), std::move(read),
                                                logger)
                .release();
      ++factory.owners_;
      return {};
    });
  };
  OrtEpFactory::ReleaseEp = [](OrtEpFactory* self, OrtEp* ep) noexcept {
    if (ep == nullptr) return;
    delete static_cast<ExecutionProvider*>(ep);
    static_cast<Factory*>(self)->drop();
  };
}

/// No memory, data transfer and streams of its own: tensors are ordinary CPU memory.
void Factory::fill_devices() noexcept {
  OrtEpFactory::GetSupportedDevices =
      [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, std::size_t device_count,
         OrtEpDevice** ep_devices, std::size_t max_ep_devices,
         std::size_t* ep_device_count) noexcept -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    *ep_device_count = 0;
    return guarded(*factory.ort_.api, "looking for devices", [&] {
      return factory.find_devices(std::span(devices, device_count),
                                  std::span(ep_devices, max_ep_devices), *ep_device_count);
    });
  };
  if (ort_.tables_version >= kFirstWithDetails)
    GetHardwareDeviceIncompatibilityDetails =
        [](OrtEpFactory* self, const OrtHardwareDevice* device,
           OrtDeviceEpIncompatibilityDetails* details) noexcept -> OrtStatus* {
      auto& factory = *static_cast<Factory*>(self);
      return guarded(*factory.ort_.api, "judging a device",
                     [&] { return factory.explain(*device, *details); });
    };
  OrtEpFactory::CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                     OrtAllocator** allocator) noexcept -> OrtStatus* {
    *allocator = nullptr;
    return nullptr;
  };
  OrtEpFactory::ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) noexcept {};
  OrtEpFactory::CreateDataTransfer = [](OrtEpFactory*,
                                        OrtDataTransferImpl** transfer) noexcept -> OrtStatus* {
    *transfer = nullptr;
    return nullptr;
  };
  OrtEpFactory::IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
  OrtEpFactory::CreateSyncStreamForDevice = [](OrtEpFactory*, const OrtMemoryDevice*,
                                               const OrtKeyValuePairs*,
                                               OrtSyncStreamImpl** stream) noexcept -> OrtStatus* {
    *stream = nullptr;
    return nullptr;
  };
}

Status Factory::find_devices(std::span<const OrtHardwareDevice* const> devices,
                             std::span<OrtEpDevice*> ep_devices, std::size_t& count) {
  OrtKeyValuePairs* pairs = nullptr;
  ort_.api->CreateKeyValuePairs(&pairs);
  const std::unique_ptr<OrtKeyValuePairs, decltype(ort_.api->ReleaseKeyValuePairs)> metadata(
      pairs, ort_.api->ReleaseKeyValuePairs);
  // Weights that stay in files of the source: of 1.29, and of 1.31 on.
  ort_.api->AddKeyValuePair(pairs, "weightless_support", "all");
  ort_.api->AddKeyValuePair(pairs, "weightless_supported_modes", "all_or_external_only");
  for (const OrtHardwareDevice* device : devices) {
    if (ort_.api->HardwareDevice_Type(device) != OrtHardwareDeviceType_CPU) continue;
    if (count == ep_devices.size()) break;
    OrtEpDevice* made = nullptr;
    CTXGEN_CHECK(from_ort(*ort_.api, ort_.ep->CreateEpDevice(this, device, pairs, nullptr, &made)));
    ep_devices[count++] = made;
  }
  return {};
}

/// Every CPU that runs the plugin has the instructions that the smallest target needs.
Status Factory::explain(const OrtHardwareDevice& device,
                        OrtDeviceEpIncompatibilityDetails& details) const {
  constexpr std::uint32_t kDeviceIncompatible = 2;
  if (ort_.api->HardwareDevice_Type(&device) == OrtHardwareDeviceType_CPU) return {};
  const auto& ep = static_cast<const EpApiTable&>(*ort_.ep);
  return from_ort(*ort_.api, ep.DeviceEpIncompatibilityDetails_SetDetails(
                                 &details, kDeviceIncompatible, 0,
                                 "ctxgen compiles for CPUs: this device is another one"));
}

/// ONNX Runtime's message for a model that is refused here does not have our reason, so it is
/// logged. How many threads a session will have is not known yet, and nothing to judge a model by:
/// its execution provider does that.
OrtCompiledModelCompatibility Factory::judge(const char* info) const {
  if (info == nullptr || *info == '\0') return OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
  const auto [verdict, reason] = loader_.compatibility(info, threads_in(info));
  switch (verdict) {
    case Compatibility::kOptimal: return OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL;
    case Compatibility::kPreferRecompilation:
      log_message(ort_, logger_, ORT_LOGGING_LEVEL_WARNING,
                  std::format("{}: the compiled model runs, but should be compiled again: {}",
                              name_, reason));
      return OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION;
    case Compatibility::kUnsupported: break;
  }
  log_message(ort_, logger_, ORT_LOGGING_LEVEL_ERROR,
              std::format("{}: the compiled model does not run here: {}", name_, reason));
  return OrtCompiledModelCompatibility_EP_UNSUPPORTED;
}

}  // namespace ctxgen::plugin
