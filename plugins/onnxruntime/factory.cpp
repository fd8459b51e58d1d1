#include "factory.h"

#include <memory>
#include <span>

#include "ctxgen/base/version.h"
#include "ctxgen/registry/loaders.h"

#include "execution_provider.h"

namespace ctxgen::plugin {
namespace {

OrtCompiledModelCompatibility verdict_of(const char* info) {
  const ProgramLoader* loader = find_loader(default_loaders(), kEpName);
  if (loader == nullptr) return OrtCompiledModelCompatibility_EP_UNSUPPORTED;
  switch (loader->compatibility(info, 0).verdict) {
    case Compatibility::kOptimal:
      return OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL;
    case Compatibility::kPreferRecompilation:
      return OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION;
    case Compatibility::kUnsupported:
      break;
  }
  return OrtCompiledModelCompatibility_EP_UNSUPPORTED;
}

}  // namespace

OrtEpFactory* Factory::make(OrtApis ort) {
  return new Factory(ort);
}

void Factory::release(OrtEpFactory* factory) noexcept {
  if (factory != nullptr) static_cast<Factory*>(factory)->drop();
}

void Factory::drop() noexcept {
  if (owners_.fetch_sub(1) == 1) delete this;
}

Factory::Factory(OrtApis ort) : EpFactoryTable{}, ort_(ort) {
  ort_version_supported = ort_.tables_version;
  OrtEpFactory::GetName = [](const OrtEpFactory*) noexcept { return kEpName; };
  OrtEpFactory::GetVendor = [](const OrtEpFactory*) noexcept { return "ctxgen"; };
  OrtEpFactory::GetVendorId = [](const OrtEpFactory*) noexcept -> std::uint32_t { return 0; };
  OrtEpFactory::GetVersion = [](const OrtEpFactory*) noexcept { return CTXGEN_VERSION_STRING; };
  OrtEpFactory::ValidateCompiledModelCompatibilityInfo =
      [](OrtEpFactory* self, const OrtHardwareDevice* const*, std::size_t, const char* info,
         OrtCompiledModelCompatibility* verdict) noexcept -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    return guarded(*factory.ort_.api, "judging a compiled model", [&]() -> Status {
      *verdict = verdict_of(info);
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
      *ep = std::make_unique<ExecutionProvider>(factory.ort_, read_options(factory.ort_, *options),
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
  for (const OrtHardwareDevice* device : devices) {
    if (ort_.api->HardwareDevice_Type(device) != OrtHardwareDeviceType_CPU) continue;
    if (count == ep_devices.size()) break;
    OrtEpDevice* made = nullptr;
    CTXGEN_CHECK(
        from_ort(*ort_.api, ort_.ep->CreateEpDevice(this, device, nullptr, nullptr, &made)));
    ep_devices[count++] = made;
  }
  return {};
}

}  // namespace ctxgen::plugin
