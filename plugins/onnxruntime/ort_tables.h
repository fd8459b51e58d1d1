#pragma once

#include <cstddef>
#include <cstdint>

#include <onnxruntime_c_api.h>

/// The function tables that the plugin hands to ONNX Runtime, with the members that releases
/// after 1.23 added.
///
/// The plugin is built with the headers of ONNX Runtime 1.23, but newer libraries load it. They
/// should look at `ort_version_supported` before they read a member;
/// GetHardwareDeviceEpIncompatibilityDetails of 1.24 to 1.30 does not. So every table is as long as
/// the newest one and zero where nothing is filled in: a null pointer means "not implemented" for
/// all of these members. Order and signatures are those of the public header
/// onnxruntime_ep_c_api.h; members are only ever appended. Opaque types are declared here and never
/// used. An enumeration is passed as what it is on this platform, an unsigned int.

struct OrtDeviceEpIncompatibilityDetails;
struct OrtEpProfilerImpl;
struct OrtExternalResourceImporterImpl;
struct OrtGraphicsInteropConfig;
struct OrtKernelRegistry;
struct OrtProfilingEvent;
struct OrtProfilingEventsContainer;

#if ORT_API_VERSION < 25
/// What an execution provider gives for a timeline (1.25).
struct OrtEpProfilerImpl {
  std::uint32_t ort_version_supported;
  void (*Release)(OrtEpProfilerImpl*) noexcept;
  OrtStatus* (*StartProfiling)(OrtEpProfilerImpl*, std::int64_t since_start_ns) noexcept;
  OrtStatus* (*StartEvent)(OrtEpProfilerImpl*, std::uint64_t event) noexcept;
  OrtStatus* (*StopEvent)(OrtEpProfilerImpl*, std::uint64_t event,
                          const OrtProfilingEvent*) noexcept;
  OrtStatus* (*EndProfiling)(OrtEpProfilerImpl*, OrtProfilingEventsContainer*) noexcept;
};
#endif

namespace ctxgen::plugin {

/// The newest API whose tables are declared here.
inline constexpr std::uint32_t kNewestOrtApiVersion = 30;

/// Zeros after the newest known member, for a library that reads beyond what it was promised.
inline constexpr std::size_t kSpareMembers = 16;

/// OrtEp up to kNewestOrtApiVersion.
struct EpTable : OrtEp {
#if ORT_API_VERSION < 24
  OrtStatus* (*GetKernelRegistry)(OrtEp*, const OrtKernelRegistry**) noexcept = nullptr;
  OrtStatus* (*IsConcurrentRunSupported)(OrtEp*, bool*) noexcept = nullptr;
#endif
#if ORT_API_VERSION < 25
  OrtStatus* (*Sync)(OrtEp*) noexcept = nullptr;
  OrtStatus* (*CreateProfiler)(OrtEp*, OrtEpProfilerImpl**) noexcept = nullptr;
#endif
#if ORT_API_VERSION < 26
  bool (*IsGraphCaptureEnabled)(const OrtEp*) noexcept = nullptr;
  bool (*IsGraphCaptured)(const OrtEp*, int) noexcept = nullptr;
  OrtStatus* (*ReplayGraph)(OrtEp*, int) noexcept = nullptr;
  unsigned (*GetGraphCaptureNodeAssignmentPolicy)(const OrtEp*) noexcept = nullptr;
  OrtStatus* (*GetAvailableResource)(const OrtEp*, void*) noexcept = nullptr;
#endif
#if ORT_API_VERSION < 27
  OrtStatus* (*OnSessionInitializationEnd)(OrtEp*) noexcept = nullptr;
  OrtStatus* (*GetDefaultMemoryDevice)(const OrtEp*, const OrtMemoryDevice**) noexcept = nullptr;
  OrtStatus* (*ReleaseCapturedGraph)(OrtEp*, int) noexcept = nullptr;
#endif
#if ORT_API_VERSION < 29
  OrtStatus* (*GetWeightlessSupport)(const OrtEp*, unsigned*) noexcept = nullptr;
#endif
  void* spare[kSpareMembers] = {};
};

/// OrtEpFactory up to kNewestOrtApiVersion.
struct EpFactoryTable : OrtEpFactory {
#if ORT_API_VERSION < 24
  OrtStatus* (*GetHardwareDeviceIncompatibilityDetails)(
      OrtEpFactory*, const OrtHardwareDevice*,
      OrtDeviceEpIncompatibilityDetails*) noexcept = nullptr;
  OrtStatus* (*CreateExternalResourceImporterForDevice)(
      OrtEpFactory*, const OrtEpDevice*, OrtExternalResourceImporterImpl**) noexcept = nullptr;
  OrtStatus* (*GetNumCustomOpDomains)(OrtEpFactory*, std::size_t*) noexcept = nullptr;
  OrtStatus* (*GetCustomOpDomains)(OrtEpFactory*, OrtCustomOpDomain**,
                                   std::size_t) noexcept = nullptr;
#endif
#if ORT_API_VERSION < 25
  OrtStatus* (*InitGraphicsInterop)(OrtEpFactory*, const OrtEpDevice*,
                                    const OrtGraphicsInteropConfig*) noexcept = nullptr;
  OrtStatus* (*DeinitGraphicsInterop)(OrtEpFactory*, const OrtEpDevice*) noexcept = nullptr;
#endif
#if ORT_API_VERSION < 28
  OrtStatus* (*SelectBestModelCandidate)(OrtEpFactory*, const OrtHardwareDevice*,
                                         const OrtKeyValuePairs* const*, std::size_t,
                                         const OrtSessionOptions*, std::size_t*) noexcept = nullptr;
#endif
  void* spare[kSpareMembers] = {};
};

/// OrtNodeComputeInfo, which no release up to kNewestOrtApiVersion changed.
struct NodeComputeTable : OrtNodeComputeInfo {
  void* spare[kSpareMembers] = {};
};

/// OrtEpApi up to 1.29, which ONNX Runtime hands out: what a release lacks may not be read.
struct EpApiTable : OrtEpApi {
#if ORT_API_VERSION < 24
  void* kernels_and_devices[28];  // not used here
  OrtStatus* (*DeviceEpIncompatibilityDetails_SetDetails)(OrtDeviceEpIncompatibilityDetails*,
                                                          std::uint32_t reasons,
                                                          std::int32_t error_code,
                                                          const char* notes) noexcept;
  void* control_flow[5];  // not used here
#endif
#if ORT_API_VERSION < 25
  void* schemas[15];  // not used here
  OrtStatus* (*CreateProfilingEvent)(unsigned category, std::int32_t process, std::int32_t thread,
                                     const char* name, std::int64_t since_start_us,
                                     std::int64_t duration_us, const char* const* keys,
                                     const char* const* values, std::size_t count,
                                     OrtProfilingEvent** event) noexcept;
  void (*ReleaseProfilingEvent)(OrtProfilingEvent*) noexcept;
  void* of_events[5];  // not used here
  OrtStatus* (*ProfilingEventsContainer_AddEvents)(OrtProfilingEventsContainer*,
                                                   const OrtProfilingEvent* const* events,
                                                   std::size_t count) noexcept;
#endif
#if ORT_API_VERSION < 29
  OrtStatus* (*SessionOptionsGetWeightlessSourceModelBuffer)(const OrtSessionOptions*,
                                                             const void** data,
                                                             std::size_t* size) noexcept;
#endif
};

/// How many members of a pointer's size a table has in a release; the first is
/// `ort_version_supported`.
constexpr std::size_t ep_members(std::uint32_t version) {
  if (version >= 29) return 26;
  if (version >= 27) return 25;
  if (version >= 26) return 22;
  if (version >= 25) return 17;
  if (version >= 24) return 15;
  return 13;
}
constexpr std::size_t ep_factory_members(std::uint32_t version) {
  if (version >= 28) return 21;
  if (version >= 25) return 20;
  if (version >= 24) return 18;
  return 14;
}
inline constexpr std::size_t kNodeComputeMembers = 4;

// Holds the header of the build against what is said above, then our members, which follow those of
// the header.
#if ORT_API_VERSION <= 30
static_assert(sizeof(OrtEp) == sizeof(void*) * ep_members(ORT_API_VERSION));
static_assert(sizeof(OrtEpFactory) == sizeof(void*) * ep_factory_members(ORT_API_VERSION));
static_assert(sizeof(OrtNodeComputeInfo) == sizeof(void*) * kNodeComputeMembers);
static_assert(sizeof(OrtNodeFusionOptions) == 8);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // no virtual bases: an offset is a constant
static_assert(offsetof(OrtEp, GetCompiledModelCompatibilityInfo) ==
              sizeof(void*) * (ep_members(23) - 1));
static_assert(offsetof(EpTable, IsConcurrentRunSupported) == sizeof(void*) * (ep_members(24) - 1));
static_assert(offsetof(EpTable, CreateProfiler) == sizeof(void*) * (ep_members(25) - 1));
static_assert(offsetof(EpTable, GetAvailableResource) == sizeof(void*) * (ep_members(26) - 1));
static_assert(offsetof(EpTable, ReleaseCapturedGraph) == sizeof(void*) * (ep_members(27) - 1));
static_assert(offsetof(EpTable, GetWeightlessSupport) == sizeof(void*) * (ep_members(29) - 1));
static_assert(offsetof(EpTable, spare) == sizeof(void*) * ep_members(kNewestOrtApiVersion));
static_assert(offsetof(OrtEpFactory, CreateSyncStreamForDevice) ==
              sizeof(void*) * (ep_factory_members(23) - 1));
static_assert(offsetof(EpFactoryTable, GetCustomOpDomains) ==
              sizeof(void*) * (ep_factory_members(24) - 1));
static_assert(offsetof(EpFactoryTable, DeinitGraphicsInterop) ==
              sizeof(void*) * (ep_factory_members(25) - 1));
static_assert(offsetof(EpFactoryTable, SelectBestModelCandidate) ==
              sizeof(void*) * (ep_factory_members(28) - 1));
static_assert(offsetof(EpFactoryTable, spare) ==
              sizeof(void*) * ep_factory_members(kNewestOrtApiVersion));
static_assert(offsetof(NodeComputeTable, spare) == sizeof(void*) * kNodeComputeMembers);
#pragma GCC diagnostic pop
#endif

}  // namespace ctxgen::plugin
